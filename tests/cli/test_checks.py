"""What is looked at before any work: paths, targets and room; torch is loaded afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mncover.cli import main
from mncover.data import places
from mncover.data.layout import Layout, Site
from mncover.data.places import Room, check_target, free_memory, in_bytes
from mncover.errors import SettingsError
from tests.folders import Material, write_material

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return write_material(tmp_path_factory.mktemp("material"))


# The file `a.txt` and the folder `here` exist, `model` looks like one.
WRONG = [
    (["run", "./none", "a.txt", "--train", "a.txt"], "./none: no such folder."),
    (["run", "here/none", "a.txt", "--train", "a.txt"], "here/none: no such folder."),
    (["run", "here", "a.txt", "--train", "a.txt"], "here: the folder has no config.json"),
    (["run", "model", "none.txt", "--train", "a.txt"], "none.txt: no such file."),
    (["run", "model", "here", "--train", "a.txt"], "here: a folder, not a file."),
    (["run", "model", "a.txt", "--train", "none.txt"], "none.txt: no such file."),
    (["run", "model", "a.txt", "--train", "a.txt", "--masks", "none"], "no such file of masks"),
    (["run", "model", "a.txt", "--train", "a.txt", "--text", "words"], "no field 'words'"),
    (["run", "model", "a.txt", "--train", "a.txt", "--classes", "odd"], "'odd'"),
    (["run", "model", "a.txt", "--train", "a.txt", "--criteria", "odd"], "no criterion 'odd'"),
    (["run", "model", "a.txt", "--train", "a.txt", "-o", "here"], "here: a folder is there"),
    (["run", "model", "a.txt", "--train", "a.txt", "-o", "a.txt/x/y"], "a.txt is no folder"),
    (["curve", "model", "a.txt", "--train", "a.txt", "-o", "a.txt"], "a.txt: a file is there"),
    (["compare", "model", "a.txt", "none.txt", "--train", "a.txt"], "none.txt: no such file."),
    (["augment", "./none", "a.txt", "--train", "a.txt", "-o", "b.jsonl"], "no such folder."),
    (["augment", "model", "a.txt", "--train", "a.txt", "-o", "here"], "here: a folder is there"),
    (["masks", "model", "--train", "none.txt"], "none.txt: no such file."),
    (["masks", "model", "--train", "a.txt", "-o", "here"], "here: a folder is there"),
    (["combine", "a.txt", "a.txt", "-o", "here"], "here: a folder is there"),
    (["json", "-o", "a.txt/b"], "a.txt is no folder"),
    (["report", "--junit", "here"], "here: a folder is there"),
    (["html", "-o", "a.txt"], "a.txt: a file is there"),
    (["suite", "convert", "a.txt", "-o", "a.txt/b.jsonl"], "a.txt is no folder"),
    (["demo", "--folder", "a.txt"], "a.txt: a file is there"),
]
SCRIPT = """
import contextlib, io, json, sys
from mncover.cli import main
said = []
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as error:
        assert main(arguments) == 1, arguments
    said.append(error.getvalue())
assert "torch" not in sys.modules
print(json.dumps(said))
"""


def test_wrong_paths_and_names_are_told_before_torch_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A text.\n")
    (tmp_path / "here").mkdir()
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([command for command, _ in WRONG])],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for (command, expected), said in zip(WRONG, json.loads(done.stdout), strict=True):
        assert expected in said, command
        assert said.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", "here", "model"}


def test_a_reader_does_not_need_the_files_that_measuring_needed(
    files: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(files.run("-q", "-o", str(tmp_path / "run.mncover"))) == 0
    monkeypatch.chdir(tmp_path)
    Path("pyproject.toml").write_text('[tool.mncover]\ntrain = "gone.csv"\nmasks = "gone"\n')
    for command in (["report"], ["json"], ["select", "--budget", "50%"]):
        assert main(command) == 0


def test_a_target_may_lie_in_folders_that_do_not_exist_yet(tmp_path: Path) -> None:
    check_target(tmp_path / "a" / "b" / "run.mncover")
    check_target(tmp_path / "a" / "b", folder=True)
    check_target(tmp_path, folder=True)
    with pytest.raises(SettingsError, match="a folder is there"):
        check_target(tmp_path)


def test_a_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(SettingsError, match="cannot be written to"):
        check_target(tmp_path / "run.mncover")


def smollm(length: int) -> Layout:
    """Return the layout of a model of 30 layers with 9 heads, at some length."""
    hidden = (Site("hidden", layer, 1, length, 576) for layer in range(31))
    attention = (Site("attention", layer, 9, length, length) for layer in range(1, 31))
    return Layout((*hidden, *attention), causal=True)


def test_room_is_estimated_and_said_where_it_is_much() -> None:
    large, small = (Room.of(smollm(length), [(smollm(length), 10)]) for length in (1024, 64))
    assert in_bytes(large.ranges) == "2.4 GB"
    assert large.memory > large.ranges
    assert "--max-length 1024" in large.words(1024)
    assert "2.4 GB in the cache" in large.words(1024)
    assert small.words(64) == ""
    assert Room.of(smollm(64), [(smollm(64), 10)] * 2).memory > small.memory


def test_what_the_machine_cannot_hold_is_refused_before_calibrating(
    files: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "free_memory", lambda: 1000)
    assert main(files.run()) == 1
    said = capsys.readouterr().err
    assert "of memory for" in said
    assert "1.0 kB are free: use a smaller max_length, or positions any or mean." in said
    monkeypatch.setattr(places, "free_memory", lambda: None)  # a system that does not say
    assert main(files.run("-q", "-o", str(files.folder / "x.mncover"))) == 0


def test_much_memory_is_said_before_the_work(
    files: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(places, "WORTH_SAYING", 1)
    assert main(files.run("-o", str(files.folder / "x.mncover"))) == 0
    assert "--max-length 12 makes " in capsys.readouterr().err


def test_ranges_that_do_not_fit_on_the_disk_are_not_cached(
    files: Material,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    full: Any = type("Usage", (), {"free": 10})
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    assert main(files.run("-q", "-o", str(tmp_path / "x.mncover"))) == 0
    warned = capsys.readouterr().err
    assert re.match(r"mncover: warning: cannot cache .*: they take .* and 10 B are free", warned)
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


def test_the_memory_that_is_free_is_known_on_linux() -> None:
    if sys.platform == "linux":
        assert (free_memory() or 0) > 10**6
