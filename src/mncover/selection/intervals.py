"""How far an estimated rate may be from the truth, given how the cases were drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PRIOR = 4.0  # cases that what the regression expects counts for, in each stratum
UNSEEN = 0.5  # failures that nobody saw
LEVEL = 0.95


@dataclass(frozen=True)
class Sample:
    """The cases that were run: where they come from, how they went, and what was predicted."""

    test: Ints
    stratum: Ints
    weight: Floats
    fails: Floats
    judged: Floats
    predicted_fails: Floats
    predicted_judged: Floats

    def left(self, tests: int) -> Ints:
        """Return how many cases of each test stand for others as well."""
        return np.bincount(self.test[self.weight > 1], minlength=tests)


def variances(sample: Sample, rate: Floats, whole: Floats, tests: int) -> tuple[Floats, Floats]:
    """Return the variance of each test's rate, and the degrees of freedom it rests on.

    Each case is drawn from a block of its own, so differences of neighbouring blocks stand for
    the variance within a block; they overstate it if neighbours differ. To them comes what the
    regression expects, because a stratum without a failure is no proof that it has none.
    """
    s, own = sample, rate[sample.test]
    error = (s.fails - s.predicted_fails) - own * (s.judged - s.predicted_judged)
    scale = s.weight * np.sqrt(1 - 1 / s.weight)
    names, stratum = np.unique(s.stratum, return_inverse=True)
    n, home = np.bincount(stratum), np.zeros(len(names), dtype=np.int64)
    home[stratum] = s.test
    order = np.argsort(stratum, kind="stable")  # within a stratum in the suite's order
    value, place = (scale * error)[order], stratum[order]
    apart = np.where(place[1:] == place[:-1], np.diff(value) ** 2, 0.0)
    seen = np.bincount(place[1:], apart, len(names)) * n / (2 * np.maximum(n - 1, 1))
    likely = np.bincount(stratum, scale**2 * _expected(s, rate, tests), len(names))
    each = (n * seen + PRIOR * likely) / (n + PRIOR)
    total = np.bincount(home, each, tests)
    free = np.bincount(home, each**2 / (np.maximum(n - 1, 1) + PRIOR), tests)
    freedom = total**2 / np.where(free > 0, free, 1.0)
    return total / whole**2, np.where(free > 0, np.maximum(freedom, PRIOR), np.inf)


def _expected(sample: Sample, rate: Floats, tests: int) -> Floats:
    """Return the variance of each case's error if the predictions are right, with some doubt."""
    least = (UNSEEN / np.maximum(sample.left(tests), 1))[sample.test]
    fails, own = np.clip(sample.predicted_fails, least, 1 - least), rate[sample.test]
    judged = np.clip(sample.predicted_judged, fails, 1.0)
    square = fails * (1 - own) ** 2 + (judged - fails) * own**2
    found: Floats = np.maximum(square - (fails - own * judged) ** 2, 0.0)
    return found


def interval(rate: float, variance: float, freedom: float, left: int) -> tuple[float, float]:
    """Return the 95 % interval of a rate: Wilson's, for as many cases as the variance stands for.

    `left` is how many cases stand for others as well; without any, the rate is known.

    >>> interval(0.5, 0.0, 1.0, 0)
    (0.5, 0.5)
    """
    from scipy.stats import t  # slow to import

    if not left or not variance:
        return float(rate), float(rate)
    least = UNSEEN / left
    inside = min(max(rate, least), 1 - least)
    n = inside * (1 - inside) / variance
    z = float(t.ppf((1 + LEVEL) / 2, freedom))
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(rate * (1 - rate) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return float(max(min(middle - half, rate), 0.0)), float(min(max(middle + half, rate), 1.0))
