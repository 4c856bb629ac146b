"""Strata of like cases, and the draw: one case at random from every block of neighbours.

Within a test, cases are sorted by how likely they are to fail and cut so that every stratum holds
the same doubt. Each stratum is then cut, in the suite's order, into as many blocks as it gives
cases, and one case is drawn from each block. Neighbours in a suite often come from one template, so
the draw is spread over templates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mncover.selection.allocation import Ints, Outlook, apportion, for_equal_error, sums

PER_STRATUM, MOST_STRATA = 8, 10


@dataclass(frozen=True)
class Strata:
    """The stratum of each case; of each stratum its test, its size and how many cases it gives."""

    stratum: Ints
    test: Ints
    sizes: Ints
    taken: Ints


@dataclass(frozen=True)
class Drawn:
    """The cases drawn, in the suite's order.

    `weight` is how many cases each stands for, the inverse of its chance to be drawn; `stratum` is
    its stratum, counted over all tests.
    """

    cases: Ints
    weight: Ints
    stratum: Ints


def strata_of(expected: Outlook, total: int) -> Strata:
    """Cut each test into strata, and say how many of `total` cases each gives."""
    earlier, spread, order = expected.earlier, expected.spread, expected.order
    numbers = for_equal_error(expected, total)
    stratum = np.zeros(len(order), dtype=np.int64)
    tests: list[int] = []
    sizes: list[int] = []
    taken: list[int] = []
    ends = np.cumsum(earlier.sizes)
    for test, (n, size, end) in enumerate(zip(numbers, earlier.sizes, ends, strict=True)):
        mine = order[end - size : end]
        parts = 1 if n == size else max(1, min(MOST_STRATA, int(n) // PER_STRATUM))
        doubt = np.cumsum(spread[mine])
        place = np.minimum((doubt - spread[mine] / 2) / doubt[-1] * parts, parts - 1)
        _, place = np.unique(place.astype(np.int64), return_inverse=True)
        each = np.bincount(place)
        held = sums(place, spread[mine], len(each))
        stratum[mine] = len(sizes) + place
        tests += [test] * len(each)
        taken += apportion(held, each, int(n), min(2, int(n) // len(each))).tolist()
        sizes += each.tolist()
    return Strata(stratum, np.array(tests), np.array(sizes), np.array(taken))


def draw(strata: Strata, seed: int) -> Drawn:
    """Draw one case from every block; a block is a run of neighbours within a stratum."""
    order = np.lexsort((np.arange(len(strata.stratum)), strata.stratum))
    starts = np.cumsum(strata.sizes) - strata.sizes
    mine = strata.stratum[order]
    rank = np.arange(len(order)) - starts[mine]
    block = (np.cumsum(strata.taken) - strata.taken)[mine] + rank * strata.taken[mine] // (
        strata.sizes[mine]
    )
    sizes = np.bincount(block, minlength=int(strata.taken.sum()))
    first = np.cumsum(sizes) - sizes
    chance = np.random.default_rng(seed).random(len(sizes))
    chosen = order[first + np.minimum((chance * sizes).astype(np.int64), sizes - 1)]
    places = np.argsort(chosen)
    return Drawn(chosen[places], sizes[places], strata.stratum[chosen[places]])
