"""A signal is one line and an exit code, whatever a library makes of it; so is a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mncover.cli import main
from mncover.cli.signals import watching
from mncover.data import datafile
from mncover.data.writing import replacing
from mncover.suites.formats import save_suite
from tests.folders import Material, suite_of, write_material

SRC = str(Path(__file__).resolve().parents[2] / "src")
# A library that turns Ctrl-C into an error of its own, and prints what it ignores.
SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mncover import cli
from mncover.cli import cache
def entries():
    class Loud:
        def __del__(self):
            raise RuntimeError("ignored")
    try:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    except KeyboardInterrupt:
        Loud()
        raise ImportError("cannot be initialised") from None
cache.entries = entries
sys.exit(cli.main(["cache"]))
"""
EARLY = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mncover.__main__ import start
plain = builtins.__import__
def interrupting(name, *more):
    if name.startswith("mncover.cli"):
        os.kill(os.getpid(), signal.SIGINT)
    return plain(name, *more)
builtins.__import__ = interrupting
sys.exit(start())
"""

# Ctrl-C some time after torch begins to be imported, or a loop begins to be compiled.
LATER = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
where, seconds = sys.argv[1], float(sys.argv[2])
sys.argv = ["mncover", *sys.argv[3:]]
def later(state=[]):
    if not state:
        state.append(None)
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
if where == "torch":
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "torch":
                later()
    sys.meta_path.insert(0, Finder)
else:
    from numba.core.dispatcher import Dispatcher
    plain = Dispatcher.compile
    def compile(self, signature):
        later()
        return plain(self, signature)
    Dispatcher.compile = compile
from mncover.__main__ import start
sys.exit(start())
"""


def run(script: str, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    env = {**os.environ, "PYTHONPATH": SRC, **more}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kind", "code", "says"), [("SIGINT", 130, "Interrupted."), ("SIGTERM", 143, "Terminated.")]
)
def test_a_signal_is_one_line(kind: str, code: int, says: str) -> None:
    done = run(SCRIPT, kind)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{says}\n")


def test_an_interrupted_start_is_one_line() -> None:
    done = run(EARLY)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return write_material(tmp_path_factory.mktemp("signals"))


@pytest.mark.parametrize(("where", "seconds"), [("torch", 0.05), ("torch", 0.4), ("numba", 0.1)])
def test_ctrl_c_while_torch_is_imported_or_numba_compiles_is_one_line(
    where: str, seconds: float, material: Material, tmp_path: Path
) -> None:
    command = material.run("-q", "-o", str(tmp_path / "run.mncover"))
    done = run(LATER, where, str(seconds), *command, NUMBA_CACHE_DIR=str(tmp_path / "numba"))
    if done.returncode == 0:  # a library kept the interrupt to itself: then the work is done
        assert not done.stderr
        assert datafile.read(tmp_path / "run.mncover").runs
        return
    assert done.returncode == 130, done.stderr
    *before, last = done.stderr.splitlines()
    assert last == "Interrupted."
    assert not before or "run the same command to resume" in before[0]
    assert len(before) < 2
    assert not [path.name for path in tmp_path.rglob("*.mncover.tmp")]


@pytest.mark.parametrize("name", ["mkstemp", "unlink"])
def test_a_signal_while_a_temporary_file_comes_or_goes_leaves_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place: Any = tempfile if name == "mkstemp" else Path
    plain = getattr(place, name)

    def interrupted(*arguments: Any, **named: Any) -> Any:
        """The signal comes right after the file was made, or right before it is deleted."""
        if name == "unlink":
            os.kill(os.getpid(), signal.SIGTERM)
        made = plain(*arguments, **named)
        if name == "mkstemp":
            os.kill(os.getpid(), signal.SIGTERM)
        return made

    monkeypatch.setattr(place, name, interrupted)

    def fail() -> None:
        with replacing(tmp_path / "a.txt"):
            raise OSError("full")

    with watching() as watch, pytest.raises(KeyboardInterrupt):
        fail()
    assert watch.came == [signal.SIGTERM]
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_disk_is_one_line() -> None:
    script = "import sys; from mncover.cli import main; sys.exit(main(['transform', 'list']))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": SRC},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "No space left on device" in done.stderr


MASKS = ["masks", "model", "--train", "train.txt", "--set", "epochs=1", "--max-length", "9"]


@pytest.mark.parametrize(
    ("command", "file", "saving"),
    [
        (MASKS, "masks.safetensors", False),
        (MASKS, "masks.safetensors", True),
        (["suite", "convert", "tests.jsonl"], "b.jsonl", False),
        (["suite", "export", "tests.jsonl"], "b.txt", False),
    ],
)
def test_an_output_that_is_too_large_for_the_disk_is_one_line(
    command: list[str],
    file: str,
    saving: bool,
    material: Material,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(material.folder)
    save_suite(suite_of(), Path("tests.jsonl"))
    if saving:  # the state that is saved now and then does not fit either
        monkeypatch.setattr("mncover.data.files.SECONDS", 0.0)
    capsys.readouterr()
    with smaller_files(200):
        assert main([*command, "-q", "-o", file]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mncover: {file}"), said
    assert "too large" in said
    assert said.count("\n") == 1
    assert [path.name for path in material.folder.rglob(f"*{file}*")] == []


LONG = ("--max-length", "60", "-q", "-o")  # ranges take several times as much as the data file


def test_a_run_whose_cache_is_full_warns_and_one_without_room_names_the_place(
    material: Material,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MNCOVER_CACHE_DIR", str(tmp_path / "cache"))
    output = tmp_path / "run.mncover"
    with smaller_files(60_000):
        assert main(material.run(*LONG, str(output))) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"mncover: warning: cannot cache the ranges in {tmp_path}/cache/ranges:")
    assert said.endswith(": File too large.\n")
    assert output.stat().st_size < 60_000
    other = tmp_path / "b.mncover"
    for size, why in (
        (20_000, f"{other}: cannot be written (File too large)."),
        (2_000, f"{tempfile.gettempdir()}: File too large."),  # codes of texts wait there
    ):
        with smaller_files(size):
            assert main(material.run(*LONG, str(other))) == 1
        assert capsys.readouterr().err.splitlines()[-1] == f"mncover: {why}"
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "run.mncover"}


@contextmanager
def smaller_files(size: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes, as on a full disk."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
