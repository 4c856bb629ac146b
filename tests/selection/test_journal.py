"""The journal: it grows, is taken up again, and refuses what is damaged or about something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mncover.errors import DataFileError, MismatchError
from mncover.selection.cases import Cases
from mncover.selection.finder import Finder
from mncover.selection.journal import Asked, Journal, journal_path, subject_key
from tests.selection.conftest import changed

BATCH = [Asked(3, 1, "start", 0, 0.5), Asked(7, 1, "explore", 2, 0.5, 0.25, 9.0)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.verdicts.jsonl"


def filled(path: Path) -> Journal:
    journal = Journal.open("key", path)
    journal.ask(BATCH)
    journal.tell({3: "wrong", 7: "ok"})
    return journal


def test_a_journal_is_read_back_as_it_was_written(path: Path) -> None:
    journal = filled(path)
    journal.tell({7: "wrong"})
    journal.forget(3)
    again = Journal.open("key", path)
    assert again.asked == journal.asked == BATCH
    assert again.verdicts == journal.verdicts == {7: "wrong"}
    assert [one.case for one in again.pending] == [3]


def test_a_journal_only_grows_and_the_last_verdict_counts(path: Path) -> None:
    journal = filled(path)
    before = path.read_text()
    journal.tell({3: "wrong"})
    assert path.read_text() == before  # nothing new
    journal.tell({3: "ok"})
    assert path.read_text().startswith(before)
    assert Journal.open("key", path).verdicts[3] == "ok"


def test_nothing_is_written_before_something_was_asked(path: Path) -> None:
    Journal.open("key", path)
    assert not path.exists()


@pytest.mark.parametrize("cut", [1, 10, 25])
def test_a_last_line_that_was_cut_is_dropped_and_the_journal_goes_on(path: Path, cut: int) -> None:
    filled(path)
    path.write_bytes(path.read_bytes()[:-cut])
    journal = Journal.open("key", path)
    assert journal.verdicts == {3: "wrong"}
    assert list(path.parent.iterdir()) == [path]  # no temporary file stays
    journal.tell({7: "wrong"})
    assert Journal.open("key", path).verdicts == {3: "wrong", 7: "wrong"}


def test_a_journal_of_which_even_the_first_line_was_cut_starts_anew(path: Path) -> None:
    filled(path)
    path.write_bytes(path.read_bytes()[:20])
    journal = Journal.open("key", path)
    assert not journal.asked
    journal.ask(BATCH)
    assert Journal.open("key", path).asked == BATCH


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "[1]",
        '{"case": 3}',
        '{"case": 3, "verdict": "maybe"}',
        '{"case": "x", "verdict": "ok"}',
        '{"asked": {"case": 3}}',
        '{"asked": {"case": 3, "batch": 1, "why": "whim"}}',
        '{"asked": {"case": 3, "batch": "1", "why": "start"}}',
    ],
)
def test_a_damaged_line_is_refused_by_its_number(path: Path, line: str) -> None:
    filled(path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:2], line, *lines[2:]]) + "\n")
    with pytest.raises(DataFileError, match="line 3: damaged") as caught:
        Journal.open("key", path)
    assert "\n" not in str(caught.value)


def test_another_file_and_a_newer_version_are_refused(path: Path) -> None:
    for first in ({"text": "a"}, {"mncover": "verdicts", "version": 2, "about": "key"}):
        path.write_text(json.dumps(first) + "\n")
        with pytest.raises(DataFileError, match="line 1: damaged"):
            Journal.open("key", path)


def test_verdicts_about_another_model_or_other_texts_are_refused(path: Path) -> None:
    filled(path)
    with pytest.raises(MismatchError, match="another model or other texts"):
        Journal.open("other", path)


def test_the_key_knows_model_texts_and_cases_and_nothing_else(cases: Cases) -> None:
    data = cases.data
    key, table = subject_key(data), data.table
    identity = replace(data.identity, model_fingerprint="another")
    other_texts = replace(table, texts=("another", *table.texts[1:]))
    numbers = {**table.columns, "case": np.arange(len(table))}
    labels = {**table.columns, "label": np.zeros(len(table), dtype="<i4")}
    for other in (
        changed(data, identity=identity),
        changed(data, table=other_texts),
        changed(data, table=replace(table, columns=numbers)),
    ):
        assert subject_key(other) != key
    assert subject_key(changed(data, table=replace(table, columns=labels))) == key


def test_a_journal_about_a_case_that_the_data_lacks_is_refused(cases: Cases, path: Path) -> None:
    journal = Journal.open(subject_key(cases.data), path)
    journal.tell({1000: "ok"})
    with pytest.raises(DataFileError, match="about case 1000, which is not in the data"):
        Finder(cases.data, journal=path)


def test_a_journal_stands_beside_its_data_file() -> None:
    assert journal_path(Path("a/run.mncover")) == Path("a/run.verdicts.jsonl")


def test_a_list_of_verdicts_is_on_the_last_batch_although_another_case_was_judged_since(
    cases: Cases,
) -> None:
    finder = Finder(cases.data)
    batch = [item.case for item in finder.next(4)]
    other = min(set(finder.numbers.tolist()) - set(batch))
    finder.tell({other: "ok"})
    finder.tell(["ok", "wrong", None, "ok"])
    wanted = {other: "ok", batch[0]: "ok", batch[1]: "wrong", batch[3]: "ok"}
    assert finder.journal.verdicts == wanted
