"""The wheel in an empty environment: what reads data files works there, without torch.

`make test` runs this by its name; it is no part of the other tests, because pip installs packages,
which takes a network or pip's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.errors import RUNNING
from mncover.suites.formats import save_suite
from tests.folders import suite_of, write_material

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run a program that must end with an exit code; return what it printed."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of programs of an environment that has nothing but the wheel."""
    place = tmp_path_factory.mktemp("install")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", place, ROOT, cwd=place)
    (wheel,) = place.glob("*.whl")
    venv.create(place / "venv", with_pip=False)
    programs = place / "venv" / "bin"
    into: list[str | Path] = [
        "--python",
        programs / "python",
        "install",
        "--no-compile",
        "--only-binary=:all:",
    ]
    run(*pip, *into, "--constraint", ROOT / "constraints.txt", wheel, cwd=place)
    return programs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a data file of a suite of tests, and the suite."""
    place = tmp_path_factory.mktemp("data")
    files = write_material(place)
    save_suite(suite_of(), place / "tests.jsonl")
    arguments = ["--train", str(files.train), "--max-length", "12", "--quiet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setenv("MNCOVER_CACHE_DIR", str(place / "cache"))
        assert main(["run", str(files.model), "tests.jsonl", *arguments]) == 0
    return place


def test_what_runs_a_model_is_not_there(empty: Path, folder: Path) -> None:
    script = "import importlib.util as u, sys; print([n for n in sys.argv[1:] if u.find_spec(n)])"
    assert run(empty / "python", "-c", script, *RUNNING, cwd=folder).strip() == "[]"
    run(empty / "python", "-c", "from mncover import Coverage, Finder, Masks", cwd=folder)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("--version", 0),
        ("run --help", 0),
        ("report --failures 2 --heads", 0),
        ("report --format github --junit cases.xml", 0),
        ("report --fail-under 99", 2),
        ("report --fail-under-test words=99", 2),
        ("report --max-failing 0", 2),
        ("report --max-failing 100%", 0),
        ("report --max-failing-test words=100%", 0),
        ("report --since run.mncover --fail-on-new-failures", 0),
        ("json --texts --pretty -o run.json", 0),
        ("html --since run.mncover", 0),
        ("combine run.mncover run.mncover -o both.mncover", 0),
        ("select --budget 50% -o smoke.jsonl", 0),
        ("suite show tests.jsonl", 0),
        ("debug data", 0),
        ("debug sys", 0),
        ("cache", 0),
    ],
)
def test_commands_that_read_work(empty: Path, folder: Path, command: str, code: int) -> None:
    run(empty / "mncover", *command.split(), cwd=folder, code=code)


def test_the_numbers_are_those_of_a_full_installation(
    empty: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = json.loads(run(empty / "mncover", "json", "run.mncover", cwd=folder))
    assert main(["json", str(folder / "run.mncover")]) == 0
    assert json.loads(capsys.readouterr().out) == there


def test_running_a_model_says_what_to_install(empty: Path, folder: Path) -> None:
    arguments = ["run", "model", "tests.jsonl", "--train", "train.txt"]
    said = run(empty / "mncover", *arguments, cwd=folder, code=1)
    message = "mncover: running a model needs the package '{}'. Install it with: "
    assert said.strip() in [message.format(p) + "pip install 'mncover[run]'" for p in RUNNING]
