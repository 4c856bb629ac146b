"""What error to expect of each test before anything is run, under four ways to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mncover.selection.allocation import (
    Floats,
    Ints,
    Outlook,
    equal,
    for_equal_error,
    proportional,
)
from mncover.selection.strata import strata_of

WAYS = ("random", "proportional", "equal", "planned")
BUDGETS = (0.02, 0.05, 0.1)
_SPREAD: dict[str, Callable[[Outlook, int], Ints]] = {"proportional": proportional, "equal": equal}


@dataclass(frozen=True)
class Prospect:
    """The error to expect, as a share, of each test under a way to draw, and over all tests."""

    way: str
    total: int
    errors: Floats

    @property
    def overall(self) -> float:
        """The root mean square over the tests."""
        return float(np.sqrt(np.mean(self.errors**2)))


def prospect(expected: Outlook, way: str, total: int) -> Prospect:
    """Return the standard error to expect of each test's rate.

    `random` draws from the suite as a whole. Only `planned` has strata; what the regression
    explains beyond them is not counted.
    """
    if way == "planned":
        return Prospect(way, total, _planned(expected, total))
    earlier, sizes = expected.earlier, expected.earlier.sizes
    variances = expected.variances(earlier.test, len(sizes))
    if way == "random":
        taken, left = sizes * total / sizes.sum(), 1 - total / sizes.sum()
        # How many cases of a test are drawn is itself random, which costs a little more. A rate
        # of which no case is drawn is still known to lie between 0 and 1.
        each = np.minimum(left * (1 / taken + 1 / taken**2), 1.0)
    else:
        each = np.maximum(1 / _SPREAD[way](expected, total) - 1 / sizes, 0)
    return Prospect(way, total, np.sqrt(each * variances))


def _planned(expected: Outlook, total: int) -> Floats:
    found, tests = strata_of(expected, total), expected.earlier.sizes
    part = expected.variances(found.stratum, len(found.sizes))
    each = found.sizes**2 * (1 / found.taken - 1 / found.sizes) * part
    errors: Floats = np.sqrt(np.bincount(found.test, each, len(tests))) / tests
    return errors


def cases_by_test(expected: Outlook, total: int) -> Ints:
    """Return how many cases of each test a plan takes."""
    return for_equal_error(expected, total)
