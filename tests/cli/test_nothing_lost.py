"""No output takes the place of an input, and a command removes only what it wrote itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.data.writing import SUFFIX, protect, protecting, replacing
from mncover.errors import SettingsError
from mncover.suites.formats import save_suite
from tests.folders import Material, suite_of, write_material

REFUSED = "this command reads it, so it is not replaced"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Material:
    made = write_material(tmp_path_factory.mktemp("lost"))
    folder = made.folder
    save_suite(suite_of(), folder / "tests.jsonl")
    (folder / "a.csv").write_text("text\n" + made.train.read_text().replace(",", ""))
    (folder / "recipe.toml").write_text('[[test]]\nname = "a"\n')
    for name in ("run.mncover", "b.mncover"):
        run = [*made.run("-q", "-o"), str(folder / name)]
        assert main([*run[:2], str(folder / "tests.jsonl"), *run[3:]]) == 0
    os.link(folder / "tests.jsonl", folder / "link.jsonl")
    return made


RUN = ["run", "model", "tests.jsonl", "--train", "train.txt", "--max-length", "12", "-o"]
AUGMENT = ["augment", "model", "suite.jsonl", "--train", "train.txt", "-o"]
SELECT = ["select", "run.mncover", "--budget", "1", "-o"]
MASKS = ["masks", "model", "--train", "a.csv", "--sweep", "seed=1", "--texts", "20", "-o"]
# Each ends with its output, which it reads as well.
REPLACING = [
    [*RUN, "tests.jsonl"],
    [*RUN, "./model/../tests.jsonl"],
    [*RUN, "link.jsonl"],
    [*RUN, "train.txt"],
    [*RUN, "model/config.json"],
    [*RUN, "model/model.safetensors"],
    [*AUGMENT, "suite.jsonl"],
    [*MASKS[:4], "-o", "a.csv"],
    [*SELECT, "run.mncover"],
    [*SELECT, "tests.jsonl"],
    ["json", "run.mncover", "-o", "run.mncover"],
    ["json", "-o", "run.mncover"],
    ["report", "run.mncover", "--junit", "run.mncover"],
    ["report", "b.mncover", "--since", "run.mncover", "--junit", "run.mncover"],
    ["combine", "run.mncover", "b.mncover", "-o", "b.mncover"],
    ["suite", "convert", "tests.jsonl", "-o", "tests.jsonl"],
    ["suite", "export", "tests.jsonl", "-o", "tests.jsonl"],
    ["suite", "make", "recipe.toml", "-o", "recipe.toml"],
]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("arguments", REPLACING, ids=" ".join)
def test_an_output_never_replaces_an_input(
    arguments: list[str],
    files: Material,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(files.folder)
    before = contents(files.folder)
    assert main(arguments) == 1
    assert REFUSED in capsys.readouterr().err
    assert contents(files.folder) == before


def test_neither_does_a_file_that_is_written_beside_the_output(
    files: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files.folder)
    before = (files.folder / "a.csv").read_bytes()
    assert main([*MASKS, "a.safetensors"]) == 1  # the table of a sweep is a.csv
    assert REFUSED in capsys.readouterr().err
    assert (files.folder / "a.csv").read_bytes() == before


def test_a_device_is_not_replaced() -> None:
    refused = pytest.raises(SettingsError, match="not a file that can be replaced")
    with refused, replacing(Path(os.devnull)):
        raise AssertionError
    assert not Path(os.devnull).is_file()


def test_what_a_killed_process_left_is_cleared_away_and_nothing_else(tmp_path: Path) -> None:
    left, other = tmp_path / f".a.txt.abcdefgh{SUFFIX}", tmp_path / ".a.txt.abcdefgh.tmp"
    for path in (left, other):
        path.write_text("half")
    with protecting(), replacing(tmp_path / "b.txt") as mine:
        with protecting(), replacing(tmp_path / "c.txt") as second:  # as another process would
            second.write_text("c")
        assert mine.exists()
        mine.write_text("b")
    assert {path.name for path in tmp_path.iterdir()} == {other.name, "b.txt", "c.txt"}


def test_protection_ends_with_the_command(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("mine")
    with protecting():
        protect([path, None, "no/such/model", "\0"])
        with pytest.raises(SettingsError, match=REFUSED), replacing(path):
            raise AssertionError
    with replacing(path) as temporary:
        temporary.write_text("new")
    assert path.read_text() == "new"
