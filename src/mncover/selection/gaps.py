"""Which texts lie farther from a suite's tests than the tests lie from each other. No torch here.

Tests made from templates lie close together and tweets far apart, so a distance alone says little.
What counts is the distance of a text to its nearest tests, divided by how close these lie to their
own nearest tests. What is normal is learnt from the tests: each of them is looked at as if its case
were not in the suite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError
from mncover.selection.nearest import nearest

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

NEIGHBOURS = 20  # tests that a text is compared with
SOFTEN = 0.1  # of the median closeness, added to that of every place: near-equal tests are no wall
REACH = 0.95  # the share of the tests that is within reach of the others
DRAWS = 2000
LEVEL = 0.95  # of intervals


class Placed(NamedTuple):
    """Where texts lie: the ratio of each, and its nearest reference texts [texts, k].

    A text that was not run has a ratio of NaN.
    """

    ratios: Floats
    nearest: Places


@dataclass(frozen=True)
class Reference:
    """Texts to compare with: unit-length points, how close each lies to the others, and ratios.

    `ratios` are those of the reference texts themselves, sorted: each compared with all texts but
    those of its own case. `cases` counts the cases, which are what is independent.
    """

    points: NDArray[np.float32]
    closeness: Floats
    ratios: Floats
    cases: int

    @classmethod
    def of(cls, states: NDArray[np.floating], cases: Places) -> Reference:
        """Learn from the states [texts, width] of texts and the number of each one's case."""
        points = unit_length(states)
        number = len(np.unique(cases))
        k = min(NEIGHBOURS, len(points) - int(np.unique(cases, return_counts=True)[1].max()))
        if k < 1:
            raise SettingsError(
                "one case is no suite: to know what is normal, tests of at least two are needed."
            )
        found = nearest(points, points, k, apart=(cases, cases), choose_in=np.float32)
        mean = found.distances.mean(axis=1)
        soft = SOFTEN * float(np.median(mean))
        closeness = mean + (soft if soft > 0 else 1e-9)
        ratios = mean / closeness[found.places].mean(axis=1)
        return cls(points, closeness, np.sort(ratios), number)

    def place(self, states: NDArray[np.floating]) -> Placed:
        """Compare texts with these."""
        k = min(NEIGHBOURS, len(self.points))
        found = nearest(unit_length(states), self.points, k, choose_in=np.float32)
        ratios = found.distances.mean(axis=1) / self.closeness[found.places].mean(axis=1)
        return Placed(ratios, found.places)

    def p_values(self, ratios: Floats) -> Floats:
        """Return how likely ratios as large are among the reference texts; 1 for NaN.

        Conformal: a text counts itself among them, so no value is 0, and a new text of the same
        kind gets a value of at most p about p of the time, or less often.
        """
        larger = len(self.ratios) - np.searchsorted(self.ratios, ratios, side="left")
        return np.where(np.isnan(ratios), 1.0, (1 + larger) / (len(self.ratios) + 1))

    @property
    def reach(self) -> float:
        """The largest ratio that is within reach: that of REACH of the reference texts."""
        return float(np.quantile(self.ratios, REACH, method="higher"))


def unit_length(states: NDArray[np.floating]) -> NDArray[np.float32]:
    """Return states of length 1; what is not finite stays so, and zeros stay zeros."""
    single = states.astype(np.float32)
    lengths = np.linalg.norm(single, axis=1, keepdims=True)
    return np.asarray(single / np.where(lengths == 0, np.float32(1), lengths))


def benjamini_hochberg(p_values: Floats, rate: float) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected so that at most `rate` of these are false, on average.

    >>> benjamini_hochberg(np.array([0.01, 0.9, 0.04, 0.2]), 0.1).tolist()
    [True, False, True, False]
    """
    n = len(p_values)
    ordered = np.sort(p_values)
    below = np.flatnonzero(ordered <= rate * np.arange(1, n + 1) / n) if n else np.zeros(0)
    return p_values <= ordered[int(below[-1])] if len(below) else np.zeros(n, dtype=bool)


class Share(NamedTuple):
    """A share with its 95 % interval."""

    value: float
    low: float
    high: float


def share_within_reach(
    reference: Reference, ratios: Floats, counts: Places, seed: int = 0
) -> Share:
    """Return the share of traffic that is within reach of a test.

    A text counts as often as it came. The interval allows for the traffic being a sample of all
    traffic, and for where the limit lies being known only from the suite's cases.
    """
    known = ~np.isnan(ratios)
    values, weights = ratios[known], counts[known]
    total = int(weights.sum())
    if not total:
        raise SettingsError("no text of the traffic could be run, so there is nothing to compare.")
    order = np.argsort(values)
    values, below = values[order], np.cumsum(weights[order])

    def within(limits: Floats) -> Floats:
        at = np.searchsorted(values, limits, side="right")
        return np.where(at > 0, below[np.maximum(at, 1) - 1], 0) / total

    rng, n = np.random.default_rng(seed), reference.cases
    # Which quantile of its population the limit is, if n independent cases gave it.
    quantiles = rng.beta(REACH * (n + 1), (1 - REACH) * (n + 1), DRAWS)
    limits = np.quantile(reference.ratios, quantiles)
    drawn = rng.binomial(total, within(limits)) / total
    tail = (1 - LEVEL) / 2
    value = float(within(np.array([reference.reach]))[0])
    low, high = (float(x) for x in np.quantile(drawn, [tail, 1 - tail]))
    return Share(value, min(low, value), max(high, value))


class Visits:
    """Which reference texts traffic comes near, counted while the traffic passes by."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.near = np.zeros(len(reference.points), dtype=bool)
        self.lines = np.zeros(len(reference.points), dtype=np.int64)

    def add(self, placed: Placed, counts: Places) -> None:
        """Take some texts: one within reach comes near its nearest tests."""
        within = placed.ratios <= self.reference.reach  # false for NaN
        self.near[placed.nearest[within].ravel()] = True
        np.add.at(self.lines, placed.nearest[within, 0], counts[within])


def spread_over(names: Sequence[str], most: int, seed: int = 0) -> Places:
    """Return the places of at most `most` items, equally many of each name as far as there are.

    >>> spread_over(["a", "a", "a", "b"], 3).tolist()[-1]
    3
    """
    _, which = np.unique(np.array(names, dtype=object).astype(str), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(which))
    order = order[np.argsort(which[order], kind="stable")]
    sizes = np.bincount(which)
    rank = np.arange(len(which)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.sort(order[np.argsort(rank, kind="stable")[:most]])
