"""Rows: parallel lists of texts, their labels, and where they come from."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.errors import TextError
from mncover.suites.expectations import Expectation
from mncover.suites.formats import read_texts
from mncover.suites.model import Case, Suite, Test
from mncover.suites.rows import Rows

SUITE = Suite(
    (
        Test(
            "t", "MFT", Expectation("label"), (Case(("a",), 1), Case((("b", "c"), "d"), (0, "no")))
        ),
        Test("u", "INV", Expectation("inv"), (Case(("e",)),)),
    ),
    ("no", "yes"),
)


def written(path: Path, content: str) -> Rows:
    path.write_text(content)
    return read_texts(path)


def test_one_context_serves_all_texts_and_lists_must_be_as_long_as_the_texts() -> None:
    rows = Rows.make(["a", "b"], "x", [1, None])
    assert (rows.contexts, list(rows.indices), rows.cases) == (["x", "x"], [0, 1], [-1, -1])
    with pytest.raises(TextError, match="2 texts but 1 context"):
        Rows.make(["a", "b"], ["x"])
    with pytest.raises(TextError, match="2 texts but 3 labels"):
        Rows.make(["a", "b"], "x", [1, 2, 3])
    with pytest.raises(TextError, match="a context must be a string, got None"):
        Rows.make(["x"], [None])  # type: ignore[list-item]
    with pytest.raises(TextError, match="a context must be a string, got 3"):
        Rows.make(["a", "b"], ["x", 3])  # type: ignore[list-item]


def test_numbered_turns_labels_into_class_numbers_and_names_the_line_of_a_wrong_one(
    tmp_path: Path,
) -> None:
    content = "text,label\na,POSITIVE\n\nb,0\nc,\nd,odd\n"
    rows = written(tmp_path / "s.csv", content)
    assert rows.part(slice(3)).numbered(["negative", "positive"]).labels == [1, 0, -1]
    with pytest.raises(TextError, match=r"s\.csv, line 6: the label 'odd' is none of the model's"):
        rows.numbered(["negative", "positive"])
    assert rows.numbered([]).labels == [-1] * 4
    with pytest.raises(TextError, match=r"^text 1: the label 7"):
        Rows.make(["a", "b"], "", [0, 7]).numbered(["negative", "positive"])


def test_rows_grouped_by_context_keep_their_labels_indices_and_lines(tmp_path: Path) -> None:
    content = "text,label,context\na,0,x\nb,1,y\nc,2,x\n"
    grouped = written(tmp_path / "s.csv", content).by_context()
    assert (grouped.texts, grouped.contexts) == (["a", "c", "b"], ["x", "x", "y"])
    assert (grouped.labels, grouped.indices, grouped.lines) == (
        ["0", "2", "1"],
        [0, 2, 1],
        [2, 4, 3],
    )
    assert [run.texts for run in grouped.runs_of_contexts()] == [["a", "c"], ["b"]]
    assert grouped.part(slice(1, None)).place(0) == f"{tmp_path / 's.csv'}, line 4"


def test_the_rows_of_a_suite_have_a_context_per_test_and_the_number_of_their_case() -> None:
    rows = Rows.of_suite(Path("s.jsonl"), SUITE)
    assert rows.texts == ["a", ("b", "c"), "d", "e"]
    assert (rows.contexts, rows.cases) == (["t", "t", "t", "u"], [0, 1, 1, 2])
    assert (rows.labels, rows.suite) == ([None] * 4, SUITE)
    assert rows.place(3) == "s.jsonl, text 3"
    assert rows.by_context().suite is SUITE


def test_the_fingerprint_depends_on_texts_labels_contexts_and_order(tmp_path: Path) -> None:
    prints = {
        written(tmp_path / "s.jsonl", content).fingerprint
        for content in (
            '{"text": "a", "label": 1, "context": "x"}\n{"text": "b", "label": 0, "context": "x"}',
            '{"text": "b", "label": 0, "context": "x"}\n{"text": "a", "label": 1, "context": "x"}',
            '{"text": "a", "label": 0, "context": "x"}\n{"text": "b", "label": 0, "context": "x"}',
            '{"text": "a", "label": 1, "context": "y"}\n{"text": "b", "label": 0, "context": "x"}',
        )
    }
    assert len(prints) == 4


def test_the_fingerprint_is_that_of_earlier_versions_so_that_runs_can_be_resumed(
    tmp_path: Path,
) -> None:
    content = '{"text": "a \\u00e9", "label": 1, "context": "x"}\n\n{"text": "b", "context": "y"}\n'
    texts = written(tmp_path / "s.jsonl", content)
    assert texts.fingerprint.startswith("24024b7acbd63fa1")
    pairs = written(tmp_path / "p.csv", 'premise,hypothesis,label\na,b,0\nc,"d\ne",\n')
    assert pairs.fingerprint.startswith("f9bd4d8f22f0912c")
    one = Suite(SUITE.tests[:1], SUITE.labels)
    assert Rows.of_suite(tmp_path / "x.jsonl", one).fingerprint.startswith("4e1c0e7c8eb73e26")


ANY_TEXT = st.text(max_size=5) | st.tuples(st.text(max_size=3), st.text(max_size=3))
ANY_LABEL: st.SearchStrategy[Any] = st.one_of(
    *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3)),
    *(st.lists(st.integers(), max_size=2), st.dates()),
)


@given(st.lists(st.tuples(ANY_TEXT, ANY_LABEL, st.text(max_size=3)), max_size=5))
def test_the_fingerprint_is_that_of_a_line_of_json_for_each_text(rows: list[Any]) -> None:
    texts, labels, contexts = zip(*rows, strict=True) if rows else ((), (), ())
    lines = "".join(json.dumps(row, default=str) + "\n" for row in rows)
    expected = hashlib.sha256(lines.encode()).hexdigest()
    assert Rows.make(texts, contexts, labels).fingerprint == expected
