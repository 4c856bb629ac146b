"""A logistic regression with a penalty; the intercept of each test shrinks to the common one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLOPE, INTERCEPT, TEST = 1.0, 1e-3, 0.3  # penalties
STEPS, SMALL = 50, 1e-4
LARGEST = 15.0  # of a logit


@dataclass(frozen=True)
class Regression:
    """Slopes, the common intercept first, and what each test adds to it."""

    slopes: Floats
    tests: Floats

    def chances(self, features: Floats, test: Ints) -> Floats:
        """Return the chance of each case."""
        return _chances(_with_one(features) @ self.slopes + self.tests[test])


def fit(features: Floats, test: Ints, tests: int, happened: Floats) -> Regression:
    """Fit by Newton's method; the tests' intercepts are eliminated, so many tests cost little."""
    x = _with_one(features)
    penalty = np.full(x.shape[1], SLOPE)
    penalty[0] = INTERCEPT

    def loss(slopes: Floats, own: Floats) -> float:
        logits = np.clip(x @ slopes + own[test], -LARGEST, LARGEST)
        likelihood = happened @ logits - np.logaddexp(0, logits).sum()
        return float(-likelihood + (penalty @ slopes**2 + TEST * own @ own) / 2)

    slopes, own = np.zeros(x.shape[1]), np.zeros(tests)
    at = loss(slopes, own)
    for _ in range(STEPS):
        step, mine = _step(x, test, happened, slopes, own, penalty)
        size = 1.0
        while (then := loss(slopes + size * step, own + size * mine)) > at and size > SMALL:
            size /= 2
        if then > at:
            break
        slopes, own, better, at = slopes + size * step, own + size * mine, at - then, then
        if better < SMALL:
            break
    return Regression(slopes, own)


def _step(
    x: Floats, test: Ints, happened: Floats, slopes: Floats, own: Floats, penalty: Floats
) -> tuple[Floats, Floats]:
    """Return Newton's step of the slopes and of the tests' intercepts."""
    tests = len(own)
    chance = _chances(x @ slopes + own[test])
    weight, miss = chance * (1 - chance), happened - chance
    down = x.T @ miss - penalty * slopes
    down_own = np.bincount(test, miss, tests) - TEST * own
    curve_own = np.bincount(test, weight, tests) + TEST
    cross = np.stack([np.bincount(test, weight * column, tests) for column in x.T], axis=1)
    curve = (x * weight[:, None]).T @ x + np.diag(penalty)
    curve -= cross.T @ (cross / curve_own[:, None])
    step = np.linalg.solve(curve, down - cross.T @ (down_own / curve_own))
    return step, (down_own - cross @ step) / curve_own


def _with_one(features: Floats) -> Floats:
    return np.concatenate([np.ones((len(features), 1)), features], axis=1)


def _chances(logits: Floats) -> Floats:
    chances: Floats = 1 / (1 + np.exp(-np.clip(logits, -LARGEST, LARGEST)))
    return chances
