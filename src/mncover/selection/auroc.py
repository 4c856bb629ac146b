"""How well scores tell failing cases from the others: AUROC, with intervals.

The area under the ROC curve is the probability that a failing case has a higher score than one
that does not fail; ties count half. Intervals are DeLong's (Biometrics 44, 1988), which know that
two scores of the same cases go together.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.selection.chance import Z95

Scores = NDArray[np.float64]
Fails = NDArray[np.bool_]


class Estimate(NamedTuple):
    """A number and its 95 % interval; NaN where there are too few cases for one."""

    value: float
    low: float
    high: float


def auroc(scores: Scores, fails: Fails) -> Estimate:
    """Return the AUROC of scores for failing cases.

    >>> auroc(np.array([0.9, 0.6, 0.5, 0.1]), np.array([True, False, True, False])).value
    0.75
    """
    area, fail, ok = _parts(scores, fails)
    half = Z95 * math.sqrt(_variance(fail) + _variance(ok))
    low, high = np.clip([area - half, area + half], 0.0, 1.0)  # NaN stays NaN
    return Estimate(area, float(low), float(high))


def auroc_difference(scores: Scores, others: Scores, fails: Fails) -> Estimate:
    """Return how much higher the AUROC of scores is than that of other scores of the same cases."""
    mine, theirs = _parts(scores, fails), _parts(others, fails)
    difference = mine[0] - theirs[0]
    half = Z95 * math.sqrt(_variance(mine[1] - theirs[1]) + _variance(mine[2] - theirs[2]))
    return Estimate(difference, difference - half, difference + half)


def _parts(scores: Scores, fails: Fails) -> tuple[float, Scores, Scores]:
    """Return the area, and what each failing and each other case contributes to it.

    A failing case contributes the share of the others that it beats, another case the share of
    failing cases that beat it.
    """
    from scipy.stats import rankdata  # slow to import

    fail, ok = scores[fails], scores[~fails]
    if not len(fail) or not len(ok):
        return math.nan, np.full(len(fail), math.nan), np.full(len(ok), math.nan)
    together = rankdata(np.concatenate([fail, ok]))
    beats = (together[: len(fail)] - rankdata(fail)) / len(ok)
    beaten = 1 - (together[len(fail) :] - rankdata(ok)) / len(fail)
    return float(beats.mean()), beats, beaten


def _variance(contributions: Scores) -> float:
    """Return the variance of their mean."""
    n = len(contributions)
    return float(contributions.var(ddof=1)) / n if n > 1 else math.nan
