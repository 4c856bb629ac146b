"""Tables of texts, cases and tests, compared with the JSON report and counted anew."""

from __future__ import annotations

import io
import json
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from rich.console import Console

from mncover import Coverage
from mncover.data.results import Result
from mncover.errors import MissingExtraError, SettingsError
from mncover.report import REPORTS, jsonreport
from mncover.report.columns import View
from mncover.report.frames import Frame
from mncover.selection.cases import cases_of
from mncover.selection.scores import score_cases
from tests import tiny

TRAIN = tiny.texts(40, seed=9)
TESTS: list[dict[str, Any]] = [
    {"suite": 1, "labels": ["LABEL_0", "LABEL_1", "LABEL_2"]},
    {"test": "praise", "capability": "Vocabulary"},
    *({"case": text, "label": n % 3} for n, text in enumerate(tiny.texts(9, seed=1))),
    {"test": "order", "type": "INV", "capability": "Robustness"},
    *({"case": list(pair)} for pair in tiny.texts(6, seed=2, pairs=True)),
]


def fresh() -> Coverage:
    model, tokenizer = tiny.make("bert")
    return Coverage(model, tokenizer, max_length=16, progress=False).calibrate(TRAIN, cache=False)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Coverage:
    """A run of a suite of tests."""
    folder = tmp_path_factory.mktemp("suite")
    path = folder / "tests.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in TESTS))
    return fresh().run(str(path), folder / "run.mncover")


@pytest.fixture(scope="module")
def plain() -> Coverage:
    """Labelled texts and pairs, measured with and without gains."""
    texts = [*tiny.texts(8, seed=3), *tiny.texts(4, seed=4, pairs=True), ""]
    labels = [0, 1, 2, None] * 3 + [1]
    cov = fresh().update(texts, ["a"] * 6 + ["b"] * 7, labels, gains=True)
    return cov.update(["good", "bad"], "later")


def as_json(cov: Coverage) -> Any:
    file = io.StringIO()
    REPORTS["json"].show(View(cov.data, cov.result(), texts=True), Console(file=file))
    return json.loads(file.getvalue())


def same(one: Any, other: Any) -> bool:
    """Compare two cells; pandas writes what is missing in several ways."""
    if isinstance(one, list) or isinstance(other, list):
        return bool(one == other)
    return bool(pandas.isna(one) and pandas.isna(other)) or bool(one == other)


@pytest.mark.parametrize("name", ["suite", "plain"])
def test_texts_have_what_the_json_report_has(name: str, request: pytest.FixtureRequest) -> None:
    cov: Coverage = request.getfixturevalue(name)
    rows = as_json(cov)["rows"]
    found = cov.result().texts().to_pandas()
    texts = found.pop("text"), found.pop("pair")
    expected = pandas.json_normalize(rows)
    given = expected.pop("text")
    assert sorted(found.columns) == sorted(expected.columns)
    for column in expected:
        pairs = zip(found[column].tolist(), expected[column].tolist(), strict=True)
        assert all(same(one, other) for one, other in pairs), column
    both = zip(*texts, strict=True)
    assert [a if pandas.isna(b) else [a, b] for a, b in both] == given.tolist()


def test_cases_are_those_of_the_suite_and_fail_as_judged(suite: Coverage) -> None:
    result = suite.result()
    cases, texts = result.cases(), result.texts()
    given = [line for line in TESTS if "case" in line]
    assert [row["texts"] for row in cases] == [
        [line["case"]] if isinstance(line["case"], str) else line["case"] for line in given
    ]
    assert cases["test"] == ["praise"] * 9 + ["order"] * 6
    assert cases["type"] == ["MFT"] * 9 + ["INV"] * 6
    assert cases["case"] == list(range(15))
    assert cases["label"] == [f"LABEL_{n % 3}" for n in range(9)] + [None] * 6
    for row in cases:  # judged anew, from the rows of the texts
        said = [texts["prediction"][at] for at in row["rows"]]
        assert row["predictions"] == said
        shares = [max(texts["probabilities"][at]) for at in row["rows"]]
        assert row["confidences"] == pytest.approx(shares)
        wrong = said != [row["label"]] if row["type"] == "MFT" else said[0] != said[1]
        assert row["failing"] is wrong
        assert [texts["text"][at] for at in row["rows"]] == row["texts"]
        added = sum(texts["gains.cover"][at] for at in row["rows"])
        assert row["gains.cover"] == pytest.approx(added)
    assert {True, False} == set(cases["failing"][:9]) == set(cases["failing"][9:])
    found = cases_of(suite.data)
    assert cases["novelty"] == pytest.approx(score_cases(found, "novelty").tolist())
    for test in as_json(suite)["tests"]:
        mine = [row["failing"] for row in cases if row["test"] == test["test"]]
        assert [i for i, fails in enumerate(mine) if fails] == test["failing_cases"]


def test_plain_texts_are_cases_that_fail_if_the_class_is_wrong(plain: Coverage) -> None:
    result = plain.result()
    cases, texts = result.cases(), result.texts()
    for row in cases:
        [at] = row["rows"]
        label, said = texts["label"][at], texts["prediction"][at]
        expected = None if label is None or said is None else label != said
        assert (row["failing"], row["label"]) == (expected, label)
        assert row["test"] == texts["context"][at]
        assert row["pairs"] == (None if texts["pair"][at] is None else [texts["pair"][at]])
        assert (row["predictions"], row["type"]) == ([said], None)
        for field in ("gains.cover", "novelty"):
            known = texts[field][at]
            assert row[field] == (None if known is None else pytest.approx(known))
    assert len(cases) == len(texts) == 15
    assert cases["failing"].count(True) == sum(c.wrong for c in result.contexts)


@pytest.mark.parametrize("name", ["suite", "plain"])
def test_tests_have_the_numbers_of_the_report(name: str, request: pytest.FixtureRequest) -> None:
    cov: Coverage = request.getfixturevalue(name)
    content, frame = as_json(cov), cov.result().tests()
    judged = {test["test"]: test for test in content["tests"]}
    normal = pandas.json_normalize(content["contexts"]).to_dict("records")
    for row, context in zip(frame, normal, strict=True):
        assert row["test"] == context["context"]
        of_test = judged.get(row["test"], {})
        for field in ("type", "capability", "cases"):
            assert row[field] == of_test.get(field)
        for field in ("judged", "failing", "failure_rate") if of_test else ():
            assert row[field] == of_test[field]
        shared = set(row) & set(context)
        assert {"criteria.cover.share", "criteria.cover.adds", "adds_little", "texts"} <= shared
        assert {"criteria.cover.adds_of_reachable", "outside", "little_failing"} <= shared
        unknown = {"labelled", "wrong", "accuracy"} if not context["labelled"] else set()
        unknown |= {"judged", "failing", "failure_rate"} if not context["judged"] else set()
        for field in shared - unknown:
            assert same(row[field], context[field]), field
        assert all(row[field] is None for field in unknown)


def test_arrow_and_pandas_hold_the_same(plain: Coverage) -> None:
    for frame in (plain.result().texts(), plain.result().cases(), plain.result().tests()):
        table = frame.to_arrow()
        assert table.to_pylist() == list(frame)
        assert pyarrow.table(frame) == table  # through the interface that polars uses too
        found = frame.to_pandas()
        assert (len(found), list(found.columns)) == (len(frame), frame.columns)
    owners = plain.result().texts().to_pandas()["owner"]
    assert str(owners.dtype) == "Int64"
    assert owners.isna().any()
    cases = plain.result().cases()
    found = cases.to_pandas()
    assert found.failing.isna().any()
    assert (
        found[found.failing].index.tolist()
        == np.flatnonzero([fails is True for fails in cases["failing"]]).tolist()
    )


def test_results_do_not_change_under_later_texts() -> None:
    cov = fresh().update(["good film"], gains=True)
    before = cov.result()
    cov.update(["bad food", "slow"], "more", gains=True)
    assert (len(before.texts()), len(before.cases()), before.n_texts) == (1, 1, 1)
    assert len(cov.result().texts()) == cov.result().n_texts == 3
    copied = pickle.loads(pickle.dumps(before))
    assert list(copied.cases()) == list(before.cases())


def test_rows_without_content_and_unknown_columns(plain: Coverage) -> None:
    empty = fresh().result()
    assert (len(empty.texts()), empty.texts().columns, list(empty.cases())) == (0, [], [])
    assert len(empty.texts().to_pandas()) == 0
    with pytest.raises(SettingsError, match="there is no column 'txt'; there are run, context"):
        plain.result().texts()["txt"]


def headings(html: str) -> list[str]:
    return [part.split("<")[0] for part in html.split("<th>")[1:]]


def test_notebooks_show_the_columns_that_have_something_in_them(
    suite: Coverage, plain: Coverage
) -> None:
    shown = headings(plain.result().texts()._repr_html_())
    assert {"text", "pair", "label", "novelty"} <= set(shown)
    assert not {"case", "truncated"} & set(shown)  # no suite of tests, and nothing was cut
    of_suite = headings(suite.result().texts()._repr_html_())
    assert "case" in of_suite
    assert not {"pair", "label"} & set(of_suite)
    assert "failing %" in headings(suite.result()._repr_html_())
    assert "failing %" in headings(plain.result()._repr_html_())  # labelled texts are cases
    assert repr(suite.result().tests()).startswith("<2 tests: test, type, capability, cases")


def test_cells_are_shown_as_text() -> None:
    rows = [{"name": "<b>" + "x" * 90, "share": 0.123456, "cut": True, "both": ["a", None, 2]}]
    html = Frame("text", rows)._repr_html_()
    assert "<b>1 text</b>" in html
    assert "&lt;b&gt;" + "x" * 56 + "…" in html
    for cell in ("0.1235", "yes", "a, , 2"):
        assert f"<td>{cell}</td>" in html


@pytest.mark.parametrize(
    ("method", "package", "extra"),
    [("to_pandas", "pandas", "pandas"), ("to_arrow", "pyarrow", "parquet")],
)
def test_missing_packages_are_named(
    method: str, package: str, extra: str, plain: Coverage, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = plain.result().tests()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"{method}\(\) needs .*'mncover\[{extra}\]'"):
        getattr(frame, method)()


def test_a_report_is_printed_or_written_in_every_format(
    suite: Coverage, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind in REPORTS:
        expected = io.StringIO()
        view = View(suite.data, suite.result(), failures=2)
        REPORTS[kind].show(view, Console(file=expected))
        file = io.StringIO()
        suite.report(kind, failures=2, file=file)
        assert file.getvalue() == expected.getvalue()
        assert len(expected.getvalue()) > 100
    suite.report(sort="-texts", heads=True)
    printed = capsys.readouterr().out
    assert printed.index("\norder") < printed.index("\npraise")
    assert "Attention heads" in printed
    with pytest.raises(SettingsError, match="there is no format 'pdf'; there are text, markdown"):
        suite.report("pdf")


def test_pages_are_written_to_a_folder(suite: Coverage, tmp_path: Path) -> None:
    suite.save(tmp_path / "old.mncover")
    first = suite.html(tmp_path / "pages", since=tmp_path / "old.mncover")
    assert first == tmp_path / "pages" / "index.html"
    assert "old.mncover" in first.read_text(encoding="utf-8")
    assert len(list((tmp_path / "pages" / "tests").glob("*.html"))) == 2
    read = Coverage.load(tmp_path / "old.mncover")  # without a model
    assert read.html(tmp_path / "again").is_file()
    assert len(read.result().cases()) == 15


def test_a_table_is_measured_like_the_lists_in_it(tmp_path: Path) -> None:
    texts, labels = tiny.texts(12, seed=5), [0, 1, 2] * 4
    topics = ["a", "b", "c"] * 4
    table = pandas.DataFrame({"review": texts, "stars": labels, "topic": topics})
    by_list = fresh().update(texts, topics, labels, gains=True)
    by_table = fresh().update(table, "topic", gains=True, label="stars", text="review")

    def numbers(cov: Coverage) -> Any:
        content = jsonreport.to_json(cov.result())
        rows = jsonreport.rows_to_json(cov.data)
        return content, [{k: v for k, v in row.items() if k != "run"} for row in rows]

    assert numbers(by_list) == numbers(by_table)
    renamed = table.rename(columns={"review": "text"})
    cov = fresh()
    assert np.array_equal(cov.gain(table, text="review"), cov.gain(texts))
    assert cov.filter(renamed).kept == cov.filter(texts).kept
    assert cov.greedy(renamed, budget=3).kept == cov.greedy(texts, budget=3).kept
    assert np.array_equal(cov.signatures(renamed), cov.signatures(texts))
    assert cov.curve("x", renamed)[0].share == cov.curve("x", texts)[0].share
    [compared] = cov.compare({"one": renamed, "two": table[:6]}, draws=2, text="topic")
    assert compared.sizes == (12, 6)
    ran = cov.run(
        table, tmp_path / "run.mncover", TRAIN, text="review", label="stars", context="topic"
    )
    assert [row["test"] for row in ran.result().tests()] == ["a", "b", "c"]
    assert ran.result().cover == by_list.result().cover
    assert ran.data.runs[0].suite == ""


def test_a_results_tables_come_with_it() -> None:
    """The numbers of a result and those of its tables are of one moment, and it compares."""
    cov = fresh().update(["good"])
    assert isinstance(cov.result(), Result)
    assert cov.result().contexts == cov.result().contexts
    assert "tables" not in repr(cov.result())
