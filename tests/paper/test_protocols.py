"""Selections against chance: by hand, by brute force, and where the answer is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mncover.paper.protocols import (
    apfd,
    at_budget,
    failure_rate,
    paper_protocol,
    random_interval,
)
from mncover.selection.scores import deep_gini, entropy, margin

P, F, N = 1, 0, -1


def of(*values: int) -> NDArray[np.int8]:
    return np.array(values, dtype=np.int8)


def test_failure_rate_leaves_out_what_is_not_judged() -> None:
    assert failure_rate(of(F, P, N, F)) == 2 / 3
    assert math.isnan(failure_rate(of(N, N)))


def test_the_papers_protocol_by_hand() -> None:
    # Twelve cases, eight visited, five kept with gains 5 > 4 > 3 > 2 > 1; the two largest fail.
    verdicts = of(F, F, P, P, P, P, P, P, F, F, F, F)
    kept, gains = np.array([0, 1, 2, 4, 6]), np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    found = paper_protocol(verdicts, 8, kept, gains, shuffles=300)
    assert found.failure_rate == 0.5
    # The first quantiles keep four cases, of which two fail; the last ones the best alone.
    edges = [np.quantile(gains, q / 10) for q in range(1, 11)]
    rates = [(gains[:2] >= e).sum() / (gains >= e).sum() for e in edges]
    assert found.maximum == 1.0
    assert found.mean == pytest.approx(np.mean(rates))
    assert found.reduction == pytest.approx(1 - 4 / 12)
    assert found.truncation == pytest.approx(4 / 12)
    assert found.redundancy == pytest.approx(3 / 12)
    assert found.cut == pytest.approx(1 / 12)
    assert found.truncation + found.redundancy + found.cut == pytest.approx(found.reduction)


def test_the_papers_example_of_where_its_reduction_comes_from() -> None:
    """Change names: 331 cases, 137 visited, every one adds something, 123 at the first quantile."""
    gains = np.random.default_rng(0).permutation(137).astype(np.float64)
    found = paper_protocol(np.ones(331, np.int8), 137, np.arange(137), gains, shuffles=1)
    assert round(100 * found.reduction, 2) == 62.84
    assert found.redundancy == 0


def test_chance_finds_the_same_maximum_for_scores_that_say_nothing() -> None:
    rng = np.random.default_rng(1)
    values = []
    for _ in range(200):
        verdicts = of(*rng.integers(0, 2, 40))
        gains = rng.random(40)
        values.append(paper_protocol(verdicts, 40, np.arange(40), gains, 60, seed=7).p_value)
    # Under chance p-values are uniform or larger (maxima are tied), never smaller.
    assert np.mean(np.array(values) <= 0.1) < 0.17
    assert np.mean(values) > 0.4


def test_chance_does_not_reach_scores_that_know_the_failures() -> None:
    verdicts = of(*[F] * 10, *[P] * 90)
    gains = np.arange(100.0)[::-1]
    found = paper_protocol(verdicts, 100, np.arange(100), gains, 200)
    assert found.maximum == 1.0
    assert found.mean > 0.25
    assert found.null_mean < 1.0
    assert found.null_mean <= found.null_high
    assert found.mean_p_value == pytest.approx(1 / 201)
    worst = paper_protocol(verdicts[::-1], 100, np.arange(100), gains, 200)
    assert worst.mean_p_value == 1.0


def test_nothing_kept_or_judged_gives_no_numbers_and_no_error() -> None:
    found = paper_protocol(of(N, N), 2, np.array([0, 1]), np.array([1.0, 2.0]), 5)
    assert math.isnan(found.maximum)
    assert math.isnan(found.p_value)
    found = paper_protocol(of(P, F), 2, np.array([], dtype=np.int64), np.array([]), 5)
    assert found.reduction == 1.0
    assert math.isnan(found.mean)


@given(n=st.integers(1, 9), data=st.data())
def test_the_random_interval_is_that_of_all_draws(n: int, data: st.DataObject) -> None:
    failing, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = [sum(i < failing for i in taken) for taken in itertools.combinations(range(n), k)]
    low, high = random_interval(n, failing, k)
    assert np.mean([x < low for x in draws]) <= 0.025
    assert np.mean([x > high for x in draws]) <= 0.025
    assert np.mean([x <= low for x in draws]) > 0.025 or low == high
    assert np.mean([x >= high for x in draws]) > 0.025 or low == high


def test_a_budget_by_hand() -> None:
    verdicts, scores = of(F, P, N, P, F), np.array([0.9, 0.8, 1.0, 0.1, 0.2])
    found = at_budget(verdicts, scores, 0.5)
    assert (found.budget, found.failure_rate, found.found) == (2, 0.5, 0.5)
    assert (found.lift, found.error) == (1.0, 0.0)
    best = at_budget(verdicts, -np.abs(verdicts - F).astype(float), 0.5)
    assert (best.failure_rate, best.lift, best.found) == (1.0, 2.0, 1.0)
    assert math.isnan(at_budget(of(P, P), scores[:2], 0.5).lift)


def test_apfd_by_hand() -> None:
    scores = np.array([4.0, 3.0, 2.0, 1.0])
    assert apfd(of(F, P, P, P), scores) == 1 - 1 / 8
    assert apfd(of(P, P, P, F), scores) == 1 / 8
    assert apfd(of(F, P, P, F), scores) == 0.5
    assert math.isnan(apfd(of(P, P, P, P), scores))


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
def test_uncertainty_is_least_when_sure_and_most_when_even(weights: list[float]) -> None:
    p = np.array([weights]) / sum(weights)
    n = len(weights)
    sure, even = np.eye(n)[:1], np.full((1, n), 1 / n)
    for score in (entropy, deep_gini, margin):
        assert score(sure)[0] == pytest.approx(0)
        assert score(sure)[0] - 1e-12 <= score(p)[0] <= score(even)[0] + 1e-12
