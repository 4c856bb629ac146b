"""`mncover next`: what it asks, reads, writes and refuses, and judging key by key."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.cli import main
from mncover.data import datafile
from mncover.selection.cases import cases_of
from mncover.selection.finder import Finder
from mncover.selection.journal import Verdict, journal_path
from mncover.suites.formats import save_suite
from mncover.suites.judging import FAILS, NOT_JUDGED
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material

RUN, JOURNAL = Path("run.mncover"), Path("run.verdicts.jsonl")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Data files of plain texts, of a suite, and of a run without signatures."""
    folder = tmp_path_factory.mktemp("next")
    found = write_material(folder)
    assert main(found.run("-q", "-o", str(folder / "texts.mncover"))) == 0
    outside = ["--no-signatures", "-o", str(folder / "outside.mncover")]
    assert main(found.run("-q", *outside)) == 0
    save_suite(suite_of(), found.suite)
    assert main(found.run("-q", "-o", str(folder / "suite.mncover"))) == 0
    return found


@pytest.fixture(autouse=True)
def folder(made: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the data file of plain texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    use(made, "texts")
    return tmp_path


def use(made: Material, name: str) -> None:
    shutil.copy(made.folder / f"{name}.mncover", RUN)


def rows_of(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def fill(path: str, verdict: str = "") -> None:
    """Fill a batch in; without a verdict, cases of odd number are wrong."""
    rows = rows_of(path)
    for row in rows:
        row["verdict"] = verdict or ("ok", "wrong")[row["case"] % 2]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))


def judged() -> dict[int, Verdict]:
    return Finder(RUN, journal=JOURNAL).journal.verdicts


def pressing(monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    """Let somebody at a terminal press keys, and Ctrl-D after the last one."""
    pressed = iter(keys)

    def getchar() -> str:
        for key in pressed:
            if key == "^":
                raise KeyboardInterrupt
            return key
        raise EOFError

    monkeypatch.setattr("typer.getchar", getchar)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)


def test_calling_again_goes_on_and_nothing_is_asked_twice(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["next", "-n", "8", "-o", "batch.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "Batch 1: 8 cases; 6 to begin with, spread over 6 clusters; 1 to explore" in shown
    assert "; 1 at random, to estimate what is left" in shown
    command = "mncover next run.mncover --verdicts batch.jsonl -o batch.jsonl -n 8"
    assert command in shown
    assert "or the right class (LABEL_0, LABEL_1, LABEL_2)" in shown
    asked = [row["case"] for row in rows_of("batch.jsonl")]
    for size in (8, 8, 6):
        fill("batch.jsonl")
        assert main(command.split()[1:]) == 0
        assert len(rows_of("batch.jsonl")) == size
        asked += [row["case"] for row in rows_of("batch.jsonl")]
    shown = capsys.readouterr().out
    assert "Batch 2: 8 cases; 6 likely to fail; 1 to explore, from" in shown
    assert "Failures expected in this batch: " in shown
    assert f"So far: 24 verdicts (8 new), {sum(c % 2 for c in asked[:24])} failures." in shown
    assert sorted(asked) == list(range(30))
    fill("batch.jsonl")
    left = Path("batch.jsonl").read_bytes()
    assert main(command.split()[1:]) == 0
    assert "there is no further batch" in capsys.readouterr().out
    assert Path("batch.jsonl").read_bytes() == left
    assert judged() == {case: ("ok", "wrong")[case % 2] for case in range(30)}


def test_the_command_and_the_finder_choose_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--explore", "50", "--seed", "3", "-n", "6", "--judge", "--json"]
    finder, verdicts = Finder(RUN, explore=0.5, seed=3), cases_of(datafile.read(RUN)).verdicts
    for number in (1, 2, 3):
        assert main(["next", *options]) == 0
        content = json.loads(capsys.readouterr().out)
        batch = finder.next(6)
        assert [row["case"] for row in content["cases"]] == [item.case for item in batch]
        made = content["batch"]
        assert (made["number"], made["explore"], made["survey"]) == (number, 2, 1)
        finder.tell(["wrong" if verdicts[item.case] == FAILS else "ok" for item in batch])
    assert content["verdicts"] == 12
    assert content["failing"] == (verdicts[sorted(judged())] == FAILS).sum()


def test_a_spreadsheet_goes_round(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", "-n", "4", "-o", "batch.csv"]) == 0
    text = Path("batch.csv").read_text(encoding="utf-8-sig")
    assert text.startswith("case,text,answer,confidence,why,verdict\n")
    head, *lines = text.splitlines()
    filled = [f"{lines[0]}wrong", f"{lines[1]}ok", lines[2], f"{lines[3]}LABEL_0"]
    Path("batch.csv").write_text("\n".join([head, *filled]) + "\n")
    assert main(["next", "-n", "4", "--verdicts", "batch.csv", "-o", "two.csv"]) == 0
    shown = capsys.readouterr().out
    assert "So far: 3 verdicts (3 new), " in shown
    assert "Without a verdict yet: 1 case of earlier batches." in shown
    assert "not asked again; judge them with --review, or in their file" in shown
    assert len(judged()) == 3


def test_a_verdict_that_is_changed_in_a_file_replaces_the_earlier_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["next", "-n", "3", "-o", "batch.jsonl", "-q"])
    fill("batch.jsonl", "ok")
    main(["next", "-n", "3", "--verdicts", "batch.jsonl", "-q"])
    fill("batch.jsonl", "wrong")
    assert capsys.readouterr().out == ""
    main(["next", "-n", "3", "--verdicts", "batch.jsonl"])
    assert "So far: 3 verdicts (3 changed), 3 failures." in capsys.readouterr().out


def test_the_batch_is_printed_if_it_goes_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["next", "-n", "5"]) == 0
    shown = capsys.readouterr().out
    for item in Finder(RUN, journal=JOURNAL).pending:
        assert f"{item.case} " in shown
        assert str(item.texts[0])[:30] in shown
    assert "To judge them here: mncover next run.mncover --review -n 5" in shown


def test_verdicts_that_were_not_read_are_never_overwritten(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["next", "-n", "5", "-o", "batch.jsonl", "-q"])
    fill("batch.jsonl")
    before, asked = Path("batch.jsonl").read_bytes(), JOURNAL.read_bytes()
    line = error_of(capsys, "next", "-n", "5", "-o", "batch.jsonl")
    assert "batch.jsonl holds verdicts that were not read yet (5): add --verdicts" in line
    assert Path("batch.jsonl").read_bytes() == before
    assert JOURNAL.read_bytes() == asked  # no batch was chosen in vain
    for other in (JOURNAL.name, "mine.jsonl"):
        Path("mine.jsonl").write_text('{"text": "precious"}\n')
        assert "is no batch of this run" in error_of(capsys, "next", "-o", other)


def test_the_suite_judges_for_a_rehearsal(
    made: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    use(made, "suite")
    cases = cases_of(datafile.read(RUN))
    assert (cases.verdicts == NOT_JUDGED).any()
    for _ in range(5):
        assert main(["next", "--judge", "-n", "8", "-o", "batch.jsonl"]) == 0
    shown = capsys.readouterr().out
    right = dict(zip(cases.number.tolist(), cases.verdicts.tolist(), strict=True))
    assert judged() == {
        case: "wrong" if verdict == FAILS else "ok"
        for case, verdict in right.items()
        if verdict != NOT_JUDGED
    }
    unknown = int((cases.verdicts == NOT_JUDGED).sum())
    assert "Then: mncover next run.mncover --judge -o batch.jsonl -n 8" in shown
    assert f"{unknown} cases cannot be judged by the suite itself." in shown
    assert f"Without a verdict yet: {unknown} cases of earlier batches" in shown


def test_without_signatures_it_says_so_and_works(
    made: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    use(made, "outside")
    assert main(["next", "-n", "5", "-o", "batch.jsonl"]) == 0
    told = capsys.readouterr()
    assert told.err.count("has no signatures") == 1
    assert "without --no-signatures" in told.err
    assert "Batch 1: 5 cases" in told.out
    main(["next", "-n", "5", "-q"])
    assert capsys.readouterr() == ("", "")


def test_without_classes_and_signatures_there_is_nothing_to_choose_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    material = write_material(tmp_path / "encoder", "bert_encoder")
    assert main(material.run("-q", "--no-signatures")) == 0
    line = error_of(capsys, "next")
    assert line.startswith("mncover: run.mncover: the model has no classes and the data has no sig")
    assert not JOURNAL.exists()
    assert main(material.run("-q")) == 0
    assert main(["next", "-n", "5", "-o", "batch.jsonl"]) == 0
    assert "right class" not in capsys.readouterr().out
    fill("batch.jsonl")
    assert main(["next", "-n", "5", "--verdicts", "batch.jsonl"]) == 0


def test_what_is_wrong_is_said_in_one_line(
    made: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no.mncover" in error_of(capsys, "next", "no.mncover")
    assert "ends with .jsonl" in error_of(capsys, "next", "-o", "batch.xlsx")
    assert "no such file" in error_of(capsys, "next", "--verdicts", "no.jsonl")
    Path("bad.csv").write_text("case,verdict\n1,ok\n2,perhaps\n")
    line = error_of(capsys, "next", "--verdicts", "bad.csv")
    assert "bad.csv, line 3: case 2: a verdict is one of ok, wrong, LABEL_0" in line
    assert not JOURNAL.exists()  # nothing of a bad file is taken
    assert "--review needs a terminal" in error_of(capsys, "next", "--review")
    assert "leave out --output" in error_of(capsys, "next", "--review", "-o", "a.jsonl")
    main(["next", "-q"])
    use(made, "suite")
    assert "another model or other texts" in error_of(capsys, "next")
    JOURNAL.write_text("no journal\n")
    assert "run.verdicts.jsonl, line 1: damaged" in error_of(capsys, "next")


def test_a_review_is_left_and_taken_up_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pressing(monkeypatch, "ow^")
    assert main(["next", "--review", "-n", "5"]) == 0
    shown = capsys.readouterr().out
    batch = [one.case for one in Finder(RUN, journal=JOURNAL).journal.asked]
    assert "Batch 1: 5 cases" in shown
    assert all(line in shown for line in ("1 of 5, 0 wrong", "2 of 5, 0 wrong", "3 of 5, 1 wrong"))
    assert "Judged now: 2 cases, 1 wrong. In all 2 verdicts, 1 failure;" in shown
    assert "To go on with 3 cases: mncover next run.mncover --review -n 5" in shown
    assert judged() == {batch[0]: "ok", batch[1]: "wrong"}
    pressing(monkeypatch, "wwo")
    assert main(["next", "--review", "-n", "5"]) == 0
    shown = capsys.readouterr().out
    assert "1 of 5" not in shown
    assert "3 of 5, 1 wrong" in shown
    assert "5 of 5, 3 wrong" in shown
    assert "For the next batch: mncover next run.mncover --review -n 5" in shown
    assert judged() == dict(zip(batch, ["ok", "wrong", "wrong", "wrong", "ok"], strict=True))
    pressing(monkeypatch, "q")
    assert main(["next", "--review", "-n", "5"]) == 0
    assert "Batch 2: 5 cases; 4 likely to fail" in capsys.readouterr().out


def test_going_back_takes_the_last_verdict_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pressing(monkeypatch, "bwbos?w")
    assert main(["next", "--review", "-n", "3"]) == 0
    shown = capsys.readouterr().out
    batch = [one.case for one in Finder(RUN, journal=JOURNAL).journal.asked]
    assert judged() == {batch[0]: "ok", batch[2]: "wrong"}
    for said in ("this is the first one", "taken back", "skipped", "'?' means nothing here"):
        assert said in shown
    assert "To go on with 1 case" in shown
    pressing(monkeypatch, "o")
    main(["next", "--review", "-n", "3"])
    assert judged()[batch[1]] == "ok"


def test_a_digit_names_the_right_class_of_a_case_of_one_text(
    made: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pressing(monkeypatch, "2" * 12)
    assert main(["next", "--review", "-n", "12"]) == 0
    assert "1 LABEL_0   2 LABEL_1   3 LABEL_2" in capsys.readouterr().out
    finder = Finder(RUN, journal=JOURNAL)
    for one in finder.journal.asked:
        right = finder.item(one).answers == ("LABEL_1",)
        assert finder.journal.verdicts[one.case] == ("ok" if right else "wrong")
    JOURNAL.unlink()
    use(made, "suite")
    pressing(monkeypatch, "2" * 40)
    assert main(["next", "--review", "-n", "32"]) == 0
    finder = Finder(RUN, journal=JOURNAL)
    first = next(i for i, item in enumerate(finder.pending) if len(item.texts) > 1)
    assert first == 0  # the first case of several texts takes no digit, so it is where we stopped
    assert all(len(finder.texts(case)) == 1 for case in judged())


def test_what_strangers_wrote_cannot_command_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = datafile.read(RUN)
    hostile = "[bold]no markup[/] \x1b[2J \x9b31m \u202egnp :smile:"
    object.__setattr__(data.table, "texts", (hostile,) * len(data.table))
    datafile.write(data, RUN)
    pressing(monkeypatch, "o")
    assert main(["next", "--review", "-n", "2"]) == 0
    assert main(["next", "-n", "2"]) == 0
    shown = capsys.readouterr().out
    for seen in ("[bold]no markup[/]", r"\x1b[2J", r"\x9b31m", r"\u202egnp", ":smile:"):
        assert shown.count(seen) >= 3
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


def rounds(path: Path, verdicts: dict[int, str]) -> Iterator[list[int]]:
    """Yield batches of a data file, with the same verdicts told after each."""
    finder = Finder(path, journal=journal_path(path))
    for _ in range(4):
        batch = finder.next(6)
        yield [item.case for item in batch]
        finder.tell({item.case: verdicts[item.case] for item in batch})


@pytest.mark.parametrize("name", ["texts", "suite"])
def test_expectations_labels_and_test_names_never_reach_the_choice(
    name: str, made: Material
) -> None:
    use(made, name)
    data = datafile.read(RUN)
    rng = np.random.default_rng(0)
    verdicts = {case: str(rng.choice(["ok", "wrong"])) for case in range(40)}
    data.table.columns["label"][:] = rng.integers(-1, 3, len(data.table))
    data._contexts = {f"renamed {name}": blobs for name, blobs in data._contexts.items()}
    for outline in data.outlines.values():
        for test in outline["tests"]:
            test |= {"test": f"renamed {rng.integers(1000)}", "capability": "another"}
            test |= {"type": "MFT", "expectation": {"expect": "label"}}
            test["right"] = [int(rng.integers(3)) for _ in test["sizes"]]
    other = Path("other.mncover")
    datafile.write(data, other)
    before, after = (cases_of(datafile.read(path)) for path in (RUN, other))
    assert not set(before.tests) & set(after.tests)
    assert (before.verdicts != after.verdicts).any()
    assert list(rounds(RUN, verdicts)) == list(rounds(other, verdicts))
    assert journal_path(RUN).read_bytes() == journal_path(other).read_bytes()
