"""Which text first hit a cell, for a fixed sample of neurons: what a later text repeats.

A cell is owned by the first text that hit it, in the order of the run. The owner of a text is the
earlier text that owns more of its cells than any other. It is a sample because a row number for
every cell of a model would not be small. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mncover.data.layout import Layout, Site
from mncover.data.table import UNKNOWN
from mncover.errors import DataFileError

OWNERS_TYPE = "<i4"
DIMENSIONS = 8  # of each position of a sampled layer
SHARED = 64  # of a sampled layer where all positions share their neurons
_NOBODY = 2**31 - 1

Owners = NDArray[np.int32]  # [sampled neurons, cells]: the row of the text that owns it, or UNKNOWN


class Sampled(NamedTuple):
    """The neurons of a layer that are in the sample: some columns of every row."""

    site: Site
    columns: range

    @property
    def neurons(self) -> int:
        """How many they are."""
        return self.site.rows * len(self.columns)


def sample_of(layout: Layout) -> tuple[Sampled, ...]:
    """Return the sample: neurons of the middle and the last layer, evenly spread."""
    sites = [site for site in layout.sites if site.kind == "hidden"]
    last = len(sites) - 1
    return tuple(_sampled(sites[layer]) for layer in sorted({last // 2, last}))


def _sampled(site: Site) -> Sampled:
    most = DIMENSIONS if site.rows > 1 else SHARED
    return Sampled(site, range(site.columns)[:: max(1, site.columns // most)][:most])


def nobody(layout: Layout, cells: int) -> Owners:
    """Return a table in which no cell has an owner."""
    neurons = sum(one.neurons for one in sample_of(layout))
    return np.full((neurons, cells), UNKNOWN, dtype=OWNERS_TYPE)


def check_owners(owners: Owners, layout: Layout, cells: int, rows: int) -> None:
    """Refuse a table that does not fit; it may come from a stranger."""
    neurons = sum(one.neurons for one in sample_of(layout))
    if owners.shape != (neurons, cells):
        raise DataFileError("its table of owners does not fit its layers")
    if owners.min() < UNKNOWN or owners.max() >= rows:
        raise DataFileError("its table of owners has values out of range")


def united(owners: Sequence[Owners | None], places: Sequence[NDArray[np.int64]]) -> Owners | None:
    """Return one table for several, given where the rows of each of them went."""
    known = [
        np.append(place, _NOBODY)[table]  # UNKNOWN is the last one
        for table, place in zip(owners, places, strict=True)
        if table is not None
    ]
    if not known:
        return None
    first = np.minimum.reduce(known)
    return np.where(first == _NOBODY, UNKNOWN, first).astype(OWNERS_TYPE)


class Block(NamedTuple):
    """Equally long texts by their place in a chunk, and the sampled cells [texts, n] they hit.

    Cells are counted through the whole table; UNKNOWN stands for none.
    """

    texts: NDArray[np.int64]
    cells: NDArray[np.int32]


class Owned(NamedTuple):
    """The row of each text's owner, or UNKNOWN, and the share of the text's cells it owns.

    `outside` is the share of a text's sampled values that hit no cell, NaN if it is not known.
    """

    owner: ArrayLike
    share: ArrayLike
    outside: ArrayLike


NOT_OWNED = Owned(UNKNOWN, 0.0, np.nan)


def with_first_hits(owners: Owners, rows: NDArray[np.int64], blocks: Iterable[Block]) -> Owners:
    """Return the owner of every cell, flat, once texts with these rows have hit theirs.

    A cell that is still without one has a number larger than any row. Behind all cells is one more,
    which UNKNOWN leads to as an index and which nobody can own.
    """
    first = np.append(np.where(owners == UNKNOWN, _NOBODY, owners), UNKNOWN).astype(OWNERS_TYPE)
    numbers = rows.astype(OWNERS_TYPE)
    for texts, cells in blocks:
        mine = numbers[texts][:, None]
        text, place = np.nonzero(mine < first[cells])
        np.minimum.at(first, cells[text, place], mine[text, 0])
    return first


def owners_of(
    first: Owners, rows: NDArray[np.int64], cells: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the owner of each text of a block, the earliest of several, and its share."""
    n, size = cells.shape
    who = first[cells]
    who[who == rows.astype(OWNERS_TYPE)[:, None]] = UNKNOWN  # a text does not own itself
    who.sort(axis=1)
    starts = np.flatnonzero(np.diff(who, axis=1, prepend=UNKNOWN - 1))  # of runs of one owner
    owner, counts = who.ravel()[starts].astype(np.int64), np.diff(starts, append=n * size)
    counts[owner == UNKNOWN] = 0
    # The largest count, and among equal ones the smallest row, is the maximum of one number.
    keys = (counts << 32) | (_NOBODY - owner)
    best = np.maximum.reduceat(keys, np.searchsorted(starts, np.arange(n) * size))
    most = best >> 32
    found = np.where(most > 0, _NOBODY - (best & (2**32 - 1)), UNKNOWN)
    return found, most / np.maximum((cells >= 0).sum(axis=1), 1)


def table_of(first: Owners, shape: tuple[int, ...]) -> Owners:
    """Return what `with_first_hits` did as a table."""
    return np.where(first == _NOBODY, UNKNOWN, first)[:-1].reshape(shape)
