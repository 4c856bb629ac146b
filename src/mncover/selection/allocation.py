"""How many cases of each test to run: the budget is spread for equal error.

The error of an estimated rate is expected from a forecast. A case counts by how much its verdict
may still surprise; u below is the case's share in the error of the rate, fails - rate * judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError
from mncover.selection.forecast import DRAWS, TYPICAL, Counts
from mncover.suites.judging import FAILS, NOT_JUDGED

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DOUBT, DOUBT_JUDGED = 0.06, 0.005  # a new version may do what no forecast says
ENOUGH = 100  # a test with fewer judged cases than this counts for less
FEWEST = 20  # cases of a test, if it has them and the budget allows


def sums(group: Ints, values: Floats, groups: int) -> Floats:
    """Return the sum of the values of each group."""
    return np.bincount(group, values, groups).astype(np.float64)


@dataclass(frozen=True)
class Earlier:
    """What earlier runs said of all cases of a suite; the first run is the one to compare with.

    `test` is the number of each case's test. `verdicts` is [runs, n], the counts [runs, noises, n].
    """

    tests: tuple[str, ...]
    test: Ints
    verdicts: NDArray[np.int8]
    fails: Counts
    judged: Counts

    @property
    def sizes(self) -> Ints:
        """How many cases each test has."""
        return np.bincount(self.test, minlength=len(self.tests))

    def sums(self, values: NDArray[np.generic]) -> Floats:
        """Return the sum over the cases of each test."""
        return sums(self.test, values.astype(np.float64), len(self.tests))

    @property
    def rates(self) -> list[float | None]:
        """The failure rate of each test in the first run; None if no case is judged."""
        first = self.verdicts[0]
        failing, judged = self.sums(first == FAILS), self.sums(first != NOT_JUDGED)
        return [f / j if j else None for f, j in zip(failing, judged, strict=True)]

    @property
    def rate(self) -> float | None:
        """The failure rate of all tests together in the first run."""
        judged = int((self.verdicts[0] != NOT_JUDGED).sum())
        return int((self.verdicts[0] == FAILS).sum()) / judged if judged else None


@dataclass(frozen=True)
class Outlook:
    """What to expect of each case of a new version.

    `fails` and `judged` are chances, `mean` and `square` the first two moments of the case's u, and
    `order` sorts cases so that like ones stand together.
    """

    earlier: Earlier
    fails: Floats
    judged: Floats
    mean: Floats
    square: Floats

    @property
    def spread(self) -> Floats:
        """The standard deviation of each case's u: how much its verdict may surprise."""
        found: Floats = np.sqrt(np.maximum(self.square - self.mean**2, 1e-9))
        return found

    @property
    def order(self) -> Ints:
        """Cases by test and, within it, from the least to the most likely to fail."""
        whole = self.earlier.sums(self.judged) > 0.9 * self.earlier.sizes
        key = np.where(whole[self.earlier.test], self.fails, self.judged)
        return np.lexsort((np.arange(len(key)), key, self.earlier.test))

    def variances(self, group: Ints, groups: int) -> Floats:
        """Return the expected variance of u within each group of cases."""
        n = np.maximum(np.bincount(group, minlength=groups), 1)
        mean = np.bincount(group, self.mean, groups) / n
        square = np.bincount(group, self.square, groups) / n
        found: Floats = np.maximum(square - mean**2, 0)
        return found


def outlook(earlier: Earlier) -> Outlook:
    """Return what the first of the earlier runs lets expect of a new version, with some doubt.

    The other runs only enter the regressions, which learn what each is worth. A draw by the
    mean of all would be worse than one by the first alone if another is a stranger to the new
    version, and which one that is nobody knows yet.
    """
    fails = earlier.fails[0, TYPICAL] / DRAWS
    judged = earlier.judged[0, TYPICAL] / DRAWS
    typical = (earlier.sums(judged) / np.maximum(earlier.sizes, 1))[earlier.test]
    judged = np.where(typical < 1, (1 - DOUBT_JUDGED) * judged + DOUBT_JUDGED * typical, 1.0)
    fails = (1 - DOUBT) * fails + DOUBT * judged / 2
    count = np.maximum(earlier.sums(judged), 1e-9)
    rate = (earlier.sums(fails) / count)[earlier.test]
    scale = (np.maximum(earlier.sizes, 1) / count)[earlier.test]
    mean = scale * (fails - rate * judged)
    square = scale**2 * (fails * (1 - rate) ** 2 + (judged - fails) * rate**2)
    return Outlook(earlier, fails, judged, mean, square)


def apportion(weights: Floats, sizes: Ints, total: int, fewest: int) -> Ints:
    """Return whole numbers in proportion to weights that add up to `total`.

    None is larger than its size, and none smaller than `fewest` unless its size is.

    >>> apportion(np.array([1.0, 1.0, 2.0]), np.array([5, 100, 100]), 45, 2).tolist()
    [5, 13, 27]
    """
    low = np.minimum(sizes, fewest)
    if not low.sum() <= total <= sizes.sum():
        raise SettingsError(
            f"a budget of {total:,} cases must be {low.sum():,} to {sizes.sum():,}."
        )
    down, up = 0.0, float(sizes.max(initial=1)) / max(float(weights.min(initial=1.0)), 1e-12)
    for _ in range(200):
        factor = (down + up) / 2
        enough = np.clip(factor * weights, low, sizes).sum() >= total
        down, up = (down, factor) if enough else (factor, up)
    wanted = np.clip(up * weights, low, sizes)
    taken = np.maximum(np.floor(wanted + 1e-9).astype(np.int64), low)
    rest = np.argsort(-np.where(taken < sizes, wanted - taken, -1.0), kind="stable")
    taken[rest[: total - int(taken.sum())]] += 1
    return taken


def for_equal_error(expected: Outlook, total: int) -> Ints:
    """Spread the budget so that the mean square error over the tests is least.

    A test whose expectation applied to fewer than `ENOUGH` cases counts for less: its rate rests on
    few cases whatever is run.
    """
    earlier = expected.earlier
    sizes, spread = earlier.sizes, earlier.sums(expected.spread)
    judged = earlier.sums(earlier.verdicts[0] != NOT_JUDGED)
    share = np.where(sizes < ENOUGH, 1.0, np.minimum(1.0, judged / ENOUGH))
    fewest = min(FEWEST, max(2, total // (2 * max(len(sizes), 1))))
    return apportion(np.maximum(spread / sizes * share, 1e-9), sizes, total, fewest)


def proportional(expected: Outlook, total: int) -> Ints:
    """Take the same share of every test."""
    sizes = expected.earlier.sizes
    return apportion(sizes.astype(np.float64), sizes, total, 1)


def equal(expected: Outlook, total: int) -> Ints:
    """Take the same number of every test, or all of a smaller one."""
    sizes = expected.earlier.sizes
    return apportion(np.ones(len(sizes)), sizes, total, 1)
