"""The page for newcomers, executed: what it says to write is written, to run is run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.cli.demo import HERE, demo_model
from mncover.suites.formats import load_suite

PAGE = Path(__file__).parents[2] / "docs" / "first_suite.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_the_first_suite_goes_from_ten_lines_to_a_reduced_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (suite,) = blocks("json")
    assert len(suite.splitlines()) == 10
    Path("opinions.jsonl").write_text(suite)
    places = {"MODEL": str(demo_model()), "TRAIN": str(HERE / "calibration.txt")}
    shown = []
    for block in blocks("console"):
        arguments = [places.get(word, word) for word in shlex.split(block.removeprefix("$ "))]
        assert arguments[0] == "mncover"
        assert main(arguments[1:]) == 0, block
        shown.append(capsys.readouterr().out)
    run, report, select, again = shown
    assert "Failing" in run
    assert "negation" in report
    assert "fail; expects label" in report
    assert "(right: " in report
    assert "smoke.jsonl: 3 of 6 cases." in select
    assert [len(test.cases) for test in load_suite(Path("smoke.jsonl")).tests] == [1, 1, 1]
    assert "smoke.mncover" in again


def test_the_recipe_on_the_page_makes_a_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe.toml").write_text(blocks("toml")[0])
    Path("reviews.txt").write_text("A good film.\nA bad film.\n")
    assert main(["suite", "make", "recipe.toml", "-o", "suite.jsonl", "-q"]) == 0
    assert [len(test.cases) for test in load_suite(Path("suite.jsonl")).tests] == [100, 2]
