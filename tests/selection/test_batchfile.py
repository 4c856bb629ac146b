"""Batch files: verdicts come back on the right cases, and none is overwritten unread."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mncover.coverage import Coverage
from mncover.data.store import CoverageData
from mncover.errors import MnCoverError, SettingsError, TextError
from mncover.selection.batchfile import check_replaceable, read_verdicts, write_batch
from mncover.selection.cases import Cases
from mncover.selection.finder import Finder
from mncover.suites.rows import Rows
from tests import tiny
from tests.selection.conftest import TRAIN, changed

KINDS = ("jsonl", "csv", "tsv", "jsonl.gz", "csv.gz")
HOSTILE = [
    "=1+1",
    "+a",
    "-b",
    "@sum",
    "\ttab",
    "\rreturn",
    "a\x1b[2J",
    "a\x00b",
    "a\nb",
    'a "q", c',
]


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, CoverageData]:
    """Data of plain texts, and of pairs."""
    cov = Coverage(*tiny.make("bert"), max_length=12).calibrate(TRAIN, cache=False)
    folder = tmp_path_factory.mktemp("plain")
    return {
        pairs: cov.run(
            Rows.make(tiny.texts(20, seed=4, longest=5, pairs=pairs)), folder / f"{pairs}.mncover"
        ).data
        for pairs in (False, True)
    }


def with_texts(data: CoverageData, texts: list[str]) -> CoverageData:
    return changed(data, table=replace(data.table, texts=(*texts, *data.table.texts[len(texts) :])))


def fill(path: Path, verdict: Callable[[int], str]) -> None:
    """Fill a batch in, as a person would."""
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        rows = [{**row, "verdict": verdict(row["case"])} for row in rows]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    delimiter = "\t" if path.suffix == ".tsv" else ","
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file, delimiter=delimiter))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows({**r, "verdict": verdict(int(r["case"]))} for r in rows)


def by_parity(case: int) -> str:
    return ("ok", "wrong", "")[case % 3]


@pytest.mark.parametrize("pairs", [False, True, None])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv"])
def test_verdicts_come_back_on_the_cases_they_were_given_to(
    kind: str,
    pairs: bool | None,
    plain: dict[bool, CoverageData],
    cases: Cases,
    tmp_path: Path,
) -> None:
    finder = Finder(cases.data if pairs is None else plain[pairs])
    batch, path = finder.next(12), tmp_path / f"batch.{kind}"
    write_batch(batch, path)
    assert read_verdicts(path, finder) == {}
    fill(path, by_parity)
    wanted = {item.case: by_parity(item.case) for item in batch if by_parity(item.case)}
    assert read_verdicts(path, finder) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_texts_come_through_every_format(
    kind: str, plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    finder = Finder(with_texts(plain[False], [*HOSTILE, "lone \ud800 half"]))
    batch, path = finder.next(20), tmp_path / f"batch.{kind}"
    told = [replace(item, verdict="ok") for item in batch]
    write_batch(told, path)
    assert read_verdicts(path, finder) == {item.case: "ok" for item in batch}


def test_no_cell_of_a_spreadsheet_is_a_formula(
    plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    finder = Finder(with_texts(plain[False], HOSTILE))
    batch, path = finder.next(20), tmp_path / "batch.csv"
    write_batch([replace(item, answers=("=cmd|' /C calc'!A0",)) for item in batch], path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = {int(row["case"]): row for row in csv.DictReader(file)}
    assert [rows[i]["text"] for i in range(4)] == [f"'{text}" for text in HOSTILE[:4]]
    assert all(cell[:1] not in {*"=+-@\t\r"} for row in rows.values() for cell in row.values())
    assert "\x1b" not in path.read_text()


def test_json_lines_hold_texts_pairs_and_lists_of_texts(
    plain: dict[bool, CoverageData], cases: Cases, tmp_path: Path
) -> None:
    path = tmp_path / "batch.jsonl"

    def written(finder: Finder) -> list[tuple[Any, dict[str, Any]]]:
        batch = finder.next(20)
        write_batch(batch, path)
        return list(zip(batch, map(json.loads, path.read_text().splitlines()), strict=True))

    for item, row in written(Finder(plain[False])):
        assert list(row) == ["case", "text", "answer", "confidence", "why", "verdict"]
        assert (row["text"], row["answer"], row["verdict"]) == (*item.texts, *item.answers, "")
        assert row["confidence"] == pytest.approx(item.confidences[0], abs=1e-4)
    for item, row in written(Finder(plain[True])):
        assert (row["text"], row["pair"]) == item.texts[0]
    several = [(i, r) for i, r in written(Finder(cases.data)) if len(i.texts) > 1]
    assert several
    for item, row in several:
        assert (row["texts"], row["answer"]) == (list(item.texts), list(item.answers))


def test_a_verdict_may_be_the_right_class(plain: dict[bool, CoverageData], tmp_path: Path) -> None:
    finder, path = Finder(plain[False]), tmp_path / "batch.jsonl"
    batch = finder.next(10)
    write_batch(batch, path)
    fill(path, lambda case: " label_1 ")
    right = {item.case: "ok" if item.answers == ("LABEL_1",) else "wrong" for item in batch}
    assert set(right.values()) == {"ok", "wrong"}
    assert read_verdicts(path, finder) == right
    fill(path, lambda case: "1")
    assert read_verdicts(path, finder) == right


def test_a_file_without_case_numbers_is_matched_by_its_texts(
    plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    texts = plain[False].table.texts
    finder, path = Finder(with_texts(plain[False], ["twice", "twice"])), tmp_path / "mine.csv"
    path.write_text(f'sentence,verdict\n"{texts[5]}",wrong\ntwice,ok\nunknown,\n')
    assert read_verdicts(path, finder) == {5: "wrong", 0: "ok", 1: "ok"}
    path.write_text("sentence,verdict\nunknown,ok\n")
    with pytest.raises(TextError, match=r"mine.csv, line 2: no case consists of exactly this text"):
        read_verdicts(path, finder)
    pairs, first, second = tmp_path / "pairs.jsonl", *tuple(plain[True].table.texts[3])
    pairs.write_text(json.dumps({"premise": first, "hypothesis": second, "verdict": "ok"}))
    assert read_verdicts(pairs, Finder(plain[True])) == {3: "ok"}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"case": 1}, "no field 'verdict'; it has 'case'"),
        ("a text", "no field 'verdict'; it has no fields"),
        ({"case": "one", "verdict": "ok"}, "'case' must be the number of a case, got 'one'"),
        ({"case": True, "verdict": "ok"}, "'case' must be the number of a case"),
        ({"case": 99, "verdict": "ok"}, "there is no case 99"),
        ({"case": 1, "verdict": "bad"}, "case 1: a verdict is one of ok, wrong, LABEL_0"),
        ({"case": 1, "verdict": ["ok"]}, "case 1: a verdict is one of"),
        ({"case": 1, "text": "elsewhere", "verdict": "ok"}, "not the text of case 1"),
        ({"case": 0, "verdict": "wrong"}, "case 0 has another verdict further up"),
    ],
)
def test_what_cannot_be_taken_is_refused_with_file_and_line(
    row: Any, why: str, plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    path = tmp_path / "batch.jsonl"
    path.write_text(json.dumps({"case": 0, "verdict": "ok"}) + "\n\n" + json.dumps(row) + "\n")
    with pytest.raises(TextError) as caught:
        read_verdicts(path, Finder(plain[False]))
    assert f"{path}, line 3: " in str(caught.value)
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_spreadsheet_may_change_anything_but_letters_and_numbers_of_cases(
    plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    finder, path = Finder(with_texts(plain[False], ["Don't - 1e5", "007"])), tmp_path / "batch.csv"
    rows = ["case,text,verdict", "0.0,DON\u2019T \u2013 1.00E+05,ok", "1,07. Jan,wrong", ",,"]
    path.write_bytes("\r\n".join(rows).encode())
    assert read_verdicts(path, finder) == {0: "ok", 1: "wrong"}


def test_a_file_whose_verdicts_are_not_in_the_journal_is_not_replaced(
    plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    finder, path = Finder(plain[False]), tmp_path / "batch.csv"
    check_replaceable(path, finder)
    write_batch(finder.next(6), path)
    check_replaceable(path, finder)  # nothing was filled in
    fill(path, by_parity)
    with pytest.raises(SettingsError, match="verdicts that were not read yet"):
        check_replaceable(path, finder)
    finder.tell(read_verdicts(path, finder))
    check_replaceable(path, finder)
    fill(path, lambda case: "wrong")  # the person thought again
    with pytest.raises(SettingsError, match="verdicts that were not read yet"):
        check_replaceable(path, finder)


@pytest.mark.parametrize(
    "content", ['{"text": "a"}\n', "no JSON\n", '{"case": 1, "text": "b", "verdict": "ok"}\n']
)
def test_a_file_that_is_no_batch_of_this_run_is_not_replaced(
    content: str, plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text(content)
    with pytest.raises(SettingsError, match="no batch of this run"):
        check_replaceable(path, Finder(plain[False]))


def test_a_batch_is_written_to_known_kinds_of_file(
    plain: dict[bool, CoverageData], tmp_path: Path
) -> None:
    finder = Finder(plain[False])
    for name in ("batch.txt", "batch", "batch.xlsx", "batch.gz"):
        with pytest.raises(MnCoverError, match=r"ends with .jsonl, .csv, .tsv"):
            check_replaceable(tmp_path / name, finder)


def test_an_interrupted_write_leaves_the_old_batch(
    plain: dict[bool, CoverageData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder, path = Finder(plain[False]), tmp_path / "batch.jsonl"
    write_batch(finder.next(3), path)
    before = path.read_bytes()

    def full(self: Path, content: bytes) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        write_batch(finder.next(3), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
