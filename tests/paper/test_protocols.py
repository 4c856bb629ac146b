"""The paper's protocol: by hand, and against chance where the answer is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from mncover.paper.filtering import paper_protocol

P, F, N = 1, 0, -1


def of(*values: int) -> NDArray[np.int8]:
    return np.array(values, dtype=np.int8)


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
