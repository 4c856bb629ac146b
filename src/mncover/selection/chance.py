"""What chance would find, and every way of choosing cases beside it. No torch here.

Chance is not drawn but computed: how many failures a random choice of the same size finds has
an exact distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.selection.budgets import Indices, Scores, best
from mncover.selection.cases import Cases
from mncover.selection.scores import available, score_cases
from mncover.suites.judging import FAILS

Z95 = 1.959964


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share by Wilson's score method.

    >>> [round(x, 4) for x in wilson(95, 100)]
    [0.8882, 0.9785]
    """
    if n == 0:
        return 0.0, 1.0
    p, z = hits / n, Z95
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def random_interval(n: int, failing: int, k: int) -> tuple[int, int]:
    """Return how many failures are among k of n cases drawn at random, with 95 % probability.

    Exact: the smallest and largest number whose tails hold no more than 2.5 % each.

    >>> random_interval(100, 50, 10)
    (2, 8)
    """
    return interval_of(chances(n, failing, k))


def chances(n: int, failing: int, k: int) -> NDArray[np.float64]:
    """Return the probability of 0, 1, 2 … failures among k of n cases drawn at random.

    >>> chances(4, 2, 1).round(3).tolist()
    [0.5, 0.5]
    """
    from scipy.stats import hypergeom  # slow to import

    found = hypergeom.pmf(np.arange(min(k, failing) + 1), n, failing, k)
    return np.asarray(found, dtype=np.float64)


def interval_of(chance: NDArray[np.float64]) -> tuple[int, int]:
    """Return the smallest and largest number whose tails hold no more than 2.5 % each."""
    below, above = np.cumsum(chance), np.cumsum(chance[::-1])[::-1]
    inside = np.flatnonzero((below > 0.025) & (above > 0.025))
    return int(inside[0]), int(inside[-1])


@dataclass(frozen=True, slots=True)
class Found:
    """How many failing cases a choice holds; for chance an expectation and a 95 % interval."""

    method: str
    cases: int
    failing: float
    low: float
    high: float
    tests: float  # of the tests with a failing case, how many have one among those chosen


def compare_methods(
    cases: Cases, chosen: Indices, groups: Sequence[Indices], seed: int = 0
) -> list[Found]:
    """Let every method take as many cases of each group as were chosen, and count failures.

    "random" comes last and is the expectation over all choices of these sizes.
    """
    sizes = [int(np.isin(group, chosen).sum()) for group in groups]
    methods = [m for m in available(cases) if m not in ("random", "failing")]
    rows = [
        _count(cases, method, _taken(score_cases(cases, method, seed), groups, sizes))
        for method in methods
    ]
    return [*rows, _chance(cases, groups, sizes)]


def _taken(scores: Scores, groups: Sequence[Indices], sizes: Sequence[int]) -> Indices:
    pairs = zip(groups, sizes, strict=True)
    return np.concatenate([group[best(scores[group], size)] for group, size in pairs])


def count_failures(cases: Cases, chosen: Indices, name: str = "chosen") -> Found:
    """Count the failing cases among those chosen."""
    return _count(cases, name, chosen)


def _count(cases: Cases, method: str, taken: Indices) -> Found:
    mine = taken[cases.verdicts[taken] == FAILS]
    n = float(len(mine))
    return Found(method, len(taken), n, n, n, float(len(np.unique(cases.test[mine]))))


def _chance(cases: Cases, groups: Sequence[Indices], sizes: Sequence[int]) -> Found:
    """Add up independent draws from each group: their distributions are convolved."""
    whole, reached = np.ones(1), 0.0
    for group, size in zip(groups, sizes, strict=True):
        failing = int((cases.verdicts[group] == FAILS).sum())
        whole = np.convolve(whole, chances(len(group), failing, size))
        reached += _reached(cases, group, size)
    low, high = interval_of(whole)
    mean = float((np.arange(len(whole)) * whole).sum())
    return Found("random", sum(sizes), mean, low, high, reached)


def _reached(cases: Cases, group: Indices, size: int) -> float:
    """Return how many tests of a group chance is expected to find a failing case of."""
    total = 0.0
    for test in np.unique(cases.test[group]):
        mine = group[cases.test[group] == test]
        failing = int((cases.verdicts[mine] == FAILS).sum())
        total += 1 - float(chances(len(group), failing, size)[0])
    return total
