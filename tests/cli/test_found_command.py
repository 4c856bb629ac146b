"""`mncover found` from the command line: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.selection.finder import Finder
from mncover.selection.journal import journal_path
from tests.cli.test_commands import error_of
from tests.folders import Material, write_material

RUN, JOURNAL = Path("run.mncover"), Path("run.verdicts.jsonl")


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    """Return material whose 30 texts were run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    made = write_material(tmp_path)
    assert main(made.run("-q")) == 0
    return made


def judge() -> Finder:
    """Judge two batches of ten: every other case is wrong."""
    assert journal_path(RUN) == JOURNAL
    finder = Finder(RUN, journal=JOURNAL)
    for _ in range(2):
        finder.next(10)
        finder.tell(["wrong", "ok"] * 5)
    return finder


def test_found_prints_writes_a_page_and_json(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    judge()
    before = JOURNAL.read_bytes()
    assert main(["found"]) == 0
    assert "10 of 20 judged cases fail; there are 30 cases." in capsys.readouterr().out
    assert main(["found", str(RUN), "--html", "out/found.html"]) == 0
    assert "out/found.html" in capsys.readouterr().out
    assert "of 20 judged cases fail" in Path("out/found.html").read_text()
    assert main(["found", "--json", "--html", "again.html"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert Path("again.html").exists()
    assert (content["format"], content["cases"], content["judged"]) == (1, 30, 20)
    assert [batch["failing"] for batch in content["batches"]] == [5, 5]
    assert sum(group["failing"] for group in content["groups"]) == content["failing"] == 10
    case = content["groups"][0]["cases"][0]
    assert case["verdict"] == "wrong"
    assert set(content["groups"][0]["typical"]) <= {
        one["case"] for one in content["groups"][0]["cases"]
    }
    assert JOURNAL.read_bytes() == before
    assert main(["found", "-q"]) == 0
    assert capsys.readouterr().out == ""


def test_without_verdicts_it_says_so_and_ends_with_0(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["found"]) == 0
    assert "No case has a verdict yet" in capsys.readouterr().out
    assert main(["found", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["judged"] == 0
    assert main(["found", "-q", "--html", "found.html"]) == 0
    assert "No case has a verdict yet" in Path("found.html").read_text()
    assert not JOURNAL.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: damaged"),
        ('{"asked": {"case": "x", "batch": 1, "why": "start"}}', "line 2: damaged"),
        ('{"asked": {"case": 1, "batch": 1, "why": "start", "rest": "x"}}', "line 2: damaged"),
        ('{"asked": {"case": 1, "batch": null, "why": "start"}}', "line 2: damaged"),
        ('{"case": 1, "verdict": "perhaps"}', "line 2: damaged"),
        ('{"case": 77, "verdict": "ok"}', "it is about case 77"),
    ],
)
def test_a_damaged_journal_is_refused_in_one_line(
    material: Material, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    judge()
    first, *others = JOURNAL.read_text().splitlines()
    JOURNAL.write_text("\n".join([first, line, *others]) + "\n")
    refused = error_of(capsys, "found")
    assert "run.verdicts.jsonl" in refused
    assert said in refused


def test_what_cannot_be_read_or_written_is_refused(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no such data file" in error_of(capsys, "found", "gone.mncover")
    assert "must end with .html" in error_of(capsys, "found", "--html", "page.pdf")
    judge()
    first, *others = JOURNAL.read_text().splitlines()
    other = json.dumps(json.loads(first) | {"about": "another"})
    JOURNAL.write_text("\n".join([other, *others]) + "\n")
    assert "another model or other texts" in error_of(capsys, "found")
