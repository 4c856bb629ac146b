"""Failures of suites: classes that correspond, and rates equal to a plain script's."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.cli import main
from mncover.data.store import CoverageData
from mncover.errors import DataFileError, SettingsError, TextError
from mncover.suites.exchange import export_texts, read_predictions
from mncover.suites.expectations import Expectation
from mncover.suites.formats import load_suite, save_suite
from mncover.suites.judging import (
    FAILS,
    NOT_JUDGED,
    PASSES,
    complete_cases,
    in_suite_classes,
    judge_suite,
    neutral_band,
    outline_of,
)
from mncover.suites.model import Case, Outline, Suite, Test
from tests.cli.test_commands import error_of
from tests.suites.test_expectations import answers

THREE = ("negative", "neutral", "positive")


@given(st.floats(0, 1))
def test_the_neutral_band_is_a_distribution_and_follows_its_rule(r: float) -> None:
    negative, neutral, positive = neutral_band(np.array([r]))[0].tolist()
    assert negative + neutral + positive == pytest.approx(1)
    if r < 1 / 3 or r > 2 / 3:
        assert (negative, neutral, positive) == (1 - r, 0, r)
    elif r >= 0.5:
        assert (negative, neutral) == (0, pytest.approx(1 - 3 * abs(r - 0.5)))
    else:
        assert (positive, neutral) == (0, pytest.approx(1 - 3 * abs(r - 0.5)))


def test_classes_correspond_by_band_by_name_or_by_number() -> None:
    two = np.array([[0.9, 0.1], [0.5, 0.5]])
    banded = in_suite_classes(two, ("NEGATIVE", "POSITIVE"), THREE)
    assert banded.classes.tolist() == [0, 1]
    named = in_suite_classes(two, ("Positive", "Negative"), THREE, "names")
    assert named.probabilities[0].tolist() == [0.1, 0, 0.9]
    swapped = in_suite_classes(two, ("yes", "no"), ("no", "yes"))
    assert swapped.classes.tolist() == [1, 0]
    numbered = in_suite_classes(two, ("LABEL_0", "LABEL_1"), ("no", "yes"))
    assert numbered.classes.tolist() == [0, 0]
    assert in_suite_classes(two, ("a", "b"), ()).probabilities.tolist() == two.tolist()


@pytest.mark.parametrize(
    ("model", "suite", "how", "message"),
    [
        (("a", "b"), ("a",), "auto", "do not fit"),
        (("a", "b"), ("a", "c"), "names", "do not fit .* by names"),
        (("a", "b"), ("a", "c"), "neutral-band", "by neutral-band"),
        (("a", "b"), ("a", "c"), "magic", "correspond by auto, names"),
    ],
)
def test_classes_that_do_not_fit_are_refused(
    model: Any, suite: Any, how: Any, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        in_suite_classes(np.zeros((1, 2)), model, suite, how)


def test_rates_count_failing_of_judged_cases_by_hand() -> None:
    suite = Suite(
        (
            Test("mft", "MFT", Expectation("label"), (Case(("a",), "no"), Case(("b",), (0, 1)))),
            Test("inv", "INV", Expectation("inv"), (Case(("a", "b")), Case(("c",)))),
            Test("none", "INV", Expectation("inv"), (Case(("a",)),)),
        ),
        ("no", "yes"),
    )
    found = judge_suite(
        suite, answers((0.1, 0.9), (0.6, 0.4), (0.9, 0.1), (0.2, 0.8), *[(1, 0)] * 2)
    )
    assert [o.verdicts.tolist() for o in found] == [[0, 1], [0, -1], [-1]]
    assert [o.failure_rate for o in found] == [0.5, 1.0, None]
    assert [(o.judged, o.failing) for o in found] == [(2, 1), (1, 1), (0, 0)]
    with pytest.raises(TextError, match="got 1 answer, but the suite has 6 texts"):
        judge_suite(suite, answers((1, 0)))


def test_a_case_passes_if_all_that_is_judged_passes() -> None:
    same, other = (0.9, 0.1), (0.1, 0.9)
    cases = {
        (same, same, same): PASSES,
        (same, same, other): FAILS,
        (same, other, same): FAILS,
        (same,): NOT_JUDGED,
    }
    made = tuple(Case(("x",) * len(rows)) for rows in cases)
    suite = Suite((Test("inv", "INV", Expectation("inv"), made),))
    (found,) = judge_suite(suite, answers(*chain.from_iterable(cases)))
    assert found.verdicts.tolist() == list(cases.values())


def test_a_class_that_the_suite_does_not_have_is_refused() -> None:
    for label in ("maybe", 2, -1):
        suite = Suite(
            (Test("t", "MFT", Expectation("label"), (Case(("a",), label),)),), ("no", "yes")
        )
        with pytest.raises(TextError, match="the test 't': there is no class"):
            judge_suite(suite, answers((1, 0)))


OUTLINED = Suite(
    (Test("t", "INV", Expectation("inv"), (Case(("a", "b")), Case(("c",), (0, "no"))), "Logic"),),
    ("no", "yes"),
)


def with_outline(outline: Any) -> CoverageData:
    return cast(CoverageData, SimpleNamespace(outlines={"run": outline}))


def test_the_outline_of_a_run_comes_back_from_plain_json() -> None:
    outline = Outline.of(OUTLINED, "names")
    data = with_outline(json.loads(json.dumps(outline.to_json())))
    assert outline_of(data, "run") == outline
    assert outline_of(data, "a run of texts") is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tests": None}, "outline.tests must be a list"),
        ({"labels": 3}, "outline.labels must be a list"),
        ({"classes": "magic"}, "outline.classes must be one of auto"),
        ({"tests": [{"test": "t", "expectation": "inv"}]}, "no 'sizes'"),
        ({"tests": [{"test": 3}]}, "must be text"),
        (
            {"tests": [{"test": "t", "type": "ABC", "sizes": [], "right": []}]},
            "'type' must be one of",
        ),
        ({"tests": [{"test": "t", "sizes": [1], "right": []}]}, "another number of labels"),
        ({"tests": [{"test": "t", "sizes": [float("inf")], "right": [1]}]}, "whole number"),
        ({"tests": [{"test": "t", "sizes": [1], "right": [{}]}]}, "must be a class"),
        ({"tests": [{"test": "t", "sizes": [0], "right": [1]}]}, "whole number from 1"),
        ({"tests": ["t"]}, "must be an object"),
    ],
)
def test_a_damaged_outline_is_refused_with_one_line(change: dict[str, Any], message: str) -> None:
    data = with_outline(Outline.of(OUTLINED).to_json() | change)
    with pytest.raises(DataFileError, match=message) as caught:
        outline_of(data, "run")
    assert str(caught.value).startswith("the suite of run run is damaged (")
    assert str(caught.value).endswith("run it again.")
    assert "\n" not in str(caught.value)


@given(
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    seed=st.integers(0, 99),
    left=st.integers(0, 3),
)
def test_a_case_is_complete_once_all_its_texts_were_run(
    sizes: list[int], seed: int, left: int
) -> None:
    """Rows come in any order and of two runs, and the last ones may be missing."""
    case = np.tile(np.repeat(np.arange(len(sizes)), sizes), 2)
    rows = np.random.default_rng(seed).permutation(len(case))
    rows = rows[: max(0, len(rows) - left)]
    run, index = np.repeat([0, 1], sum(sizes)), np.arange(len(case)) * 7
    columns = {"run": run, "case": case, "index": index}
    table = {name: values[rows] for name, values in columns.items()}
    outline = {"tests": [{"sizes": sizes[:1]}, {"sizes": sizes[1:]}]}
    data = SimpleNamespace(
        table=table, runs=[SimpleNamespace(id=x) for x in "ab"], outlines={"b": outline}
    )
    expected = []
    for number, size in enumerate(sizes):
        mine = [
            row
            for row in range(len(rows))
            if (table["run"][row], table["case"][row]) == (1, number)
        ]
        if len(mine) == size:
            expected.append((number, sorted(mine, key=lambda row: int(table["index"][row]))))
    numbers, of_case = complete_cases(cast(CoverageData, data), 1)
    found = [(n, mine.tolist()) for n, mine in zip(numbers.tolist(), of_case, strict=True)]
    assert found == expected


def plain_rate(test: Test, probabilities: list[list[float]]) -> tuple[int, int]:
    """Return failing and judged cases by EXPECTATIONS.md alone, for the released suites."""
    at, failing, judged = 0, 0, 0
    for case in test.cases:
        rows = probabilities[at : at + len(case.texts)]
        at += len(rows)
        classes = [max(range(len(row)), key=row.__getitem__) for row in rows]
        passed = plain_case(test.name, test.kind, case.label, rows, classes)
        passed = [p for p in passed if p is not None]
        judged += bool(passed)
        failing += bool(passed) and not all(passed)
    return failing, judged


def plain_case(  # noqa: C901 - one rule after the other, as on the page
    name: str, kind: str, label: Any, rows: Any, classes: Any
) -> list[bool | None]:
    first = classes[0]
    p = [row[first] for row in rows]
    others = range(1, len(rows))
    if name == "(q, paraphrase(q))":
        return [c == 1 for c in classes]
    if "in one of the questions" in name:
        return [classes[i] == 0 for i in others] if first == 1 else []
    if name.startswith("Keep entitites"):
        return [classes[i] == 0 for i in others]
    if name == "Testing implications":
        a, b, c = (x == 1 for x in classes)
        return [c] if a and b else [not c] if a != b else []
    if "not negative" in name or "was negative, but" in name or "Negation of negative" in name:
        return [c != 0 for c in classes]
    if name == "Q & A: no":
        return [c == 0 if label == 0 else c != 0 for c in classes]
    if name == "intensifiers":
        return [] if first == 1 or p[0] <= 0.1 else [p[i] >= p[0] - 0.1 for i in others]
    if name in ("reducers", '"used to" should reduce'):
        return [] if first == 1 or p[0] >= 0.9 else [p[i] <= p[0] + 0.1 for i in others]
    if name in ("add positive phrases", "add negative phrases"):
        change = [(r[2] - r[0]) - (rows[0][2] - rows[0][0]) for r in rows]
        up = "positive" in name
        return [change[i] >= -0.1 if up else change[i] <= 0.1 for i in others]
    if kind == "MFT":
        return [c == label for c in classes]
    return [classes[i] == first or abs(p[i] - p[0]) <= 0.1 for i in others]


@pytest.mark.parametrize(("name", "classes"), [("sentiment", 3), ("qqp", 2)])
def test_failures_of_the_released_suites_equal_a_plain_script_for_random_answers(
    name: str, classes: int, shared: Path
) -> None:
    suite = load_suite(shared / "data" / "checklist" / f"{name}_suite.tar.gz")
    few = tuple(
        Test(t.name, t.kind, t.expectation, t.cases[:: max(1, len(t.cases) // 40)])
        for t in suite.tests
    )
    small = Suite(few, suite.labels)
    rng = np.random.default_rng(0)
    # Answers of all kinds: undecided ones, sure ones, and cases whose texts get nearly the same.
    base = np.repeat(rng.dirichlet([0.5] * classes, small.texts // 3 + 1), 3, axis=0)
    noise = rng.dirichlet([1] * classes, len(base))
    mixed = (0.8 * base + 0.2 * noise)[: small.texts]
    found = judge_suite(small, answers(*map(tuple, mixed.tolist())))
    at, rates = 0, []
    for test, outcome in zip(small.tests, found, strict=True):
        rows = mixed[at : at + test.texts].tolist()
        at += test.texts
        failing, judged = plain_rate(test, rows)
        assert (outcome.failing, outcome.judged) == (failing, judged), test.name
        rates.append(outcome.failure_rate)
    assert len([r for r in rates if r is not None and 0 < r < 1]) > 20


# Predictions from elsewhere.

PAIRS = Suite(
    (
        Test("mft", "MFT", Expectation("label"), (Case(("a\nb",), 1), Case((("x\ty", "z"),), 0))),
        Test("inv", "INV", Expectation("inv"), (Case(("c", "d", "e")),), capability="Logic"),
    ),
    ("no", "yes"),
)


def test_texts_go_out_a_line_each_with_an_index(tmp_path: Path) -> None:
    export_texts(PAIRS, tmp_path / "texts.txt")
    assert (tmp_path / "texts.txt").read_text() == "a b\nx y\tz\nc\nd\ne\n"
    index = (tmp_path / "texts.txt.index.tsv").read_text().splitlines()
    assert index[1:] == ["mft\t0\t0", "mft\t1\t0", "inv\t0\t0", "inv\t0\t1", "inv\t0\t2"]


@pytest.mark.parametrize(
    ("kind", "line", "classes", "probabilities"),
    [
        ("pred_only", "1", 1, [0, 1]),
        ("softmax", "0.7 0.3", 0, [0.7, 0.3]),
        ("softmax", "0.2, 0.8", 1, [0.2, 0.8]),
        ("binary_softmax", "0.75", 1, [0.25, 0.75]),
        ("pred_and_conf", "1 0.6", 1, [0, 0.6]),
        ("pred_and_softmax", "0 0.4 0.6", 0, [0.4, 0.6]),
    ],
)
def test_predictions_come_back_in_checklists_formats(
    kind: str, line: str, classes: int, probabilities: list[float], tmp_path: Path
) -> None:
    (tmp_path / "p.txt").write_text(f"{line}\n")
    found = read_predictions(tmp_path / "p.txt", kind, 1)
    assert found.classes.tolist() == [classes]
    assert found.probabilities[0].tolist() == pytest.approx(probabilities)


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("softmax", "0.5 0.5\n", "1 line, but the suite has 2 texts"),
        ("softmax", "0.5 0.5\nx\n", "line 2: not softmax"),
        ("pred_only", "1\n0.5\n", "line 2: not pred_only"),
        ("pred_only", "1\n-1\n", "negative classes"),
        ("pred_only", "1\ninf\n", "line 2: not pred_only"),
        ("pred_only", "1\n1 0.5\n", "line 2: not pred_only"),
        ("pred_and_conf", "1 0.5\n1\n", "line 2: not pred_and_conf"),
        ("binary_softmax", "0.5\n0.5 0.5\n", "line 2: not binary_softmax"),
        ("pred_and_softmax", "1 0.5 0.5\n2 0.5 0.5\n", "line 2: not pred_and_softmax"),
        ("softmax", "0.5 0.5\nnan 0.5\n", "not finite"),
        ("csv", "", "format of predictions is one of pred_only"),
    ],
)
def test_bad_predictions_are_refused(kind: str, content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text(content)
    with pytest.raises(TextError, match=message):
        read_predictions(tmp_path / "p.txt", kind, 2)


def test_a_suite_is_judged_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    save_suite(PAIRS, Path("s.jsonl"))
    assert main(["suite", "export", "s.jsonl", "-o", "texts.txt"]) == 0
    assert "5 lines" in capsys.readouterr().out
    Path("p.txt").write_text("0.9 0.1\n0.8 0.2\n0.6 0.4\n0.55 0.45\n0.1 0.9\n")
    assert main(["suite", "judge", "s.jsonl", "p.txt"]) == 0
    shown = capsys.readouterr().out
    assert "50.00" in shown
    assert "100.00" in shown
    assert main(["suite", "judge", "s.jsonl", "p.txt", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [row["failing_cases"] for row in content] == [[0], [0]]
    assert [row["failure_rate"] for row in content] == [0.5, 1.0]
    Path("q.txt").write_text("1\n0\n1\n1\n1\n")
    assert main(["suite", "judge", "s.jsonl", "q.txt", "--format", "pred_only"]) == 0
    assert "0.00" in capsys.readouterr().out
    assert "correspond by" in error_of(
        capsys, "suite", "judge", "s.jsonl", "p.txt", "--classes", "x"
    )
