"""AUROC and its intervals, against counting pairs, a hand-computed case and the bootstrap."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.selection.auroc import auroc, auroc_difference


def won(a: float, b: float) -> float:
    return 1.0 if a > b else 0.5 if a == b else 0.0


def slow_parts(scores: list[float], fails: list[bool]) -> tuple[list[float], list[float]]:
    """Return what each failing and each other case contributes, pair by pair."""
    up = [s for s, f in zip(scores, fails, strict=True) if f]
    down = [s for s, f in zip(scores, fails, strict=True) if not f]
    beats = [sum(won(a, b) for b in down) / len(down) for a in up]
    return beats, [sum(won(a, b) for a in up) / len(up) for b in down]


def slow_variance(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


CASES = st.lists(
    st.tuples(st.integers(0, 6), st.integers(0, 6), st.booleans()), min_size=4, max_size=40
).filter(lambda rows: 2 <= sum(row[2] for row in rows) <= len(rows) - 2)


@given(CASES)
def test_areas_and_intervals_are_those_of_counting_pairs(
    rows: list[tuple[int, int, bool]],
) -> None:
    one, two, fails = (list(column) for column in zip(*rows, strict=True))
    a, b = slow_parts(one, fails), slow_parts(two, fails)
    area = [sum(part[0]) / len(part[0]) for part in (a, b)]
    found = auroc(np.array(one, dtype=float), np.array(fails))
    half = 1.959964 * math.sqrt(slow_variance(a[0]) + slow_variance(a[1]))
    assert found.value == pytest.approx(area[0])
    assert found.low == pytest.approx(max(0, area[0] - half))
    assert found.high == pytest.approx(min(1, area[0] + half))
    apart = [[x - y for x, y in zip(*parts, strict=True)] for parts in zip(a, b, strict=True)]
    by = auroc_difference(np.array(one, dtype=float), np.array(two, dtype=float), np.array(fails))
    half = 1.959964 * math.sqrt(slow_variance(apart[0]) + slow_variance(apart[1]))
    assert by.value == pytest.approx(area[0] - area[1])
    assert by.low == pytest.approx(area[0] - area[1] - half)
    assert by.high == pytest.approx(area[0] - area[1] + half)


def test_a_case_by_hand() -> None:
    fails = np.array([True, True, False, False])
    # The failing case of 3 beats both others, that of 1 beats one of them and ties with none.
    found = auroc(np.array([3.0, 1.0, 2.0, 0.0]), fails)
    assert found.value == 0.75
    # Contributions 1, 0.5 and 0.5, 1: each has a variance of 1/8, and their means of 1/16.
    assert found.low == pytest.approx(0.75 - 1.959964 * math.sqrt(1 / 8))
    assert found.high == 1.0
    assert auroc(np.zeros(4), fails).value == 0.5
    # Against a perfect score: contributions differ by 0, 0.5 and 0.5, 0.
    by = auroc_difference(np.array([3.0, 2.0, 1.0, 0.0]), np.array([3.0, 1.0, 2.0, 0.0]), fails)
    assert by.value == 0.25
    assert by.low == pytest.approx(0.25 - 1.959964 * math.sqrt(1 / 8))


def test_too_few_cases_give_no_number() -> None:
    assert math.isnan(auroc(np.array([1.0, 2.0]), np.array([True, True])).value)
    alone = auroc(np.array([1.0, 2.0, 3.0]), np.array([True, False, False]))
    assert alone.value == 0.0
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert math.isnan(auroc(np.zeros(0), np.zeros(0, dtype=bool)).value)


def test_the_interval_of_a_difference_is_that_of_a_bootstrap() -> None:
    rng = np.random.default_rng(0)
    fails = rng.random(600) < 0.3
    shared = fails + rng.normal(size=600)
    one, two = shared + 0.5 * rng.normal(size=600), shared + rng.normal(size=600)
    drawn = []
    for _ in range(600):
        mine = rng.integers(0, 600, 600)
        drawn.append(auroc_difference(one[mine], two[mine], fails[mine]).value)
    found = auroc_difference(one, two, fails)
    low, high = np.quantile(drawn, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.006)
    assert found.high == pytest.approx(high, abs=0.006)
