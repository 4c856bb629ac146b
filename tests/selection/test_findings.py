"""What judging has found: estimates by hand, without bias, and intervals that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mncover.selection import batches
from mncover.selection.batches import Chooser
from mncover.selection.chance import random_interval
from mncover.selection.findings import (
    MIN_DRAWN,
    Estimate,
    combined,
    single_estimates,
    summarize_findings,
)
from mncover.selection.journal import Asked, Journal
from mncover.selection.pool import Pool
from mncover.selection.rehearsal import rehearse


def survey(case: int, batch: int, expected: float, left: int, rest: float) -> Asked:
    return Asked(case, batch, "survey", 0, expected, 1 / left, rest)


def small_journal() -> Journal:
    """Return five cases of a pool of ten: two that looked like failures, three of a survey."""
    journal = Journal("")
    journal.ask([Asked(0, 1, "likely", 1, 0.9), survey(1, 1, 0.5, 9, 3.0)])
    journal.ask([Asked(2, 2, "likely", 2, 0.75), survey(3, 2, 0.25, 7, 2.0)])
    journal.ask([survey(4, 3, 0.5, 6, 1.5)])
    journal.tell({0: "wrong", 1: "wrong", 2: "ok", 3: "ok", 4: "ok"})
    return journal


def test_single_estimates_by_hand() -> None:
    # Known before it + expected among the rest + the surprise times the number of cases left.
    wanted = [1 + 3.0 + 0.5 * 9, 2 + 2.0 - 0.25 * 7, 2 + 1.5 - 0.5 * 6]
    assert single_estimates(small_journal()) == pytest.approx(wanted)


def test_a_case_without_a_verdict_counts_as_expected_and_says_nothing() -> None:
    journal = small_journal()
    journal.forget(0)
    wanted = [0.9 + 3.0 + 0.5 * 9, 1.9 + 2.0 - 0.25 * 7, 1.9 + 1.5 - 0.5 * 6]
    assert single_estimates(journal) == pytest.approx(wanted)
    journal.forget(1)
    wanted = [1.4 + 2.0 - 0.25 * 7, 1.4 + 1.5 - 0.5 * 6]
    assert single_estimates(journal) == pytest.approx(wanted)


def test_later_estimates_weigh_more() -> None:
    assert combined([1.0, 4.0], 0, 10).value == pytest.approx(3)
    assert combined([1.0, 4.0, 7.0], 0, 10).value == pytest.approx(5)


def test_an_interval_by_hand() -> None:
    # Weights 1 to 4: the four draws say as much as (1 + 2 + 3 + 4)^2 / (1 + 4 + 9 + 16) = 10 / 3 of
    # equal weight. They agree on 5; half a draw each at 0 and 10 adds 0.5 * 25 twice.
    found = combined([5.0] * 4, 0, 10)
    draws = 10 / 3 + 1
    half = stats.t.ppf(0.975, draws - 1) * (25 / draws / draws) ** 0.5
    assert (found.value, found.low, found.high) == pytest.approx((5, 5 - half, 5 + half))
    assert found.low > 0
    assert found.high < 10


numbers = st.floats(-100, 200)


@given(st.lists(numbers, min_size=1, max_size=30), st.integers(0, 40), st.integers(0, 60))
def test_an_interval_contains_its_value_and_is_within_what_is_possible(
    each: list[float], least: int, more: int
) -> None:
    found = combined(each, least, least + more)
    assert least <= found.low <= found.value <= found.high <= least + more
    if all(least < one < least + more for one in each):
        weights = range(1, len(each) + 1)
        mean = sum(w * one for w, one in zip(weights, each, strict=True)) / sum(weights)
        assert found.value == pytest.approx(mean)


@given(st.integers(1, 200), st.integers(5, 60))
def test_draws_that_agree_still_leave_doubt_and_less_the_more_there_are(
    most: int, draws: int
) -> None:
    few, many = combined([0.0] * draws, 0, most), combined([0.0] * 2 * draws, 0, most)
    assert few.value == few.low == many.low == 0
    assert 0 < many.high < few.high <= most


@settings(deadline=None)
@given(st.data(), st.lists(st.booleans(), min_size=3, max_size=7), st.integers(0, 999))
def test_over_all_draws_an_estimate_is_the_true_number_of_failures(
    data: st.DataObject, fails: list[bool], seed: int
) -> None:
    """Two draws, the prediction after the first depending on it in any way: no bias at all."""
    before = data.draw(st.integers(0, len(fails) - 2))  # judged before, by any choice
    first = np.random.default_rng(seed).random(len(fails))
    singles, values = [], []
    left = range(before, len(fails))
    for one in left:
        others = [case for case in left if case != one]
        expected = np.random.default_rng([seed, one]).random(len(fails)) * 3 - 1
        for other in others:
            journal = Journal("")
            journal.ask([Asked(case, 1, "likely", 0, 0.7) for case in range(before)])
            journal.ask([survey(one, 1, first[one], len(left), sum(first[list(left)]))])
            journal.ask([survey(other, 2, expected[other], len(others), sum(expected[others]))])
            journal.tell({c: "wrong" if fails[c] else "ok" for c in [*range(before), one, other]})
            singles.append(single_estimates(journal))
            values.append(combined(singles[-1], -1e9, 1e9).value)
    assert np.mean(singles, axis=0) == pytest.approx([sum(fails)] * 2)
    assert np.mean(values) == pytest.approx(sum(fails))


def surveyed(n: int, verdicts: dict[int, Any]) -> Journal:
    journal = Journal("")
    journal.ask([survey(case, 1, 0.5, n - case, (n - case) / 2) for case in range(6)])
    journal.ask([Asked(6, 2, "likely", 3, 0.75), Asked(7, 2, "given", 3)])
    journal.tell(verdicts)
    return journal


def test_findings_count_what_the_journal_has() -> None:
    verdicts = {0: "wrong", 1: "ok", 2: "ok", 3: "ok", 4: "ok", 6: "wrong", 7: "wrong"}
    journal = surveyed(20, verdicts)
    found = summarize_findings(journal, 20)
    counts = (found.cases, found.asked, found.judged, found.failing, found.drawn)
    assert counts == (20, 8, 7, 3, 5)
    whole = combined(single_estimates(journal), 3, 16)
    assert found.left == Estimate(whole.value - 3, whole.low - 3, whole.high - 3)
    assert 0 <= found.left.low <= found.left.value <= found.left.high <= 13
    first, second = found.batches
    assert (first.number, first.cases, first.judged, first.failing) == (1, 6, 5, 1)
    assert first.expected == 3
    assert (second.cases, second.judged, second.failing) == (1, 1, 1)  # nobody asked for case 7


def test_what_chance_finds_is_that_share_of_all_failures() -> None:
    journal = surveyed(20, {case: "wrong" if case < 2 else "ok" for case in range(7)})
    found, whole = summarize_findings(journal, 20), combined(single_estimates(journal), 2, 15)
    assert found.chance is not None
    assert found.chance.value == pytest.approx(whole.value * 7 / 20)
    assert found.chance.low == random_interval(20, int(whole.low), 7)[0]
    assert found.chance.high == random_interval(20, int(np.ceil(whole.high)), 7)[1]


def test_below_five_draws_nothing_is_estimated() -> None:
    for judged in range(7):
        found = summarize_findings(surveyed(20, dict.fromkeys(range(judged), "ok")), 20)
        known = min(judged, 6) >= MIN_DRAWN
        assert (found.left is not None) == (found.chance is not None) == known
    empty = summarize_findings(Journal(""), 20)
    assert (empty.judged, empty.left, empty.batches) == (0, None, ())


def test_judged_to_the_end_nothing_is_left() -> None:
    journal = surveyed(8, {case: "wrong" if case % 2 else "ok" for case in range(8)})
    assert summarize_findings(journal, 8).left == Estimate(0, 0, 0)


def judged_round(seed: int, rate: float) -> tuple[Any, Journal]:
    """Return a pool's failures, which its features predict imperfectly, and a round of judging."""
    rng = np.random.default_rng([seed, int(100 * rate)])
    inside = rng.normal(size=(600, 4))
    score = 1.5 * (inside[:, 0] + 0.5 * inside[:, 1] * inside[:, 2]) + rng.logistic(size=600)
    fails = score > np.quantile(score, 1 - rate)
    pool = Pool(np.abs(inside[:, :1]), inside, np.abs(inside[:, 0]))
    clusters = (inside > 0) @ np.array([1, 2, 4, 8])
    return fails, rehearse(Chooser(pool, clusters, seed=seed), fails, 200)


# Where failures are rare, few draws hold any: then an interval can only be cautious.
@pytest.mark.parametrize(("rate", "most"), [(0.45, 98), (0.15, 100)])
def test_the_interval_of_what_is_left_covers_the_truth_in_at_least_90_of_100_rounds(
    rate: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "TREES", 5)
    covered, off = 0, []
    for seed in range(100):
        fails, journal = judged_round(seed, rate)
        found = summarize_findings(journal, len(fails))
        assert found.left is not None
        truth = int(fails.sum()) - found.failing
        covered += found.left.low <= truth <= found.left.high
        off.append(found.left.value - truth)
    assert 90 <= covered <= most
    assert abs(np.mean(off)) < 4 * np.std(off) / 10  # no bias that a hundred rounds would show
