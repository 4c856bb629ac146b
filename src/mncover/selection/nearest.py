"""The nearest of some reference points, exactly and in bounded memory. No torch here."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BLOCK_BYTES = 64 * 2**20  # distances that are held at a time
GROUP = 32  # reference points of which only the nearest is looked at first


class Nearest(NamedTuple):
    """The k nearest reference points of each point: [points, k], the nearest first.

    A point that is not finite has distances of NaN. Of equally distant points any may be named.
    """

    distances: Floats
    places: NDArray[np.int64]


def nearest(
    points: NDArray[np.floating],
    reference: NDArray[np.floating],
    k: int,
    apart: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    choose_in: type[np.floating] = np.float64,
) -> Nearest:
    """Return the k nearest reference points by Euclidean distance; all, if there are fewer.

    `apart` has a number for each point and each reference point: where they are equal, the two are
    infinitely far apart. `choose_in` is the precision in which the nearest are chosen; their
    distances are computed in double precision anyway.

    >>> nearest(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [1.0, 0.0]]), 2)
    Nearest(distances=array([[1., 5.]]), places=array([[1, 0]]))
    """
    k, known = min(k, len(reference)), reference.astype(np.float64)
    twice, squares = (values.astype(choose_in, copy=False) for values in _padded(known))
    block = max(1, BLOCK_BYTES // (8 * max(1, len(squares))))
    distances = np.full((len(points), k), np.nan)
    places = np.zeros((len(points), k), dtype=np.int64)
    finite = np.flatnonzero(np.isfinite(points).all(axis=1))
    for start in range(0, len(finite) if k else 0, block):
        rows = finite[start : start + block]
        mine = points[rows].astype(np.float64)
        values = squares - mine.astype(choose_in, copy=False) @ twice
        if apart is not None:
            values[:, : len(known)][apart[0][rows][:, None] == apart[1]] = np.inf
        chosen = _smallest(values, k)
        found = np.minimum(chosen, len(known) - 1)  # those behind only fill up
        # Differences, because the product of large numbers above loses the last digits.
        exact = np.sqrt(((mine[:, None] - known[found]) ** 2).sum(axis=2))
        if apart is not None:
            exact[(apart[0][rows][:, None] == apart[1][found]) | (chosen != found)] = np.inf
        order = np.argsort(exact, axis=1, kind="stable")
        distances[rows] = np.take_along_axis(exact, order, axis=1)
        places[rows] = np.take_along_axis(found, order, axis=1)
    return Nearest(distances, places)


def _padded(reference: Floats) -> tuple[Floats, Floats]:
    """Return twice the points [dimensions, n] and their squares [n], n a multiple of GROUP.

    `squares - point @ twice` then orders them by distance; those that fill up are the farthest.
    """
    n, dimensions = reference.shape
    whole = -(-n // GROUP) * GROUP
    twice, squares = np.zeros((dimensions, whole)), np.full(whole, np.inf)
    twice[:, :n], squares[:n] = 2 * reference.T, (reference**2).sum(axis=1)
    return twice, squares


def _smallest(values: Floats, k: int) -> NDArray[np.int64]:
    """Return where the k smallest values of each row are, in any order.

    They are in the k groups whose smallest values are smallest, so that only these are sorted
    out: several times faster than sorting out whole rows.
    """
    rows, n = values.shape
    groups = n // GROUP
    least = values.reshape(rows, GROUP, groups).min(axis=1)  # group g has g, g + groups, …
    taken = np.arange(groups)[None].repeat(rows, axis=0)
    if k < groups:
        taken = np.argpartition(least, k - 1, axis=1)[:, :k]
    places = (taken[:, :, None] + groups * np.arange(GROUP)).reshape(rows, -1)
    candidates = np.take_along_axis(values, places, axis=1)
    best = np.argpartition(candidates, k - 1, axis=1)[:, :k]
    return np.take_along_axis(places, best, axis=1)
