"""The statistics of gaps, each against a slow and obvious computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mncover.errors import SettingsError
from mncover.selection.gap_groups import Flagged, Plane, group_texts, groups_of, typical
from mncover.selection.gaps import (
    NEIGHBOURS,
    REACH,
    SOFTEN,
    Reference,
    Visits,
    benjamini_hochberg,
    share_within_reach,
    spread_over,
    unit_length,
)
from mncover.selection.nearest import nearest


def points(n: int, seed: int = 0, width: int = 8) -> np.ndarray:
    """Return points of two kinds: a dense clump and a thin cloud."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n // 2, width)) * 0.05 + 1
    return np.concatenate([dense, rng.normal(size=(n - n // 2, width))])


def distance(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    return float(np.linalg.norm(a - b))


def own_slowly(states: np.ndarray, cases: list[int]) -> tuple[list[float], list[list[int]]]:
    """Return the mean distance of each text to the nearest ones of other cases, and these."""
    means, nearest_of = [], []
    for i, one in enumerate(states):
        others = [j for j in range(len(states)) if cases[j] != cases[i]]
        far = sorted((distance(one, states[j]), j) for j in others)[:NEIGHBOURS]
        means.append(sum(d for d, _ in far) / len(far))
        nearest_of.append([j for _, j in far])
    return means, nearest_of


def test_ratios_are_distances_divided_by_how_close_the_nearest_tests_lie() -> None:
    states, cases = points(60), [i // 2 for i in range(60)]
    reference = Reference.of(states, np.array(cases))
    means, nearest_of = own_slowly(states, cases)
    closeness = [m + SOFTEN * np.median(means) for m in means]
    assert reference.closeness == pytest.approx(closeness, rel=1e-5)
    own = [m / np.mean([closeness[j] for j in js]) for m, js in zip(means, nearest_of, strict=True)]
    assert reference.ratios == pytest.approx(sorted(own), rel=1e-5)
    traffic = points(20, seed=1)
    placed = reference.place(traffic)
    for one, ratio, near in zip(traffic, placed.ratios, placed.nearest, strict=True):
        far = sorted((distance(one, states[j]), j) for j in range(60))[:NEIGHBOURS]
        beside = np.mean([closeness[j] for _, j in far])
        assert ratio == pytest.approx(np.mean([d for d, _ in far]) / beside, rel=1e-5)
        assert near.tolist() == [j for _, j in far]


def test_p_values_count_the_tests_that_lie_as_far() -> None:
    reference = Reference.of(points(40), np.arange(40))
    asked = np.array([0.0, *reference.ratios[[3, 20, 39]], 1e9, np.nan])
    expected = [(1 + sum(own >= r for own in reference.ratios)) / 41 for r in asked[:-1]]
    assert reference.p_values(asked).tolist() == pytest.approx([*expected, 1.0])
    assert reference.p_values(asked)[[0, 4]].tolist() == [1.0, pytest.approx(1 / 41)]


@pytest.mark.parametrize("seed", range(5))
def test_without_a_gap_small_p_values_are_no_more_frequent_than_they_say(seed: int) -> None:
    every = points(4000, seed)
    mixed = np.random.default_rng(seed).permutation(len(every))
    reference = Reference.of(every[mixed[:2000]], np.arange(2000))
    p_values = reference.p_values(reference.place(every[mixed[2000:]]).ratios)
    for level in (0.01, 0.05, 0.1, 0.3):
        noise = 4 * np.sqrt(2 * level * (1 - level) / 2000)  # tests and traffic both vary
        assert (p_values <= level).mean() <= level + noise
    assert benjamini_hochberg(p_values, 0.1).mean() <= 0.01


def test_a_gap_is_found_between_dense_and_thin_tests() -> None:
    rng = np.random.default_rng(3)
    every, mixed = points(4000, 3), rng.permutation(4000)
    reference = Reference.of(every[mixed[:2000]], np.arange(2000))
    # Nearer to the dense tests than the thin ones are to each other: the distance alone says no.
    gap = rng.normal(size=(300, 8)) * 0.05 + np.array([1, 1, 1, 1, 1, 1, 1.6, 0.4])
    p_values = reference.p_values(
        reference.place(np.concatenate([every[mixed[2000:]], gap])).ratios
    )
    flagged = benjamini_hochberg(p_values, 0.1)
    assert flagged[2000:].mean() > 0.9
    assert flagged[:2000].sum() <= 0.13 * flagged.sum()


@given(st.lists(st.floats(0, 1), max_size=30), st.floats(0.01, 0.5))
@settings(deadline=None)
def test_benjamini_hochberg_is_the_largest_set_that_the_rule_allows(
    given_values: list[float], rate: float
) -> None:
    p_values, n = np.array(given_values), len(given_values)
    limit = -1.0
    for rank, p in enumerate(sorted(given_values), start=1):
        if p <= rate * rank / n:
            limit = p
    assert benjamini_hochberg(p_values, rate).tolist() == [p <= limit for p in given_values]


def test_the_share_within_reach_counts_lines_and_its_interval_holds_the_truth() -> None:
    held, rounds = 0, 60
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        own = np.sort(rng.exponential(size=400))
        reference = Reference(np.zeros((1, 1), dtype=np.float32), np.ones(1), own, 400)
        ratios = rng.exponential(size=500) * np.where(rng.random(500) < 0.3, 4, 1)
        found = share_within_reach(reference, ratios, np.ones(500, dtype=np.int64), seed)
        assert found.value == pytest.approx((ratios <= reference.reach).mean())
        limit = -np.log(1 - REACH)  # of all tests there could be
        truth = 0.7 * REACH + 0.3 * (1 - np.exp(-limit / 4))
        held += found.low <= truth <= found.high
    assert held >= 0.88 * rounds
    counts = np.array([3, 1, 7])
    share = share_within_reach(reference, np.array([0.1, 1e9, np.nan]), counts)
    assert share.value == 0.75  # a text that was not run is in neither
    with pytest.raises(SettingsError, match="nothing to compare"):
        share_within_reach(reference, np.array([np.nan]), np.array([1]))


def test_traffic_within_reach_comes_near_its_nearest_tests() -> None:
    states, traffic = points(120)[:60], points(20, seed=5)[:10]  # dense ones only
    reference = Reference.of(states, np.arange(60))
    visits = Visits(reference)
    placed = reference.place(np.concatenate([traffic, -100 * np.ones((1, 8))]))
    assert placed.ratios[-1] > reference.reach
    counts = np.arange(1, 12)
    visits.add(placed, counts)
    near, lines = set(), [0] * 60
    for ratio, places, count in zip(placed.ratios, placed.nearest, counts, strict=True):
        if ratio <= reference.reach:
            near |= set(places.tolist())
            lines[places[0]] += count
    assert np.flatnonzero(visits.near).tolist() == sorted(near)
    assert visits.lines.tolist() == lines


def test_equal_texts_and_one_case_are_no_trouble() -> None:
    same = Reference.of(np.ones((30, 4)), np.arange(30))
    assert same.place(np.ones((1, 4))).ratios.tolist() == [0.0]
    assert same.place(np.array([[1.0, -1, 1, -1]])).ratios[0] > 1
    assert np.isfinite(same.ratios).all()
    assert np.isnan(same.place(np.full((1, 4), np.nan)).ratios).all()
    assert unit_length(np.zeros((1, 3))).tolist() == [[0, 0, 0]]
    with pytest.raises(SettingsError, match="one case is no suite"):
        Reference.of(points(10), np.zeros(10, dtype=np.int64))


def test_nearest_leaves_out_what_is_to_stay_apart() -> None:
    states, cases = points(50), np.arange(50) // 5
    found = nearest(states, states, 7, apart=(cases, cases))
    for i in range(50):
        far = sorted(
            (np.linalg.norm(states[i] - states[j]), j) for j in range(50) if cases[j] != cases[i]
        )
        assert found.places[i].tolist() == [j for _, j in far[:7]]
        assert found.distances[i] == pytest.approx([d for d, _ in far[:7]])
    few = nearest(states[:5], states[:7], 4, apart=(cases[:5], cases[:7]))
    assert np.isinf(few.distances[:, 2:]).all()  # only two are of another case
    assert np.isfinite(few.distances[:, :2]).all()


def test_spreading_takes_small_tests_whole_and_large_ones_equally() -> None:
    names = ["a"] * 50 + ["b"] * 3 + ["c"] * 50
    taken = spread_over(names, 43, seed=1)
    assert [sum(names[i] == name for i in taken) for name in "abc"] == [20, 3, 20]
    assert spread_over(names, 500).tolist() == list(range(103))
    assert spread_over(names, 43, seed=2).tolist() != taken.tolist()


def test_groups_are_the_clumps_with_the_largest_first() -> None:
    rng = np.random.default_rng(0)
    clumps = [rng.normal(size=(n, 5)) * 0.1 + at for n, at in ((20, 0), (40, 3), (10, -3))]
    found = group_texts(np.concatenate(clumps))
    assert [set(found[a:b]) for a, b in ((0, 20), (20, 60), (60, 70))] == [{1}, {0}, {2}]
    assert set(group_texts(rng.normal(size=(4, 5)))) == {0}
    assert group_texts(np.zeros((0, 5))).tolist() == []


def flagged(group: int, count: int, answer: str, trained: bool | None) -> Flagged:
    return Flagged("x", count, 0.1, 2, group, answer, 0.9, count / 10, "y", "t", trained, {})


def test_a_group_counts_texts_and_lines() -> None:
    some = [flagged(0, 3, "bad", True), flagged(0, 1, "good", False), flagged(1, 2, "good", True)]
    first, second = groups_of(some, np.array([[0.0], [1.0], [5.0]]), lines=20)
    assert (first.texts, first.lines, first.share) == (2, 4, 0.2)
    assert first.answers == {"bad": 0.75, "good": 0.25}
    assert first.entropy == pytest.approx((3 * 0.3 + 1 * 0.1) / 4)
    assert first.trained == 0.75
    assert second.typical == (some[2],)
    assert groups_of([flagged(0, 1, "", None)], np.zeros((1, 1)), 1)[0].trained is None
    assert typical(np.array([[0.0], [9.0], [4.0]]), 2).tolist() == [2, 0]


def test_the_plane_shows_what_differs_most() -> None:
    rng = np.random.default_rng(0)
    tests, gap = rng.normal(size=(500, 6)), rng.normal(size=(5, 6)) + np.array([0, 0, 40, 0, 0, 0])
    plane = Plane.of(tests, gap)
    spots = plane.place(np.concatenate([tests, gap]))
    assert spots.shape == (505, 2)
    assert abs(spots[500:, 0].mean() - spots[:500, 0].mean()) > 30
