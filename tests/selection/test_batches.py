"""Batches: what they are made of, against slow choices, and what they may not depend on."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.selection import batches
from mncover.selection.batches import Chooser, Seen, _Choice
from mncover.selection.diverse import Cells
from mncover.selection.journal import Asked
from mncover.selection.pool import Pool
from mncover.selection.rehearsal import rehearse
from tests.selection.test_diverse import slow_order

N, CLUSTERS = 300, 12


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "TREES", 10)


def pool_like(n: int = N, seed: int = 0) -> tuple[Pool, Any, Any]:
    """Return a pool, its clusters, and which cases fail: those with a large first number."""
    rng = np.random.default_rng(seed)
    inside = rng.normal(size=(n, 3))
    outputs = rng.normal(size=(n, 2))
    fails = inside[:, 0] + 0.5 * rng.normal(size=n) > 0.8
    return Pool(outputs, inside, rng.random(n).round(2)), rng.integers(0, CLUSTERS, n), fails


def cells_like(n: int, width: int = 6, seed: int = 0) -> Cells:
    """Return cells of some dimensions, most of them rare; some values hit nothing."""
    values = np.abs(np.random.default_rng(seed).normal(0, 40, (n, width))).astype(int)
    hits = np.where(values > 99, 100 * width, 100 * np.arange(width) + values)
    return Cells(hits.astype(np.int32), 100 * width)


def chooser_like(n: int = N, inside: bool = True, **how: Any) -> tuple[Chooser, Any]:
    pool, clusters, fails = pool_like(n)
    return Chooser(pool, clusters, cells_like(n) if inside else None, **how), fails


def seen_of(asked: Any, fails: Any) -> Seen:
    asked = np.array(asked, dtype=np.int64)
    return Seen(asked, asked, fails[asked])


def kinds(batch: list[Asked]) -> Counter[str]:
    return Counter(one.why for one in batch)


def test_a_batch_of_50_has_40_likely_7_to_explore_and_3_of_a_survey() -> None:
    chooser, fails = chooser_like()
    seen = seen_of(range(60), fails)
    assert kinds(chooser.choose(50, seen, 2)) == {"likely": 40, "explore": 7, "survey": 3}
    first = chooser.choose(50, seen_of([], fails), 1)
    assert kinds(first) == {"start": 40, "explore": 7, "survey": 3}
    assert {one.batch for one in first} == {1}


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 80), st.integers(0, 90), st.floats(0, 1), st.integers(0, 99), st.booleans())
def test_a_batch_has_the_asked_size_and_no_case_twice_nor_one_asked_before(
    n: int, before: int, explore: float, seed: int, inside: bool
) -> None:
    chooser, fails = chooser_like(90, inside, explore=explore, seed=seed)
    asked = np.random.default_rng(seed).permutation(90)[:before]
    batch = chooser.choose(n, seen_of(asked, fails), 3)
    found = [one.case for one in batch]
    assert len(found) == min(n, 90 - before)
    assert len({*found, *asked.tolist()}) == len(found) + before
    shares = kinds(batch)
    exploring = round(explore * len(found))
    assert shares["explore"] + shares["survey"] == exploring
    assert shares["survey"] == round(0.3 * exploring)
    assert all(one.cluster == chooser.clusters[one.case] for one in batch)


def test_a_survey_keeps_chance_and_rest_and_others_keep_none() -> None:
    chooser, fails = chooser_like()
    seen = seen_of(range(0, 60), fails)
    predicted = chooser.predict(seen)
    assert predicted is not None
    batch = chooser.choose(50, seen, 2)
    left = set(range(60, N))
    for one in batch:
        assert one.expected == predicted[one.case]
        if one.why == "survey":
            assert one.chance == 1 / len(left)
            assert one.rest == pytest.approx(math.fsum(predicted[case] for case in left))
        else:
            assert (one.chance, one.rest) == (0, 0)
        left.remove(one.case)


def test_a_survey_draws_every_free_case_equally_often() -> None:
    pool, clusters, _ = pool_like(5)
    counts: Counter[int] = Counter()
    for seed in range(2000):
        free = np.array([True, True, False, True, True])
        choice = _Choice(Chooser(pool, clusters), free, np.zeros(CLUSTERS, int), np.ones(5), 1)
        choice.survey(1, np.random.default_rng(seed))
        counts[choice.asked[0].case] += 1
    assert counts.keys() == {0, 1, 3, 4}
    # Five standard deviations of a binomial number: 5 * sqrt(2000 * 1/4 * 3/4) = 97.
    assert all(abs(found - 500) < 97 for found in counts.values())


def test_without_exploring_everything_is_by_prediction() -> None:
    chooser, fails = chooser_like(explore=0)
    assert kinds(chooser.choose(50, seen_of(range(60), fails), 2)) == {"likely": 50}
    assert kinds(chooser.choose(50, seen_of([], fails), 1)) == {"start": 50}


def test_exploring_alone_takes_no_likely_case() -> None:
    chooser, fails = chooser_like(explore=1)
    batch = chooser.choose(50, seen_of(range(60), fails), 2)
    assert kinds(batch) == {"explore": 35, "survey": 15}


def test_a_pool_that_runs_out_gives_what_is_left_and_then_nothing() -> None:
    chooser, fails = chooser_like(70)
    journal = rehearse(chooser, fails, 1000)
    assert [len([a for a in journal.asked if a.batch == b]) for b in (1, 2)] == [50, 20]
    assert sorted(one.case for one in journal.asked) == list(range(70))
    assert chooser.choose(50, seen_of(range(70), fails), 3) == []


@pytest.mark.parametrize("verdict", [False, True])
def test_verdicts_of_one_kind_give_no_prediction_but_a_batch(verdict: bool) -> None:
    chooser, _ = chooser_like()
    seen = seen_of(range(60), np.full(N, verdict))
    assert chooser.predict(seen) is None
    batch = chooser.choose(50, seen, 2)
    assert kinds(batch) == {"start": 40, "explore": 7, "survey": 3}
    assert {one.expected for one in batch} == {float(verdict)}
    assert {one.expected for one in chooser.choose(50, seen_of([], seen.fails), 1)} == {0.5}


def test_a_prediction_knows_cases_that_fail_from_those_that_do_not() -> None:
    chooser, fails = chooser_like()
    predicted = chooser.predict(seen_of(range(200), fails))
    assert predicted is not None
    assert predicted[200:][fails[200:]].mean() > predicted[200:][~fails[200:]].mean() + 0.2
    # The likeliest of a batch fail more often than the pool does.
    batch = chooser.choose(25, seen_of(range(200), fails), 2)
    likely = [fails[one.case] for one in batch if one.why == "likely"]
    assert np.mean(likely) > 1.5 * fails[200:].mean()


def choice_of(n: int, seed: int, groups: int) -> _Choice:
    """Return an empty batch over a pool in which some cases were asked about before."""
    rng = np.random.default_rng(seed)
    clusters = rng.integers(0, groups, n)
    clusters[0] = groups - 1
    free = rng.random(n) < 0.8
    free[:4] = True
    nothing = np.zeros((n, 0))
    chooser = Chooser(Pool(nothing, nothing, rng.random(n).round(1)), clusters)
    counts = np.bincount(clusters[~free], minlength=groups)
    return _Choice(chooser, free, counts, rng.random(n).round(1), 1)


@given(st.integers(4, 30), st.integers(0, 999), st.integers(1, 30))
def test_the_likely_are_the_highest_predicted_and_of_equal_ones_the_most_uncertain(
    n: int, seed: int, size: int
) -> None:
    choice = choice_of(n, seed, 3)
    free, counts = np.flatnonzero(choice.free).tolist(), choice.counts.copy()
    choice.take_likely(size)
    wanted = sorted(free, key=lambda i: (-choice.expected[i], -choice.pool.uncertainty[i], i))
    taken = [one.case for one in choice.asked]
    assert taken == wanted[:size]
    assert np.flatnonzero(choice.free).tolist() == sorted(wanted[size:])
    added = np.bincount(choice.clusters[np.array(taken)], minlength=len(counts))
    assert (choice.counts == counts + added).all()


@given(st.integers(4, 30), st.integers(0, 999), st.integers(1, 5), st.booleans())
def test_starting_and_exploring_without_cells_are_a_slow_choice_of_clusters(
    n: int, seed: int, groups: int, exploring: bool
) -> None:
    choice = choice_of(n, seed, groups)
    free, counts = choice.free.copy(), choice.counts.tolist()
    size = int(free.sum())
    choice.explore(size) if exploring else choice.spread(size, "start")
    assert kinds(choice.asked) == {"explore" if exploring else "start": size}
    for one in choice.asked:
        members = {
            g: [i for i in range(n) if free[i] and choice.clusters[i] == g] for g in range(groups)
        }
        alive = [g for g in range(groups) if members[g]]
        wanted = min(alive, key=lambda g: (counts[g], -len(members[g]), g))
        assert one.cluster == wanted
        assert one.case == max(members[wanted], key=lambda i: (choice.pool.uncertainty[i], -i))
        free[one.case] = False
        counts[one.cluster] += 1


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 60), st.integers(0, 60), st.floats(0, 1), st.integers(0, 99))
def test_exploring_is_a_slow_greedy_over_cells_given_everything_asked(
    n: int, before: int, explore: float, seed: int
) -> None:
    chooser, fails = chooser_like(90, explore=explore)
    chooser.cells = cells = cells_like(90, 4, seed)
    asked = np.random.default_rng(seed).permutation(90)[:before].tolist()
    batch = chooser.choose(n, seen_of(asked, fails), 2)
    # What is asked before in the same batch counts, too.
    ahead = [one.case for one in batch if one.why in ("start", "likely")]
    found = [one.case for one in batch if one.why == "explore"]
    assert found == slow_order(cells, chooser.pool.uncertainty, len(found), [*asked, *ahead])
    assert [one.case for one in batch][: len(ahead) + len(found)] == ahead + found


def test_exploring_takes_new_cells_first_and_nothing_that_was_asked() -> None:
    nothing = np.zeros((6, 0))
    hits = np.array([[0, 4], [0, 4], [1, 5], [2, 4], [3, 6], [3, 6]], dtype=np.int32)
    uncertainty = np.array([0.9, 0.9, 0.5, 0.9, 0.3, 0.2])
    pool, clusters = Pool(nothing, nothing, uncertainty), np.zeros(6, dtype=np.int64)
    choice = _Choice(
        Chooser(pool, clusters, Cells(hits, 7)), np.arange(6) > 0, np.array([1]), np.ones(6), 1
    )
    choice.explore(4)
    # By hand: 2 * 0.5, then 1 * 0.9, then 2 * 0.3; then nothing is new, and 0.9 is above 0.2.
    assert [one.case for one in choice.asked] == [2, 3, 4, 1]


@pytest.mark.parametrize("explore", [0.2, 1.0])
def test_where_nothing_is_uncertain_exploring_goes_by_new_cells_alone(explore: float) -> None:
    pool, clusters, fails = pool_like()
    certain = Pool(pool.outputs, pool.inside, np.zeros(N))
    cells = cells_like(N)
    batch = Chooser(certain, clusters, cells, explore).choose(50, seen_of(range(60), fails), 2)
    ahead = [one.case for one in batch if one.why == "likely"]
    found = [one.case for one in batch if one.why == "explore"]
    assert found == slow_order(cells, np.ones(N), len(found), [*range(60), *ahead])


def test_batches_of_a_rehearsal_end_at_each_stop() -> None:
    chooser, fails = chooser_like()
    journal = rehearse(chooser, fails, 70, 3, 120, 30, batch=40)
    sizes = Counter(one.batch for one in journal.asked)
    assert [sizes[batch] for batch in sorted(sizes)] == [3, 27, 40, 40, 10]
    assert len(journal.verdicts) == 120
    # A later stop does not change what was asked up to an earlier one.
    assert rehearse(chooser, fails, 3, 30, batch=40).asked == journal.asked[:30]
    assert rehearse(chooser, fails, 3, 3, 30, 70, batch=40).asked == journal.asked[:70]
    assert rehearse(chooser, fails).asked == []


def test_the_same_call_gives_the_same_batch_and_another_seed_or_batch_another_survey() -> None:
    chooser, fails = chooser_like()
    seen = seen_of(range(60), fails)
    again, _ = chooser_like()
    assert chooser.choose(50, seen, 2) == again.choose(50, seen, 2) == chooser.choose(50, seen, 2)
    first = chooser.choose(50, seen_of([], fails), 1)

    def survey(batch: list[Asked]) -> list[int]:
        return [one.case for one in batch if one.why == "survey"]

    assert survey(first) != survey(chooser.choose(50, seen_of([], fails), 2))
    assert survey(first) != survey(chooser_like(seed=1)[0].choose(50, seen_of([], fails), 1))


def test_verdicts_of_cases_that_were_not_asked_do_not_matter() -> None:
    chooser, fails = chooser_like()
    journal = rehearse(chooser, fails, 120, batch=40)
    asked = np.array([one.case for one in journal.asked])
    assert len(asked) == 120
    others = np.setdiff1d(np.arange(N), asked)
    rng = np.random.default_rng(1)
    for hidden in (rng.permutation(fails[others]), ~fails[others]):
        other = fails.copy()
        other[others] = hidden
        assert (other != fails).any()
        assert rehearse(chooser, other, 120, batch=40).asked == journal.asked
    # A verdict of a case of the first batch does matter for the second one.
    other = fails.copy()
    other[asked[:40]] = ~other[asked[:40]]
    changed = rehearse(chooser, other, 120, batch=40).asked
    assert changed[:40] == journal.asked[:40]
    assert changed[40:80] != journal.asked[40:80]
