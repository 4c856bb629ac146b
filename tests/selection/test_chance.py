"""Choices against chance: by hand, by brute force, and where the answer is known."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mncover.report.sets import comparison_table, conclusions
from mncover.selection.budgets import Limit, choose, groups_of
from mncover.selection.cases import Cases
from mncover.selection.chance import (
    Found,
    apfd,
    at_budget,
    compare_methods,
    count_failures,
    failure_rate,
    p_value,
    random_at_budget,
    random_interval,
    wilson,
)
from mncover.selection.scores import score_cases

P, F, N = 1, 0, -1


def of(*values: int) -> NDArray[np.int8]:
    return np.array(values, dtype=np.int8)


def test_failure_rate_leaves_out_what_is_not_judged() -> None:
    assert failure_rate(of(F, P, N, F)) == 2 / 3
    assert math.isnan(failure_rate(of(N, N)))


def test_a_p_value_counts_the_number_itself() -> None:
    nulls = np.array([0.1, 0.5, 0.5, 0.9])
    assert p_value(0.5, nulls) == 4 / 5
    assert p_value(1.0, nulls) == 1 / 5
    assert p_value(0.0, nulls) == 1
    assert math.isnan(p_value(math.nan, nulls))


@given(n=st.integers(1, 9), data=st.data())
def test_the_random_interval_is_that_of_all_draws(n: int, data: st.DataObject) -> None:
    failing, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = [sum(i < failing for i in taken) for taken in itertools.combinations(range(n), k)]
    low, high = random_interval(n, failing, k)
    assert np.mean([x < low for x in draws]) <= 0.025
    assert np.mean([x > high for x in draws]) <= 0.025
    assert np.mean([x <= low for x in draws]) > 0.025 or low == high
    assert np.mean([x >= high for x in draws]) > 0.025 or low == high


@given(n=st.integers(1, 3000), data=st.data())
def test_wilsons_interval_is_where_a_score_test_does_not_refuse_the_share(
    n: int, data: st.DataObject
) -> None:
    hits = data.draw(st.one_of(st.just(0), st.just(n), st.integers(0, n)))
    low, high = wilson(hits, n)
    assert (low == 0) == (hits == 0)  # exactly, so that a report says 100 and not 99.99
    assert (high == 1) == (hits == n)
    assert low <= hits / n <= high
    for end in (low, high):
        if 0 < end < 1:
            score = (hits / n - end) / math.sqrt(end * (1 - end) / n)
            assert abs(score) == pytest.approx(1.959964, abs=1e-5)


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


def test_a_corrected_estimate_by_hand() -> None:
    # The earlier model failed cases 0 and 1, of which both are taken; now only case 0 fails.
    now, then = of(F, P, P, P), of(F, F, P, P)
    found = at_budget(now, np.array([4.0, 3.0, 2.0, 1.0]), 0.5, then)
    assert found.failure_rate == 0.5
    assert found.error == 0.25
    # 0.5 earlier on all; the cases taken fail half as often as before: 0.5 + (0.5 - 1) = 0.
    assert found.adjusted_error == pytest.approx(0 - 0.25)
    same = at_budget(then, np.array([4.0, 3.0, 2.0, 1.0]), 0.5, then)
    assert same.adjusted_error == 0
    assert math.isnan(at_budget(now, np.zeros(4), 0.5).adjusted_error)


def test_chance_at_a_budget_is_the_mean_over_all_draws() -> None:
    verdicts = of(F, P, P, F, P, N)
    found = random_at_budget(verdicts, 0.4)
    rates = [np.mean(verdicts[list(taken)] == F) for taken in itertools.combinations(range(5), 2)]
    assert found.budget == 2
    assert found.failure_rate == pytest.approx(np.mean(rates))
    assert found.error == pytest.approx(np.sqrt(np.mean((np.array(rates) - 0.4) ** 2)))
    assert found.found == pytest.approx(np.mean(rates) * 2 / 2)


def test_chance_is_the_mean_over_all_draws(cases: Cases) -> None:
    groups = [np.arange(0, 6), np.arange(12, 17)]
    chosen = np.array([0, 1, 12])
    found = compare_methods(cases, chosen, groups)[-1]
    fails = cases.verdicts == 0
    draws = [
        fails[[*a, *b]].sum()
        for a in itertools.combinations(range(6), 2)
        for b in itertools.combinations(range(12, 17), 1)
    ]
    assert found.failing == pytest.approx(np.mean(draws))
    assert np.mean(np.array(draws) < found.low) <= 0.025
    assert np.mean(np.array(draws) > found.high) <= 0.025
    reached = [
        any(fails[list(a)]) + any(fails[list(b)])
        for a in itertools.combinations(range(6), 2)
        for b in itertools.combinations(range(12, 17), 1)
    ]
    assert found.tests == pytest.approx(np.mean(reached))


def test_every_method_takes_as_many_cases_of_each_test_as_were_chosen(cases: Cases) -> None:
    groups = groups_of(cases.test, overall=False)
    chosen = choose(score_cases(cases, "gain"), groups, Limit(number=4))
    rows = {row.method: row for row in compare_methods(cases, chosen, groups)}
    assert rows["gain"].failing == count_failures(cases, chosen).failing
    assert {row.cases for row in rows.values()} == {12}
    assert list(rows)[-1] == "random"
    assert "mngain" not in rows  # there are no masks


def test_the_best_method_is_one_of_those_in_the_table(cases: Cases) -> None:
    mine = Found("gain", 3, 1, 1, 1, 1)  # by another criterion than the usual one
    usual, margin = replace(mine, failing=3), Found("margin", 3, 2, 2, 2, 2)
    chance = Found("random", 3, 1.2, 0, 2, 1)
    said = " ".join(conclusions(cases, mine, [usual, margin, chance]))
    assert "'margin' finds the most: 2." in said
    names = [*comparison_table(cases, mine, [usual, margin, chance]).columns[0].cells]
    assert names[:3] == ["gain", "margin", "random"]
