"""`mncover report` and `mncover html` from the command line: formats, files, limits, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.suites.formats import save_suite
from mncover.types import display_percent
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    """Return material whose suite of tests was run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    made = write_material(tmp_path)
    save_suite(suite_of(), made.suite)
    assert main(made.run("-q")) == 0
    return made


def test_a_report_has_a_format(material: Material, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--format", "markdown"]) == 0
    assert "| Test | Texts |" in capsys.readouterr().out
    assert main(["report", "--format", "github"]) == 0
    assert "<details>" in capsys.readouterr().out
    refused = error_of(capsys, "report", "--format", "pdf")
    assert "'pdf'" in refused
    assert "text, markdown, github, json, junit" in refused


def test_junit_is_written_beside_a_report(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--junit", "out.xml"]) == 0
    assert "Coverage of" in capsys.readouterr().out
    assert len(list(ElementTree.parse("out.xml").getroot())) == 3


def test_a_tests_coverage_below_its_limit_ends_with_2(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    contexts = Coverage.load("run.mncover").result().contexts
    share = {c.name: 100 * c.share_of_reachable("cover") for c in contexts}["change names"]
    under, over = f"change names={share + 0.1}", f"change names={share - 0.1}"
    assert main(["report", "--fail-under-test", over]) == 0
    assert main(["report", "--fail-under-test", under]) == 2
    assert "change names: Cover" in capsys.readouterr().err
    assert main(["report", "--format", "github", "--fail-under-test", under]) == 2
    for wrong in ("change names", "change names=x", "=3", "change names=101"):
        assert "NAME=PERCENT" in error_of(capsys, "report", "--fail-under-test", wrong)
    assert "no test 'z'" in error_of(capsys, "report", "--fail-under-test", "z=3")


def test_html_writes_a_folder_and_refuses_one_that_is_not_a_report(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["html", "-o", "html", "--since", "run.mncover"]) == 0
    assert "html/index.html" in capsys.readouterr().out
    assert "compared with run.mncover" in Path("html/index.html").read_text()
    assert main(["html", "-q", "-o", "html"]) == 0
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    assert "not an mncover report" in error_of(capsys, "html", "-o", "mine")
    assert "no such data file" in error_of(capsys, "html", "gone.mncover")


def test_what_is_missing_is_named_without_a_model_and_reached_with_it(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    result = Coverage.load("run.mncover").result()
    assert main(["report", "--missing", "--model", "gone"]) == 0  # not needed
    missing = display_percent(1 - result.share_of_reachable("cover"))
    words = " ".join(capsys.readouterr().out.split())
    assert f"Missing: {missing} % of the reachable bins of Cover are hit by no text" in words
    assert "Training text" not in words
    train = ["--train", str(material.train)]
    few = ["report", "--missing", *train, "--texts", "3", "-o", "more.jsonl"]
    assert main(few) == 0
    words = " ".join(capsys.readouterr().out.split())
    records = [json.loads(line) for line in Path("more.jsonl").read_text().splitlines()]
    assert [(r["label"], r["context"]) for r in records] == [(None, "missing")] * 3
    assert all(r["text"] in material.train.read_text().splitlines() for r in records)
    command = material.run("-q", "-o", "more.mncover")
    command[2] = "more.jsonl"
    assert main(command) == 0
    both = Coverage.load("run.mncover") | Coverage.load("more.mncover")
    added = both.result().share_of_reachable("cover") - result.share_of_reachable("cover")
    assert f"(all 3 together: {display_percent(added)} %)" in words


def test_missing_refuses_what_it_cannot_do(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give --train FILE" in error_of(capsys, "report", "--missing", "-o", "x.jsonl")
    Path("other.txt").write_text("other texts\n")
    message = error_of(capsys, "report", "--missing", "--train", "other.txt")
    assert "ranges of other texts" in message
    assert "give --missing too" in error_of(capsys, "report", "-o", "x.jsonl")
