"""Expectations, judged by hand."""

from __future__ import annotations

import json
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.errors import TextError
from mncover.suites.expectations import Answers, Expect, Expectation, Grouped, Mask, judge
from mncover.suites.formats.checklist import RELEASED


def answers(*rows: tuple[float, ...]) -> Answers:
    probabilities = np.array(rows)
    return Answers(probabilities.argmax(1), probabilities)


def verdicts(
    expectation: Expectation, *rows: tuple[float, ...], right: Any = ()
) -> list[bool | None]:
    return as_list(judge(expectation, answers(*rows), Grouped([len(rows)]), [tuple(right)]))


def as_list(found: tuple[Mask, Mask]) -> list[bool | None]:
    """Return a verdict for each text: passes, fails, or None if it is not judged."""
    assert not (found[1] & ~found[0]).any()
    return [bool(passes) if judged else None for judged, passes in zip(*found, strict=True)]


NEG, NEU, POS = (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.1, 0.1, 0.8)


def test_label_asks_for_the_case_label_or_any_of_several() -> None:
    assert verdicts(Expectation("label"), NEG, POS, right=[2]) == [False, True]
    assert verdicts(Expectation("label"), NEG, NEU, POS, right=[1, 2]) == [False, True, True]
    assert verdicts(Expectation("label", (0,)), NEG, POS, right=[2]) == [True, False]
    assert verdicts(Expectation("label"), NEG) == [None]


def test_not_asks_for_any_other_class() -> None:
    assert verdicts(Expectation("not", (0,)), NEG, NEU, POS) == [False, True, True]


def test_invariance_allows_another_class_within_the_tolerance() -> None:
    original, near, far, same = (0.52, 0.48), (0.45, 0.55), (0.40, 0.60), (0.99, 0.01)
    found = verdicts(Expectation("inv", tolerance=0.1), original, near, far, same)
    assert found == [None, True, False, True]


def test_the_original_is_not_judged_by_what_compares_with_it_and_alone_nothing_is() -> None:
    assert verdicts(Expectation("inv"), NEG) == [None]
    assert verdicts(Expectation("label", (0,), first=False), NEG, NEG) == [None, True]
    assert verdicts(Expectation("label", (1,), first=True), NEG, NEU) == [False, True]


def test_monotonic_forbids_moves_against_the_direction() -> None:
    up = Expectation("monotonic", direction="up")
    down = Expectation("monotonic", direction="down")
    original, higher, slightly_lower, lower = (0.6, 0.4), (0.9, 0.1), (0.51, 0.49), (0.45, 0.55)
    rows = (original, higher, slightly_lower, lower)
    assert verdicts(up, *rows) == [None, True, True, False]
    assert verdicts(down, *rows) == [None, False, True, True]


def test_monotonic_does_not_apply_where_there_is_no_room() -> None:
    down = Expectation("monotonic", direction="down")
    assert verdicts(down, (0.95, 0.05), (0.99, 0.01)) == [None, None]
    up = Expectation("monotonic", direction="up", tolerance=0.6)
    assert verdicts(up, (0.6, 0.4), (0.1, 0.9)) == [None, None]


def test_goes_compares_positive_less_negative() -> None:
    up = Expectation("goes", (0, 2), direction="up")
    down = Expectation("goes", (0, 2), direction="down")
    original, better, worse = (0.4, 0.3, 0.3), (0.2, 0.4, 0.4), (0.5, 0.25, 0.25)
    assert verdicts(up, original, better, worse) == [None, True, False]
    assert verdicts(down, original, better, worse) == [None, False, True]


def test_conditions_are_asked_of_the_original() -> None:
    only = Expectation("label", (0,), only_if=(1,), first=False)
    assert verdicts(only, NEU, NEG, NEU) == [None, True, False]
    assert verdicts(only, POS, NEG, NEU) == [None, None, None]
    unless = Expectation("monotonic", direction="up", only_if_not=(1,))
    assert verdicts(unless, NEU, NEG) == [None, None]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((NEU, NEU, NEU), True),
        ((NEU, NEU, NEG), False),
        ((NEU, NEG, NEG), True),
        ((NEG, NEU, NEU), False),
        ((NEG, NEG, NEU), None),
        ((NEU, NEU), None),
    ],
)
def test_implication_follows_its_description(rows: Any, expected: bool | None) -> None:
    found = verdicts(Expectation("implication", (1,)), *rows)
    assert found == [*[None] * (len(rows) - 1), expected]


CLASSES = st.lists(st.integers(0, 2), max_size=2, unique=True).map(tuple)


@st.composite
def expectations(draw: Any) -> Expectation:
    expect = draw(st.sampled_from(get_args(Expect)))
    needed = {"goes": (2, 0), "not": (1,), "implication": (1,)}.get(expect)
    return Expectation(
        expect,
        needed or draw(CLASSES),
        draw(st.sampled_from([0.0, 0.1, 0.5])),
        draw(st.sampled_from(["up", "down"])),
        draw(CLASSES),
        draw(CLASSES),
        draw(st.sampled_from([None, True, False])),
    )


@given(
    expectation=expectations(),
    cases=st.lists(st.tuples(st.integers(0, 4), CLASSES), max_size=5),
    seed=st.integers(0, 999),
)
def test_cases_judged_together_are_judged_as_each_would_be_alone(
    expectation: Expectation, cases: list[tuple[int, Any]], seed: int
) -> None:
    sizes, right = [size for size, _ in cases], [wanted for _, wanted in cases]
    rng, n = np.random.default_rng(seed), sum(sizes)
    probabilities = rng.dirichlet([0.7] * 3, n)
    probabilities[rng.random(n) < 0.1] = np.nan  # these texts were not run
    classes = np.where(np.isnan(probabilities[:, 0]), -1, np.nan_to_num(probabilities).argmax(1))
    together = as_list(judge(expectation, Answers(classes, probabilities), Grouped(sizes), right))
    at, alone = 0, []
    for size, wanted in cases:
        rows = slice(at, at + size)
        mine = Answers(classes[rows], probabilities[rows])
        alone += as_list(judge(expectation, mine, Grouped([size]), [wanted]))
        at += size
    assert together == alone


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"expect": "works"}, "unknown expectation 'works'"),
        ({"expect": "works"}, "known are label, not, inv, .* and for answers equals, contains"),
        ({"expect": "inv", "tol": 1}, "no 'tol'; known are"),
        ({"expect": "inv", "tolerance": -1}, "`tolerance` must be"),
        ({"expect": "not"}, "needs 1 `labels`"),
        ({"expect": "goes", "labels": [0, 2]}, "needs a `direction`"),
        ({"expect": "label", "labels": 3}, "list of classes"),
        ({"expect": "inv", "direction": "left"}, "up or down"),
        ({"tolerance": 1}, "an object with 'expect'"),
        (7, "an object with 'expect'"),
    ],
)
def test_a_wrong_expectation_is_refused(value: Any, message: str) -> None:
    with pytest.raises(TextError, match=message):
        Expectation.from_json(value)


@pytest.mark.parametrize("expectation", [*RELEASED.values(), Expectation("inv", tolerance=0.2)])
def test_expectations_are_data_that_comes_back(expectation: Expectation) -> None:
    assert Expectation.from_json(json.loads(json.dumps(expectation.to_json()))) == expectation
    assert Expectation.from_json("label") == Expectation("label")
