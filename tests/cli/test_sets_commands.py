"""`mncover curve`, `compare` and `reproduce`: options, files and refusals."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.suites.formats import save_suite
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return write_material(tmp_path)


def test_curve_writes_tables_and_pictures(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--train", str(material.train), "--max-length", "12", "--shuffles", "2"]
    command = ["curve", str(material.model), str(material.suite), *options]
    assert main([*command, "--threshold", "0", "--threshold", "0.001", "-o", "out"]) == 0
    shown = capsys.readouterr().out
    assert "average, shuffled" in shown
    with Path("out/reductions.csv").open(encoding="utf-8") as file:
        assert {row["threshold"] for row in csv.DictReader(file)} == {"0.0", "0.001"}
    assert Path("out/curves-cover.png").exists()
    assert main(material.run("-q")) == 0
    shares = {c.name: c.by["cover"].tally for c in Coverage.load("run.mncover").result().contexts}
    with Path("out/curves.csv").open(encoding="utf-8") as file:
        points = [row for row in csv.DictReader(file) if row["threshold"] == ""]
    for name, tally in shares.items():  # of the reachable bins, unlike `reproduce figure4`
        *_, last = (p for p in points if (p["name"], p["order"]) == (name, "given"))
        assert float(last["coverage"]) == pytest.approx(tally.share_of_reachable)
        assert tally.share_of_reachable > tally.share
    assert main([*command, "--test", "b", "--texts", "4", "-o", "few", "-q"]) == 0
    with Path("few/reductions.csv").open(encoding="utf-8") as file:
        assert {(r["name"], r["texts"]) for r in csv.DictReader(file)} == {("b", "4")}
    assert "no test 'z'; it has a, b, c" in error_of(capsys, *command, "--test", "z")
    assert "--train" in error_of(capsys, *command[:3])


def test_compare_writes_tables_and_pictures(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("more.txt").write_text("\n".join(tiny.texts(10, seed=3)))
    options = ["--train", str(material.train), "--max-length", "12", "--draws", "3"]
    command = ["compare", str(material.model), str(material.suite), "more.txt", *options]
    assert main([*command, "-o", "out"]) == 0
    assert "8 texts of each set" in capsys.readouterr().out
    assert json.loads(Path("out/compare.json").read_text())["cover"]["names"] == ["suite", "more"]
    assert Path("out/compare-cover.png").exists()
    assert "two sets to compare" in error_of(capsys, *command[:3], *options)
    assert "fewer than 11" in error_of(capsys, *command, "--texts", "11")
    twice = ["compare", str(material.model), "more.txt", "./more.txt", *options]
    assert "two sets are called 'more'" in error_of(capsys, *twice)


def test_figure4_and_table3_put_the_papers_figures_beside_ours(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--model", str(material.model), "--train", str(material.train), "--max-length", "12"]
    suite = ["--suite", str(material.suite), "--test", "a", "--test", "c", "--shuffles", "1"]
    assert main(["reproduce", "figure4", *files, *suite]) == 0
    assert "28.83" in capsys.readouterr().out
    assert Path("figure4/figure4-cover.png").exists()
    assert "97.17" in Path("figure4/reductions.txt").read_text()
    Path("more.txt").write_text("\n".join(tiny.texts(10, seed=3)))
    sets = ["--set", str(material.suite), "--set", "more.txt", "--texts", "10", "--draws", "2"]
    assert main(["reproduce", "table3", *files, *sets]) == 0
    assert "0.175 for A1" in " ".join(capsys.readouterr().out.split())
    assert Path("table3/table3.json").exists()


def test_drawing_without_matplotlib_is_refused_before_any_work(
    material: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    command = ["curve", "no model", str(material.suite), "--train", str(material.train)]
    assert "mncover[plot]" in error_of(capsys, *command)


def test_table1_is_written_and_judged_by_another_model(
    material: Material, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = suite_of()
    named = zip(suite.tests, ("change names", "typos", "reducers"), strict=True)
    tests = tuple(replace(test, name=name) for test, name in named)
    save_suite(replace(suite, tests=tests), material.suite)
    (tmp_path / "other").mkdir()
    other = write_material(tmp_path / "other", "distilbert")
    files = ["--suite", str(material.suite), "--train", str(material.train), "--max-length", "12"]
    command = ["reproduce", "table1", "--model", str(material.model), *files, "--texts", "10"]
    assert main([*command, "--judge", str(other.model), "-o", "out"]) == 0
    shown = capsys.readouterr()
    assert "the paper's protocol" in shown.out
    assert "no test 'protected: race', so it is left out" in shown.err.replace("\n", " ")
    content = json.loads(Path("out/table1.json").read_text())
    assert [row["test"] for row in content["rows"]] == ["change names", "typos", "reducers"]
    assert (content["first_texts"], content["judge"]) == (10, "model")
    assert "average" in Path("out/table1.txt").read_text()
    assert "none of the tests of table6" in error_of(
        capsys, "reproduce", "table6", "--model", str(material.model), *files
    )
