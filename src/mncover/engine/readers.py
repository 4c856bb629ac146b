"""What is done with a site's values while the model runs: one small class each.

A reader is told which batch comes (`begin`) and answers with a function that takes every site's
tensor of that batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from mncover.criteria.base import Group
from mncover.data.layout import Kind, Site
from mncover.engine import batches
from mncover.engine.batches import Rows
from mncover.engine.kernels.base import Array, Block, Bounds, Heads, Kernels, Order, Target
from mncover.engine.masking import Keep, Kept
from mncover.engine.ordered import CodeBlock, Numbers, by_length
from mncover.engine.taps import Read
from mncover.errors import ModelError

Targets = Mapping[str, Target]  # where the hits of each criterion go


class NotFiniteError(Exception):
    """A site held NaN or infinity; the caller knows the text of a row."""

    def __init__(self, site: Site, row: int) -> None:
        super().__init__(site.name)
        self.site, self.row = site, row


class Reader(Protocol):
    """Takes the sites of batches, also of several batches at a time."""

    def begin(self, texts: batches.Batch) -> Read:
        """Take a batch; return who reads it."""

    def end(self) -> None:
        """Finish when the last batch of a call was read."""


class Setup(NamedTuple):
    """What every measurement runs with."""

    kernels: Kernels
    bounds: Bounds
    groups: Sequence[Group]
    keep: Keep | None


class Batch(NamedTuple):
    """The texts that run together: their indices, how long they are, and what of them counts."""

    rows: Rows
    places: Tensor
    length: int
    kept: Kept | None


class _SiteReader:
    """Checks a tensor's shape, and that all of it was finite; the rest is the subclass's."""

    def __init__(self, kernels: Kernels, bounds: Bounds, keep: Keep | None = None) -> None:
        self.kernels, self.bounds, self.keep = kernels, bounds, keep
        kernels.fault()  # what a call that failed has left

    def begin(self, texts: batches.Batch) -> Read:
        return partial(self.read, self.batch(texts))

    def end(self) -> None:
        fault = self.kernels.fault()
        if fault is not None:
            raise NotFiniteError(*fault)

    def batch(self, texts: batches.Batch) -> Batch:
        """Look up what of a batch counts."""
        kept = None if self.keep is None else self.keep.of(texts.ids)
        return Batch(texts.rows, texts.places, texts.ids.shape[1], kept)

    def read(self, batch: Batch, kind: Kind, layer: int, values: Tensor | Heads) -> None:
        """Take one site's values, or the heads that they are computed from."""
        site = self.kernels.site(kind, layer)
        given: Array = values
        if not isinstance(values, Heads):
            given = self._checked(batch, site, values)
        kept = None if batch.kept is None else batch.kept.at(site)
        if not self.reduce(batch, Block(site, batch.length, given, batch.places, kept)):
            finite = np.isfinite(given).reshape(len(batch.rows), -1).all(axis=1)
            raise NotFiniteError(site, batch.rows[int(np.argmin(finite))])

    def _checked(self, batch: Batch, site: Site, tensor: Tensor) -> Array:
        """Return a tensor as values [texts, groups, n]; refuse one of another shape."""
        texts, length = len(batch.rows), batch.length
        mine = tensor if len(tensor) == texts else tensor[:texts]  # behind them are copies
        values = self.kernels.values(mine)
        shape = (texts, site.groups, length, site.touched_columns(length))
        expected = shape if site.kind == "attention" else (shape[0], *shape[2:])
        if tuple(values.shape) != expected:
            raise ModelError(
                f"{site.name} has shape {tuple(values.shape)}, expected {shape}: "
                "its size changes from text to text, so it cannot be counted."
            )
        return values.reshape(texts, site.groups, -1)

    def reduce(self, batch: Batch, block: Block) -> bool:
        """Use the values of a site; return False if one is known not to be finite."""
        raise NotImplementedError


class WidenReader(_SiteReader):
    """Stretches ranges so that they hold everything seen."""

    def reduce(self, batch: Batch, block: Block) -> bool:
        return self.kernels.widen(block, self.bounds)


class HitReader(_SiteReader):
    """Adds everything seen to the maps of some criteria.

    With an order, which some kernels take, it also keeps the first text that hit each cell.
    """

    def __init__(self, setup: Setup, targets: Targets, order: Order | None = None) -> None:
        super().__init__(setup.kernels, setup.bounds, setup.keep)
        self.order = order
        self.targets = [(one, [targets[name] for name in one.names]) for one in setup.groups]

    def reduce(self, batch: Batch, block: Block) -> bool:
        finite = True
        for group, mine in self.targets:
            finite &= self.kernels.hit(group, block, self.bounds, mine, self.order)
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

    def begin(self, rows: Rows, length: int, kept: Kept | None = None) -> None:
        """Start a batch of texts, named by their index; others may be under way."""
        batch = _Batch(length)
        if kept is not None:
            batch.keep_tokens = self.kernels.as_array(kept.tokens)
            batch.keep_pairs = self.kernels.as_array(kept.pairs)
        self._where.update({text: (batch, row) for row, text in enumerate(rows.tolist())})

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
        super().__init__(setup.kernels, setup.bounds, setup.keep)
        self.groups, self.spool = setup.groups, spool

    def begin(self, texts: batches.Batch) -> Read:
        batch = self.batch(texts)
        self.spool.begin(batch.rows, batch.length, batch.kept)
        return partial(self.read, batch)

    def reduce(self, batch: Batch, block: Block) -> bool:
        kernels, finite = self.kernels, True
        for group in self.groups:
            codes = kernels.new_codes(len(batch.rows), block.site, batch.length, group.cells)
            finite &= kernels.encode(group, block, self.bounds, codes)
            self.spool.write(int(batch.rows[0]), block.site, group, codes)
        return finite
