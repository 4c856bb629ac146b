"""Parts of a suite, from `mncover run` to everything that reads the data file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.suites.formats import load_suite, save_suite
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material

Shown = pytest.CaptureFixture[str]
RUN = Path("run.mncover")


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return write_material(tmp_path)


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_a_part_is_measured_as_a_file_of_its_texts(material: Material, capsys: Shown) -> None:
    """The independent check: the same lines in a file of their own."""
    assert main(material.run("--test", "a", "--test", "c", "--limit", "9", "--seed", "4")) == 0
    shown = capsys.readouterr()
    part = datafile.read(RUN)
    places = part.table["index"].tolist()
    lines = lines_of(material.suite)
    assert len(places) == 9
    assert {json.loads(lines[place])["context"] for place in places} == {"a", "c"}
    material.suite.write_text("\n".join(lines[place] for place in sorted(places)))
    assert main(material.run("-q", "-o", "whole.mncover")) == 0
    whole = datafile.read(Path("whole.mncover"))
    assert part.table.texts == whole.table.texts
    np.testing.assert_array_equal(part.total(), whole.total())
    for name in ("context", "length", "label", "prediction"):
        np.testing.assert_array_equal(part.table[name], whole.table[name])
    np.testing.assert_array_equal(part.table.new["cover"], whole.table.new["cover"])
    says = (
        "9 of 30 cases (--test a, c; --limit 9: drawn at random, the same share of every test, "
        "seed 4)"
    )
    assert f"Running a part of {material.suite}: {says}." in " ".join(shown.err.split())
    assert f"Part of {material.suite}: {says}" in shown.out
    assert (part.runs[0].part, part.runs[0].whole, part.runs[0].texts) == (says, 30, 9)
    assert (whole.runs[0].part, whole.runs[0].whole) == ("", 0)
    assert not part.incomplete


def test_every_report_says_that_it_is_a_part(material: Material, capsys: Shown) -> None:
    save_suite(suite_of(), material.suite)
    assert main(material.run("-q", "-k", "words")) == 0
    says = "12 of 32 cases (-k words)"
    for kind, written in (("text", says), ("markdown", r"12 of 32 cases \(\-k words\)")):
        assert main(["report", "--format", kind]) == 0
        assert written in capsys.readouterr().out
    assert main(["json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == [f"{material.suite}: {says}"]
    assert main(["html", "-q"]) == 0
    assert says in Path("mncover-html/index.html").read_text()
    assert main(["report", "--junit", "out.xml"]) == 0
    (found,) = ElementTree.parse("out.xml").getroot().iter("property")
    assert found.get("value") == says


def test_cases_keep_their_numbers_and_everything_after_a_run_works(
    material: Material, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_suite(suite_of(), material.suite)
    assert main(material.run("-q", "-o", "whole.mncover")) == 0
    assert main(material.run("-q", "--limit", "14", "--seed", "2")) == 0
    material.suite.unlink()  # what comes later does not need it
    data, whole = datafile.read(RUN), datafile.read(Path("whole.mncover"))
    texts = {int(n): t for n, t in zip(whole.table["index"], whole.table.texts, strict=True)}
    cases = {int(i): int(c) for i, c in zip(whole.table["index"], whole.table["case"], strict=True)}
    rows = zip(data.table["index"], data.table["case"], data.table.texts, strict=True)
    assert all((cases[index], texts[index]) == (case, text) for index, case, text in rows)

    capsys.readouterr()
    failing = {}
    for name in ("whole", "run"):
        assert main(["json", f"{name}.mncover"]) == 0
        tests = json.loads(capsys.readouterr().out)["tests"]
        failing[name] = {(t["test"], case) for t in tests for case in t["failing_cases"]}
    starts = {"words": 0, "change names": 12, "intensifiers": 22}
    here = {int(case) for case in data.table["case"]}
    in_part = {(t, case) for t, case in failing["whole"] if starts[t] + case in here}
    assert failing["run"] == in_part
    assert 0 < len(in_part) < len(failing["whole"])

    assert main(["report", "--since", "whole.mncover", "--fail-on-new-failures"]) == 0
    assert "18 cases of that file not run here" in capsys.readouterr().out
    assert main(["select", "--budget", "50%", "-o", "few.jsonl", "-q"]) == 0
    few = load_suite(Path("few.jsonl"))
    for test in few.tests:
        assert set(test.cases) <= set(suite_of()[test.name].cases)
    assert main(["next", "-n", "4", "-o", "batch.jsonl", "-q"]) == 0
    batch = [json.loads(line) for line in lines_of(Path("batch.jsonl"))]
    assert {row["case"] for row in batch} <= here
    assert main(["next", "-n", "4", "--judge", "-q"]) == 0
    assert main(["found"]) == 0
    found = capsys.readouterr().out
    assert "judged cases fail; there are 14 cases." in found
    assert "Part of a suite: 14 of 32 cases (--limit 14" in found
    assert main(["found", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["part"] == data.runs[0].part
    assert main(["found", "--html", "found.html"]) == 0
    assert data.runs[0].part in Path("found.html").read_text()
    monkeypatch.setattr("typer.getchar", iter("wokq").__next__)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    assert main(["next", "--review", "-n", "3"]) == 0
    assert "Judged now: " in capsys.readouterr().out
    assert main(["combine", "run.mncover", "whole.mncover", "-o", "both.mncover", "-q"]) == 0
    assert len(Coverage.load("both.mncover").result().parts) == 1


def test_select_copies_records_of_a_part_and_says_what_to_do_if_the_suite_moved(
    material: Material, capsys: Shown
) -> None:
    lines = lines_of(material.suite)
    assert main(material.run("-q", "--limit", "12", "--seed", "7")) == 0
    places = sorted(datafile.read(RUN).table["index"].tolist())
    assert places != list(range(12))
    select = ["select", "--budget", "100%", "-o", "few.jsonl", "-q"]
    assert main(select) == 0
    assert lines_of(Path("few.jsonl")) == [lines[place] for place in places]
    material.suite.rename("moved.jsonl")
    refused = error_of(capsys, *select)
    assert f"{material.suite}: no such file any more" in refused
    assert "--suite" in refused
    assert main([*select, "--suite", "moved.jsonl"]) == 0


def test_samples_of_two_seeds_differ_and_of_one_seed_agree(material: Material) -> None:
    found = []
    for seed in ("1", "1", "2"):
        assert main(material.run("-q", "--limit", "10", "--seed", seed)) == 0
        found.append(datafile.read(RUN).table["index"].tolist())
    assert found[0] == found[1] != found[2]
    assert found[0] != list(range(10))


def test_labels_can_be_left_alone(material: Material, capsys: Shown) -> None:
    material.suite.write_text('{"text": "good", "label": "sideways"}\n{"text": "bad film"}\n')
    assert "none of the model's classes" in error_of(capsys, *material.run())
    assert main(material.run("-q", "--no-label")) == 0
    assert datafile.read(RUN).table["label"].tolist() == [-1, -1]
    save_suite(suite_of(), material.suite)
    assert "--no-label is for files of texts" in error_of(capsys, *material.run("--no-label"))


def test_parts_that_are_not_there_are_refused_before_any_work(
    material: Material, capsys: Shown
) -> None:
    assert "no test 'd': there are a, b, c." in error_of(capsys, *material.run("--test", "d"))
    assert "-k 'x' matches no test" in error_of(capsys, *material.run("-k", "x"))
    assert "a word is missing" in error_of(capsys, *material.run("-k", "a or"))
    assert "--limit" in error_of(capsys, *material.run("--limit", "0"))
    refused = error_of(capsys, *material.run("--test", "a", "--max-failing-test", "d=1"))
    assert "no test 'd': there are a, b, c." in refused
    assert not RUN.exists()


@pytest.mark.parametrize("tests", [False, True])
def test_gates_of_tests_that_are_not_in_the_part_are_not_checked_and_said_so(
    material: Material, capsys: Shown, tests: bool
) -> None:
    if tests:
        save_suite(suite_of(), material.suite)
    mine, other = ("words", "change names") if tests else ("a", "b")
    gates = ["--max-failing-test", f"{other}=0", "--fail-under-test", f"{other}=99"]
    says = [f"{other}: not run, so {gate} was not checked." for gate in gates[::2]]
    assert main(material.run("-q", "--test", mine, *gates)) == 0
    assert capsys.readouterr().err.splitlines() == says
    assert main(["report", *gates, "--format", "markdown"]) == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == says
    assert captured.out.count("- not checked: ") == 2
    assert main(["report", *gates, "--max-failing-test", f"{mine}=0"]) == 2
    if tests:  # the data file knows all tests of the suite
        assert "did you mean 'words'" in error_of(capsys, "report", "--max-failing-test", "word=0")


def test_one_text_is_one_text(material: Material, capsys: Shown) -> None:
    Path("train.txt").write_text("good film")
    assert main(material.run("--limit", "1")) == 0
    shown = capsys.readouterr().out
    assert "by 1 text\n" in shown
    assert "calibrated on 1 text\n" in shown
    assert "1 texts" not in shown


def test_a_mistyped_command_is_answered_with_a_whole_sentence(capsys: Shown) -> None:
    line = error_of(capsys, "rn")
    assert "?." not in line
    assert "See: mncover --help" in line
