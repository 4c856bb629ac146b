"""What is done with a site's values while the model runs: one small class each.

A reader is told which batch comes (`begin`) and answers with a function that takes every site's
tensor of that batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Protocol

from torch import Tensor

from mncover.criteria.base import Group
from mncover.data.layout import Kind, Site
from mncover.data.maps import ints_per_neuron
from mncover.engine.kernels.base import Array, Block, Kernels
from mncover.engine.masking import Keep, Kept
from mncover.engine.spool import Spool
from mncover.engine.taps import Read
from mncover.errors import ModelError

Maps = Mapping[str, Array]  # the coverage map of each criterion


class NotFiniteError(Exception):
    """A site held NaN or infinity; the caller knows the texts behind a batch's indices."""

    def __init__(self, site: Site, rows: list[int], values: Array) -> None:
        super().__init__(site.name)
        self.site = site
        self.rows = rows
        self.values = values


class Reader(Protocol):
    """Takes the sites of batches, also of several batches at a time."""

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The texts that run together: their indices, how long they are, and what of them counts."""

    rows: list[int]
    length: int
    kept: Kept | None


class _SiteReader:
    """Checks a tensor's shape, and that all of it was finite; the rest is the subclass's.

    `low` and `high` are the ranges. `locks` has one for each site: of two batches that run in
    parallel only one at a time changes a site's ranges or maps.
    """

    def __init__(self, kernels: Kernels, low: Array, high: Array, keep: Keep | None = None) -> None:
        self.kernels = kernels
        self.low, self.high = low, high
        self.keep = keep
        self.locks = {site: Lock() for site in kernels.layout.sites}

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""
        return partial(self.read, self.batch(rows, ids))

    def batch(self, rows: list[int], ids: Tensor) -> Batch:
        """Look up what of a batch counts."""
        return Batch(rows, ids.shape[1], None if self.keep is None else self.keep.of(ids))

    def read(self, batch: Batch, kind: Kind, layer: int, tensor: Tensor) -> None:
        """Take one site's values."""
        site, texts, length = self.kernels.site(kind, layer), len(batch.rows), batch.length
        values = self.kernels.values(tensor[:texts])  # behind them are copies
        shape = (texts, site.groups, length, site.touched_columns(length))
        if tuple(values.shape) != (shape if kind == "attention" else (shape[0], *shape[2:])):
            raise ModelError(
                f"{site.name} has shape {tuple(values.shape)}, expected {shape}: "
                "its size changes from text to text, so it cannot be counted."
            )
        if not self.reduce(batch, site, values.reshape(texts, site.groups, -1)):
            raise NotFiniteError(site, batch.rows, values)

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        raise NotImplementedError

    def block(self, batch: Batch, site: Site, values: Array) -> Block:
        """Return the values of a site with the ranges of their neurons, and which of them count."""
        low, high = (self.kernels.touched(one, site, batch.length) for one in (self.low, self.high))
        return Block(values, low, high, None if batch.kept is None else batch.kept.at(site))


class WidenReader(_SiteReader):
    """Stretches ranges so that they hold everything seen."""

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Widen the ranges of one site."""
        with self.locks[site]:
            _, low, high, _ = self.block(batch, site, values)
            finite = self.kernels.widen(values, low, high)
            self.kernels.put_back(self.low, site, batch.length, low)
            self.kernels.put_back(self.high, site, batch.length, high)
        return finite


class HitReader(_SiteReader):
    """Adds everything seen to the maps of some criteria; the order of texts does not matter."""

    def __init__(
        self,
        kernels: Kernels,
        bounds: tuple[Array, Array],
        groups: Sequence[Group],
        maps: Maps,
        keep: Keep | None,
    ) -> None:
        super().__init__(kernels, *bounds, keep)
        self.groups = groups
        self.maps = maps

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Hit the cells of one site."""
        kernels, length = self.kernels, batch.length
        block, finite = self.block(batch, site, values), True
        for group in self.groups:
            bits, width = [self.maps[name] for name in group.names], ints_per_neuron(group.cells)
            with self.locks[site]:
                parts = [kernels.touched(one, site, length, width) for one in bits]
                finite &= kernels.hit(group, block, *parts)
                for one, part in zip(bits, parts, strict=True):
                    kernels.put_back(one, site, length, part)
        return finite


class EncodeReader(_SiteReader):
    """Keeps every text's codes in a spool, to be walked in order afterwards."""

    def __init__(
        self,
        kernels: Kernels,
        bounds: tuple[Array, Array],
        groups: Sequence[Group],
        spool: Spool,
        keep: Keep | None,
    ) -> None:
        super().__init__(kernels, *bounds, keep)
        self.groups = groups
        self.spool = spool

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""
        batch = self.batch(rows, ids)
        self.spool.begin(rows, batch.length, batch.kept)
        return partial(self.read, batch)

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Encode the values of one site."""
        kernels, block, finite = self.kernels, self.block(batch, site, values), True
        for group in self.groups:
            codes = kernels.new_codes(len(batch.rows), site, batch.length, group.cells)
            finite &= kernels.encode(group, block, codes)
            self.spool.write(batch.rows[0], site, group, codes)
        return finite
