"""Suites and files of texts are read into columns: the same suites, in little memory."""

from __future__ import annotations

import json
import tracemalloc
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.data.texts import TextFile, Texts
from mncover.suites.cases import Case, CaseColumn, all_texts, written
from mncover.suites.expectations import Expectation
from mncover.suites.formats import load_suite, read_rows, save_suite
from mncover.suites.model import Outline, Suite, Test
from mncover.suites.rows import Rows

STRINGS = st.text(max_size=4)
CASE = st.builds(
    Case,
    st.lists(st.one_of(STRINGS, st.tuples(STRINGS, STRINGS)), min_size=1, max_size=3).map(tuple),
    st.one_of(st.none(), st.integers(0, 2), st.tuples(st.integers(0, 2), STRINGS)),
)
CASES = st.lists(CASE, min_size=1, max_size=6)


def suite_of(*tests: list[Case], on_disk: bool, files: int = 1) -> Suite:
    each = [TextFile() for _ in range(files)]
    columns = [
        written(cases, each[number % files]) if on_disk else tuple(cases)
        for number, cases in enumerate(tests)
    ]
    expected = Expectation("inv")
    return Suite(tuple(Test(f"t{n}", "INV", expected, cases) for n, cases in enumerate(columns)))


@given(st.lists(CASES, min_size=1, max_size=4), st.integers(1, 2))
def test_a_suite_on_disk_is_the_suite(tests: list[list[Case]], files: int) -> None:
    plain = suite_of(*tests, on_disk=False)
    kept = suite_of(*tests, on_disk=True, files=files)
    assert kept == plain
    assert plain == kept
    assert (kept.cases, kept.texts) == (plain.cases, plain.texts)
    assert list(kept.each_text()) == list(plain.each_text())
    assert Outline.of(kept) == Outline.of(plain)
    assert json.dumps(Outline.of(kept).to_json()) == json.dumps(Outline.of(plain).to_json())
    here, there = (Rows.of_suite(Path("s.jsonl"), suite) for suite in (kept, plain))
    for name in ("texts", "contexts", "labels", "indices", "cases"):
        assert list(getattr(here, name)) == list(getattr(there, name))
    assert here.fingerprint == there.fingerprint
    expected = [number for number, case in enumerate(chain(*tests)) for _ in case.texts]
    assert list(here.cases) == expected
    assert here.by_context() is here  # grouped as it is: nothing is copied


def test_a_suite_may_have_more_tests_than_two_bytes_can_count() -> None:
    cases = [[Case((f"text {number}",))] for number in range(66_000)]
    rows = Rows.of_suite(Path("s.jsonl"), suite_of(*cases, on_disk=True))
    assert rows.contexts[65_999] == "t65999"
    assert len(set(rows.contexts)) == 66_000


@given(CASES, st.data())
def test_cases_at_any_places_are_those_of_the_list(cases: list[Case], data: st.DataObject) -> None:
    file = TextFile()
    file.add("of another test")
    column = written(cases, file)
    places = data.draw(st.lists(st.integers(0, len(cases) - 1), max_size=8))
    assert column.at(np.array(places, np.int64)) == [cases[place] for place in places]
    assert list(column.taken(places)) == [cases[place] for place in places]


def test_texts_of_tests_that_follow_each_other_in_a_file_are_not_written_again() -> None:
    file = TextFile()
    one, two = (written([Case((name,)), Case(("x",))], file) for name in "ab")
    found = all_texts([one, two])
    assert (list(found), found.file is file) == (["a", "x", "b", "x"], True)
    turned = all_texts([two, one])
    assert (list(turned), turned.file is file) == (["b", "x", "a", "x"], False)
    assert list(all_texts([[Case(("y",))], two])) == ["y", "b", "x"]


def test_what_is_read_is_on_disk(tmp_path: Path) -> None:
    save_suite(suite_of([Case(("a",)), Case(("b", "c"))], on_disk=False), tmp_path / "s.jsonl")
    (tmp_path / "t.csv").write_text("text\nx\ny\n")
    (test,) = load_suite(tmp_path / "s.jsonl").tests
    assert isinstance(test.cases, CaseColumn)
    for name in ("s.jsonl", "t.csv"):
        assert isinstance(read_rows(tmp_path / name).texts, Texts)


# A text in memory takes at least this; what is kept of each is a few small numbers.
LONG = 400
MOST = 60  # bytes a text


def suite_file(path: Path, n: int) -> Path:
    with path.open("w") as file:
        file.write('{"suite": 1, "labels": ["a", "b"]}\n')
        for number in range(n):
            if number % (n // 2) == 0:
                file.write(json.dumps({"test": f"t{number}"}) + "\n")
            texts = [f"{number} " + "word " * (LONG // 5)]
            file.write(json.dumps({"case": texts, "label": number % 2}) + "\n")
    return path


def text_file(path: Path, n: int) -> Path:
    with path.open("w") as file:
        file.write("text,label,context\n")
        for number in range(n):
            file.write(f"{number} {'word ' * (LONG // 5)},{number % 2},{number * 2 // n}\n")
    return path


def peak_of(path: Path) -> int:
    """Return the peak of memory, in bytes, while a file is read and made ready for a run."""
    tracemalloc.start()
    try:
        rows = read_rows(path)
        kept = rows.numbered(["a", "b"]).by_context(), rows.fingerprint
        outline = None if rows.suite is None else Outline.of(rows.suite)
        peak = tracemalloc.get_traced_memory()[1]
        assert len(kept[0]) == len(rows)
        assert outline is None or sum(outline.sizes) == len(rows)
    finally:
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize(("make", "name"), [(suite_file, "s.jsonl"), (text_file, "t.csv")])
def test_reading_takes_a_few_bytes_a_text_however_long_texts_are(
    tmp_path: Path, make: object, name: str
) -> None:
    few, many = 1000, 6000
    assert callable(make)
    paths = [make(tmp_path / f"{n}.{name}", n) for n in (few, many)]
    peak_of(paths[0])  # what is imported, or compiled, when it is first needed
    small, large = map(peak_of, paths)
    assert (large - small) / (many - few) < MOST
