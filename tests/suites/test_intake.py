"""Texts handed in as tables, data sets, records and files are read by their columns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import polars
import pyarrow
import pytest

from mncover.errors import MnCoverError, SettingsError, TextError
from mncover.suites.formats.records import Fields
from mncover.suites.intake import (
    given_cases,
    given_rows,
    given_sets,
    given_suite,
    given_texts,
    given_train,
)
from mncover.suites.rows import Rows, label_numbers

COLUMNS: dict[str, list[Any]] = {
    "id": [7, 8, 9],
    "sentence": ["good film", "bad food", "slow"],
    "label": [1, 0, 1],
    "topic": ["film", "food", "film"],
}
TABLES: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "dictionary": dict,
    "DataFrame": pandas.DataFrame,
    "DataFrame with another index": lambda c: pandas.DataFrame(c, index=[30, 10, 20]),
    "Arrow table": pyarrow.table,
    "Arrow batch": pyarrow.RecordBatch.from_pydict,
    "data set": datasets.Dataset.from_dict,
    "data set that gives arrays": lambda c: datasets.Dataset.from_dict(c).with_format("numpy"),
    "streamed data set": lambda c: datasets.Dataset.from_dict(c).to_iterable_dataset(),
    "only split": lambda c: datasets.DatasetDict(train=datasets.Dataset.from_dict(c)),
    "records": lambda c: pandas.DataFrame(c).to_dict("records"),
    "generator of records": lambda c: iter(pandas.DataFrame(c).to_dict("records")),
    "arrays": lambda c: {name: np.array(values) for name, values in c.items()},
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_every_kind_give_the_same_rows(kind: str) -> None:
    def table() -> Any:  # anew each time, because a generator can be read once
        return TABLES[kind](COLUMNS)

    rows = given_rows(table(), context="topic")
    assert (rows.texts, rows.contexts) == (COLUMNS["sentence"], COLUMNS["topic"])
    assert [int(label) for label in rows.labels] == COLUMNS["label"]
    assert {type(text) for text in given_texts(table())} <= {str, np.str_}
    assert given_cases(table()) == [[text] for text in COLUMNS["sentence"]]
    pairs = given_texts(table(), "sentence", "topic")
    assert pairs == list(zip(COLUMNS["sentence"], COLUMNS["topic"], strict=True))


def test_polars_is_read_too() -> None:
    rows = given_rows(polars.DataFrame(COLUMNS), context="topic")
    assert (rows.texts, rows.labels) == (COLUMNS["sentence"], COLUMNS["label"])
    assert rows.contexts == COLUMNS["topic"]
    with pytest.raises(TextError, match=r"LazyFrame is not loaded yet: call its collect\(\)"):
        given_texts(polars.LazyFrame(COLUMNS))


@pytest.mark.parametrize(
    "values",
    [
        pandas.Series(["a", "b"], index=[5, 3]),
        np.array(["a", "b"]),
        ("a", "b"),
        (letter for letter in "ab"),
        {"a": 1, "b": 2}.keys(),
        pyarrow.array(["a", "b"]).to_pylist(),
    ],
    ids=lambda values: type(values).__name__,
)
def test_lists_of_texts_are_read_as_they_are(values: Any) -> None:
    assert given_texts(values) == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"tweet": ["x"], "n": [1]}, "x"),  # the only column of strings
        ({"tweet": ["x"], "label": ["pos"], "context": ["c"]}, "x"),
        ({"text": ["x"], "author": ["y"]}, "x"),
        ({"premise": ["x"], "hypothesis": ["y"], "genre": ["z"]}, ("x", "y")),
        ({"text": ["x"], "pair": ["y"]}, ("x", "y")),
        ({0: ["x"]}, "x"),  # what DataFrame(list_of_texts) calls it
    ],
)
def test_columns_are_found_where_only_one_choice_is_there(columns: Any, expected: Any) -> None:
    assert given_texts(columns) == [expected]
    assert given_texts(pandas.DataFrame(columns)) == [expected]


def two_splits() -> Any:
    one = datasets.Dataset.from_dict({"text": ["a"]})
    return datasets.DatasetDict(train=one, test=one)


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    ("a text", {}, "got a single string: put it in a list, or give a file as a Path."),
    ({"text": "a"}, {}, "a list for each column, but 'text' is 'a': put texts in a list."),
    ({"a": ["x"], "b": ["y"]}, {}, r"which column is the text\? It has 'a', 'b'; name one with"),
    ({"question": ["x"], "sentence": ["y"]}, {}, r"which column is the text\?"),
    (pandas.DataFrame({"text": ["a"], "review": ["b"]}), {}, r"which column is the text\?"),
    ({"input_ids": [[1, 2]]}, {}, "no column holds texts. It has 'input_ids'"),
    ({}, {}, "no column holds texts. It has no columns"),
    ({"text": ["a"], "label": []}, {}, "equally long; it has 'text' 1, 'label' 0"),
    ({"text": ["a"]}, {"text": "txt"}, "no column 'txt'; it has 'text'"),
    ({"text": ["a"]}, {"label": "gold"}, "no column 'gold'; it has 'text'"),
    ({"text": ["a"], "b": ["c"]}, {"pair": "b"}, "`pair` names the second text"),
    (["a"], {"text": "text"}, "`text` names a column of a table, but the texts came as a list"),
    (Rows.make(["a"]), {"label": "gold"}, "`label` names a column of a table"),
    (two_splits(), {}, r"it has the splits 'train', 'test': choose one, as in data\['train'\]."),
    ({"x": pandas.DataFrame(COLUMNS), "y": pandas.DataFrame(COLUMNS)}, {}, "the splits 'x', 'y'"),
    (pandas.DataFrame([["a", "b"]], columns=["t", "t"]), {}, "two columns are called 't'"),
    (pandas.DataFrame({"text": ["a", None]}), {}, "row 1 of the column 'text' must be text, got"),
    ({"s1": ["a", "b"], "s2": ["c", 3]}, {"text": "s1", "pair": "s2"}, "row 1 of the column 's2'"),
    ({"s1": ["a", 4], "s2": ["c", "d"]}, {"text": "s1", "pair": "s2"}, "row 1 of the column 's1'"),
    ([{"text": "a"}, "b"], {}, "record 1 must be a dictionary like the first one"),
    ([{"text": "a"}, {"txt": "b"}], {"text": "text"}, "row 1 of the column 'text' must be text"),
    (["a", 3], {}, "text 1 must be a string or a tuple of two strings, got 3"),
    (3, {}, "expected a list of texts or a table, got 3"),
]


@pytest.mark.parametrize(("given", "names", "message"), REFUSED)
def test_what_cannot_be_read_is_refused_in_one_line(given: Any, names: Any, message: str) -> None:
    with pytest.raises(MnCoverError, match=message) as raised:
        given_rows(given, Fields(**names))
    assert "\n" not in str(raised.value)


def test_a_context_is_a_column_or_a_name() -> None:
    table = {"text": ["a", "b"], "context": ["one", "two"], "topic": ["x", "y"]}
    assert given_rows(table).contexts == ["one", "two"]
    assert given_rows(table, context="topic").contexts == ["x", "y"]
    assert given_rows(table, context="negation").contexts == ["negation", "negation"]
    assert given_rows(table, context=pandas.Series(["p", "q"])).contexts == ["p", "q"]
    for wrong in (3, None, 1.5):
        with pytest.raises(TextError, match="a context must be a string, or a list of one per"):
            given_rows(table, context=wrong)  # type: ignore[arg-type]
    with pytest.raises(TextError, match=r"a context must be a string, got 3\."):
        given_rows({"text": ["a"], "fold": [3]}, context="fold")


def test_labels_are_given_or_named_but_not_both() -> None:
    table = {"text": ["a", "b"], "label": [0, 1], "gold": ["x", ""]}
    assert given_rows(table, Fields(label="gold")).labels == ["x", ""]
    assert given_rows(table, labels=[1, None]).labels == [1, None]
    with pytest.raises(SettingsError, match="either `labels` or `label`"):
        given_rows(table, Fields(label="gold"), labels=[0, 1])
    for wrong in ("01", 3):
        with pytest.raises(TextError, match="labels must be a list of one per text"):
            given_rows(table, labels=wrong)  # type: ignore[arg-type]


def named_set(names: list[str], numbers: list[int]) -> Any:
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=names)}
    columns = {"text": ["a"] * len(numbers), "label": numbers}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


@pytest.mark.parametrize(
    ("names", "model", "expected"),
    [
        (["pos", "neg"], ["NEG", "POS"], [1, 0, -1]),  # by name: the order differs
        (["pos", "neg"], ["LABEL_0", "LABEL_1"], [0, 1, -1]),  # no name is shared: by number
    ],
)
def test_numbered_labels_of_a_data_set_count_by_name_if_it_shares_names(
    names: list[str], model: list[str], expected: list[int]
) -> None:
    rows = given_rows(named_set(names, [0, 1, -1]))
    assert label_numbers(rows.labels, model) == expected
    streamed = given_rows(named_set(names, [0, 1, -1]).to_iterable_dataset())
    assert label_numbers(streamed.labels, model) == expected
    assert rows.fingerprint == Rows.make(["a"] * 3, labels=[0, 1, -1]).fingerprint


def test_a_class_that_the_model_lacks_is_refused_if_others_are_shared() -> None:
    rows = given_rows(named_set(["neg", "neutral", "pos"], [0, 1]))
    with pytest.raises(TextError, match="the label 'neutral' is none of the model's classes"):
        label_numbers(rows.labels, ["neg", "pos"])


def test_files_are_read_by_path(tmp_path: Path) -> None:
    path = tmp_path / "texts.csv"
    pandas.DataFrame(COLUMNS).to_csv(path, index=False)
    assert given_texts(path) == COLUMNS["sentence"]
    assert given_rows(path, context="topic").contexts == COLUMNS["topic"]
    assert given_rows(path, context="mine").contexts == ["mine"] * 3
    assert given_suite(str(path), Fields(context="topic")).contexts == COLUMNS["topic"]
    assert given_cases(path, "topic") == [["film"], ["food"], ["film"]]


def test_the_cases_of_a_suite_stay_together(tmp_path: Path) -> None:
    path = tmp_path / "suite.jsonl"
    lines = [{"suite": 1}, {"test": "same", "type": "INV"}, {"case": ["a", "b"]}, {"case": ["c"]}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert given_cases(path) == [["a", "b"], ["c"]]
    assert given_suite(str(path), Fields()).suite is not None
    assert given_train(str(path), Fields()).texts == given_rows(path).texts == ["a", "b", "c"]
    assert given_rows(path, context="x").contexts == ["x"] * 3


def test_columns_of_lists_are_cases() -> None:
    assert given_cases({"variants": [["a", "b"], ["c"]]}, "variants") == [["a", "b"], ["c"]]
    with pytest.raises(TextError, match="case 1 must be a list of texts"):
        given_cases({"variants": [["a"], 3]}, "variants")
    with pytest.raises(SettingsError, match="`pair` names a column"):
        given_cases([["a"]], pair="b")


def test_training_texts_may_have_other_columns_than_the_suite() -> None:
    asked = Fields("premise", "hypothesis", "gold")
    suite = {"premise": ["a"], "hypothesis": ["b"], "gold": [1], "text": ["z"]}
    assert given_train(suite, asked).texts == [("a", "b")]
    assert given_train(suite, asked).labels == [1]
    assert given_train({"text": ["c"], "premise": ["d"]}, asked).texts == ["c"]
    assert given_train(["e"], asked).texts == ["e"]


def test_sets_are_a_dictionary_or_the_splits_of_a_data_set() -> None:
    assert given_sets(two_splits()) == {"train": ["a"], "test": ["a"]}
    assert given_sets({"one": pandas.DataFrame(COLUMNS)}, "topic") == {"one": COLUMNS["topic"]}
    with pytest.raises(TextError, match="expected a dictionary of lists of texts by name"):
        given_sets(pandas.DataFrame(COLUMNS))
