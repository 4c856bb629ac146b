"""What is done with a site's values while the model runs: one small class each.

A reader is told which batch comes (`begin`) and answers with a function that takes every site's
tensor of that batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from mncover.criteria.base import Group
from mncover.data.layout import Kind, Site
from mncover.data.maps import ints_per_neuron
from mncover.engine.kernels.base import Array, Block, Kernels
from mncover.engine.masking import Keep, Kept
from mncover.engine.ordered import CodeBlock, Numbers, by_length
from mncover.engine.taps import Read
from mncover.errors import ModelError

Maps = Mapping[str, Array]  # the coverage map of each criterion


class NotFiniteError(Exception):
    """A site held NaN or infinity; the caller knows the texts behind a batch's indices."""

    def __init__(self, site: Site, rows: list[int], values: Array) -> None:
        super().__init__(site.name)
        self.site, self.rows, self.values = site, rows, values


class Reader(Protocol):
    """Takes the sites of batches, also of several batches at a time."""

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""


class Setup(NamedTuple):
    """What every measurement runs with; `bounds` are the low and high of every neuron."""

    kernels: Kernels
    bounds: tuple[Array, Array]
    groups: Sequence[Group]
    keep: Keep | None


class Batch(NamedTuple):
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
        self.kernels, self.low, self.high, self.keep = kernels, low, high, keep
        self.locks = {site: Lock() for site in kernels.layout.sites}

    def begin(self, rows: list[int], ids: Tensor) -> Read:
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
        with self.locks[site]:
            _, low, high, _ = self.block(batch, site, values)
            finite = self.kernels.widen(values, low, high)
            self.kernels.put_back(self.low, site, batch.length, low)
            self.kernels.put_back(self.high, site, batch.length, high)
        return finite


class HitReader(_SiteReader):
    """Adds everything seen to the maps of some criteria; the order of texts does not matter."""

    def __init__(self, setup: Setup, maps: Maps) -> None:
        super().__init__(setup.kernels, *setup.bounds, setup.keep)
        self.groups, self.maps = setup.groups, maps

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
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


@dataclass(slots=True)
class _Batch:
    """One batch: how long its texts are, what of them counts, where each site's codes are."""

    length: int
    keep_tokens: Array = None  # [texts, T], if there are masks
    keep_pairs: Array = None  # [texts, T, T]
    places: dict[tuple[str, str], Any] = field(default_factory=dict)  # by criterion and site


class Spool:
    """Takes codes batch by batch and site by site; gives them back text by text.

    Batches go by length, but gains are defined in the order of the texts. So the codes, one per
    touched neuron, wait until the window is complete: in a temporary file, or on a GPU in memory.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._store = kernels.new_store()
        self._where: dict[int, tuple[_Batch, int]] = {}
        self._blocks: dict[str, tuple[list[CodeBlock], Numbers]] = {}
        sites = kernels.layout.sites
        self._names = [site.name for site in sites]
        self._sizes = cache(lambda length: np.array([site.touched(length) for site in sites]))

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.close()

    def clear(self) -> None:
        self._where.clear()
        self._blocks.clear()
        self._store.clear()

    def begin(self, rows: list[int], length: int, kept: Kept | None = None) -> None:
        """Start a batch of texts, named by their index; others may be under way."""
        batch = _Batch(length)
        if kept is not None:
            batch.keep_tokens = self.kernels.as_array(kept.tokens)
            batch.keep_pairs = self.kernels.as_array(kept.pairs)
        self._where.update({text: (batch, row) for row, text in enumerate(rows)})

    def write(self, text: int, site: Site, group: Group, codes: Array) -> None:
        """Take a group's codes [texts, groups, n] at one site of the batch that `text` is in."""
        place = self._store.put(codes, group.cells)
        self._where[text][0].places[group.plain, site.name] = place

    def read(self, text: int, group: Group) -> Array:
        """Return one text's codes for all sites, flat, in the order of the layout."""
        batch, row = self._where[text]
        places = [batch.places[group.plain, name] for name in self._names]
        return self._store.get(places, self._sizes(batch.length), row, group.cells)

    def masked(self, text: int, group: Group, codes: Array) -> Array:
        """Return one text's codes with "no cell" for everything that the masks leave out."""
        batch, row = self._where[text]
        keep = (batch.keep_tokens[row], batch.keep_pairs[row])
        return self.kernels.mask_codes(codes, batch.length, group.cells, *keep)

    def blocks(self, texts: int, group: Group) -> tuple[list[CodeBlock], Numbers]:
        """Return the codes of all texts by length, and the block and row of each: [2, texts].

        Only for kernels that keep codes in memory. A text without tokens has -1.
        """
        if group.plain not in self._blocks:
            batches: dict[int, tuple[_Batch, list[int]]] = {}
            for text, (batch, _) in self._where.items():
                batches.setdefault(id(batch), (batch, []))[1].append(text)
            blocks: list[CodeBlock] = []
            where = np.full((2, texts), -1)
            for some in by_length(batches.values(), lambda one: self._size(one[0], group)):
                rows = [text for _, mine in some for text in mine]
                where[0, rows], where[1, rows] = len(blocks), np.arange(len(rows))
                blocks.append(self._joined([batch for batch, _ in some], group))
            self._blocks[group.plain] = blocks, where
        return self._blocks[group.plain]

    def _size(self, batch: _Batch, group: Group) -> tuple[int, int]:
        """Return the length of a batch's texts and the bytes of its codes."""
        return batch.length, sum(batch.places[group.plain, name].nbytes for name in self._names)

    def _joined(self, batches: list[_Batch], group: Group) -> CodeBlock:
        """Put the codes of batches into one tensor, of which they keep views."""
        length, codes = batches[0].length, []
        for batch in batches:
            places = [batch.places[group.plain, name] for name in self._names]
            codes.append(torch.cat([place.flatten(1) for place in places], 1))
        whole = torch.cat(codes)
        for batch, part in zip(batches, torch.split(whole, list(map(len, codes))), strict=True):
            parts = torch.split(part, self._sizes(length).tolist(), 1)
            for site, one in zip(self.kernels.layout.sites, parts, strict=True):
                batch.places[group.plain, site.name] = one.view(len(one), site.groups, -1)
        if batches[0].keep_tokens is None:
            return CodeBlock(length, whole)
        tokens = torch.cat([batch.keep_tokens for batch in batches])
        return CodeBlock(length, whole, (tokens, torch.cat([one.keep_pairs for one in batches])))


class EncodeReader(_SiteReader):
    """Keeps every text's codes in a spool, to be walked in order afterwards."""

    def __init__(self, setup: Setup, spool: Spool) -> None:
        super().__init__(setup.kernels, *setup.bounds, setup.keep)
        self.groups, self.spool = setup.groups, spool

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        batch = self.batch(rows, ids)
        self.spool.begin(rows, batch.length, batch.kept)
        return partial(self.read, batch)

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        kernels, block, finite = self.kernels, self.block(batch, site, values), True
        for group in self.groups:
            codes = kernels.new_codes(len(batch.rows), site, batch.length, group.cells)
            finite &= kernels.encode(group, block, codes)
            self.spool.write(batch.rows[0], site, group, codes)
        return finite
