"""Keep what each text hits in a fixed sample of neurons, and find its owner (`data/owners.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.criteria.base import ALL, HIDDEN, Group
from mncover.criteria.binned import BINS
from mncover.data.columns import taken
from mncover.data.layout import Kind
from mncover.data.owners import (
    NOT_OWNED,
    Block,
    Owned,
    Sampled,
    nobody,
    owners_of,
    sample_of,
    table_of,
    with_first_hits,
)
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.data.texts import first_equal
from mncover.engine.batches import Batch, Rows, fetched, on_device
from mncover.engine.ranges import Ranges
from mncover.engine.signatures import PoolReader
from mncover.engine.taps import Read
from mncover.types import Settings, Text

# That are made at a time: they take several numbers of double precision each.
BLOCK_CELLS, GPU_CELLS = 2**20, 2**23


class _Layer(NamedTuple):
    """The sampled neurons of a layer: the ranges [rows, columns], and the first cell of each."""

    sampled: Sampled
    low: Tensor
    high: Tensor
    cells: Tensor


class Sampling:
    """What is sampled while texts run; nothing, if the main criterion has no bins of neurons."""

    def __init__(
        self, ranges: Ranges, main: Group, settings: Settings, device: torch.device
    ) -> None:
        self.bins, self.device, self.settings = main.cells, device, settings
        self.layers: dict[int, _Layer] = {}
        spans = dict(ranges.layout.spans())
        start = 0
        binned = main.coding is BINS and main.view in (ALL, HIDDEN)
        for one in sample_of(ranges.layout) if binned else ():
            shape = one.site.rows, len(one.columns)
            bounds = (
                values[spans[one.site]].reshape(one.site.rows, -1)[:, one.columns]
                for values in (ranges.low, ranges.high)
            )
            low, high = (torch.as_tensor(values, device=device) for values in bounds)
            neurons = torch.arange(start, start + one.neurons, device=device).view(shape)
            self.layers[one.site.layer] = _Layer(one, low, high, neurons * self.bins)
            start += one.neurons

    def cells(self, layer: int, states: Tensor, positions: Tensor) -> Tensor:
        """Return the cells that sampled states [tokens, columns] at some positions hit."""
        _, low, high, first = self.layers[layer]
        codes = BINS.codes(torch, states, low[positions], high[positions], self.bins)
        return torch.where(codes < 0, UNKNOWN, first[positions] + codes).to(torch.int32)


class _Kept(NamedTuple):
    """Texts of one length that ran together, and their sampled states [n, T, c] by layer."""

    rows: Rows
    states: dict[int, Tensor]


class SampleReader:
    """Hands every site to a reader of signatures, and keeps the sampled states."""

    def __init__(self, inner: PoolReader, sampling: Sampling) -> None:
        self.inner, self.sampling = inner, sampling
        self._kept: dict[int, list[_Kept]] = {}  # by length

    def begin(self, batch: Batch) -> Read:
        """Take a batch."""
        states: dict[int, Tensor] = {}
        self._kept.setdefault(batch.ids.shape[1], []).append(_Kept(batch.rows, states))
        return partial(self._read, self.inner.begin(batch), len(batch.rows), states)

    def end(self) -> None:
        """Finish the inner reader."""
        self.inner.end()

    def _read(
        self, read: Read, n: int, states: dict[int, Tensor], kind: Kind, layer: int, tensor: Tensor
    ) -> None:
        read(kind, layer, tensor)  # which refuses what is not finite
        if kind == "hidden" and layer in self.sampling.layers:
            columns = self.sampling.layers[layer].sampled.columns
            part = tensor[:n, :, columns.start : columns.stop : columns.step]
            if self.sampling.settings.positions == "mean":
                part = part.mean(dim=1, keepdim=True, dtype=torch.float64)
            # A view would keep all the states.
            states[layer] = part.to(tensor.dtype, copy=True)

    def blocks(self, which: Rows) -> list[Block]:
        """Return what texts hit, given the number under which each of them was run."""
        if not self.sampling.layers or not len(which):
            return []
        most = BLOCK_CELLS if self.sampling.device.type == "cpu" else GPU_CELLS
        parts = (part for kept in self._kept.values() for part in _in_parts(_joined(kept), most))
        found = (each for some in _together(parts, most) for each in self._cells(some))
        return [_of_texts(rows, cells, which) for rows, cells in found]

    def _cells(self, some: Sequence[_Kept]) -> Iterator[tuple[Rows, Cells]]:
        """Yield the cells [n, T * c] of texts, computed for all lengths and layers at once."""
        shapes = [next(iter(one.states.values())).shape[:2] for one in some]
        lengths = np.repeat([length for _, length in shapes], [n for n, _ in shapes])
        starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
        places = np.arange(len(starts)) - starts
        if self.sampling.settings.pooled:  # all tokens share their neurons
            places *= 0
        positions = on_device(places, self.sampling.device)
        by_layer = [
            self.sampling.cells(
                layer, torch.cat([one.states[layer].flatten(0, 1) for one in some]), positions
            )
            for layer in self.sampling.layers
        ]
        cells = fetched(torch.cat(by_layer, 1))
        ends = np.cumsum([n * length for n, length in shapes])
        for one, (n, length), end in zip(some, shapes, ends, strict=True):
            yield one.rows, cells[end - n * length : end].reshape(n, -1)


Cells = NDArray[np.int32]


def _joined(kept: Sequence[_Kept]) -> _Kept:
    """Put the texts of one length together."""
    layers = kept[0].states
    states = {layer: torch.cat([one.states[layer] for one in kept]) for layer in layers}
    return _Kept(np.concatenate([one.rows for one in kept]), states)


def _in_parts(one: _Kept, most: int) -> Iterator[_Kept]:
    """Cut texts of one length where there are too many of them."""
    step = max(1, most * len(one.rows) // _size(one))
    for start in range(0, len(one.rows), step):
        part = slice(start, start + step)
        yield _Kept(one.rows[part], {layer: s[part] for layer, s in one.states.items()})


def _together(parts: Iterable[_Kept], most: int) -> Iterator[list[_Kept]]:
    """Yield parts of several lengths together, as long as they are not too large."""
    some: list[_Kept] = []
    size = 0
    for part in parts:
        if some and size + _size(part) > most:
            yield some
            some, size = [], 0
        some.append(part)
        size += _size(part)
    if some:
        yield some


def _size(one: _Kept) -> int:
    return sum(states.numel() for states in one.states.values())


def _of_texts(rows: Rows, cells: Cells, which: Rows) -> Block:
    """Return the cells of all texts that were run under one of some numbers."""
    place = np.full(int(max(which.max(), rows.max())) + 1, UNKNOWN)
    place[rows] = np.arange(len(rows))
    texts = np.flatnonzero(place[which] != UNKNOWN)
    at = place[which[texts]]
    alone = len(at) == len(cells) and bool((at == np.arange(len(at))).all())
    return Block(texts, cells if alone else cells[at])


class Owning:
    """Finds the owners of texts that are added to data in order, chunk by chunk.

    A copy of an earlier text is owned by the first such text, whoever owned that one's cells.
    `texts` are all that will be added, behind the first `done`.
    """

    def __init__(
        self, data: CoverageData, sampling: Sampling, texts: Sequence[Text], done: int = 0
    ) -> None:
        self.data, self.sampling = data, sampling
        self._done = data.n_rows
        left = taken(texts, np.arange(done, len(texts)))
        self._firsts = first_equal(chain(data.each_text(), left))
        self._outside = np.full(len(self._firsts), np.nan, np.float32)
        self._outside[: self._done] = data.column("outside")

    def add(self, n: int, run: Rows, blocks: Sequence[Block]) -> Owned:
        """Return the owners of the next texts, and keep which cells these were the first to hit.

        `run` has the places of the texts that were run, which the blocks count.
        """
        rows = np.arange(self._done, self._done + n)
        firsts = self._firsts[rows]
        self._done += n
        if not self.sampling.layers:
            return NOT_OWNED
        identity, before = self.data.identity, self.data.owners
        if before is None:
            before = nobody(identity.main.layout, identity.main.cells)
        first = with_first_hits(before, rows[run], blocks)
        self.data.owners = table_of(first, before.shape)
        owner, share = np.full(n, UNKNOWN), np.zeros(n)
        outside = np.full(n, np.nan)
        for block in blocks:
            mine = run[block.texts]
            owner[mine], share[mine] = owners_of(first, rows[mine], block.cells)
            outside[mine] = (block.cells == UNKNOWN).mean(axis=1)
        copies = firsts < rows
        owner[copies], share[copies] = firsts[copies], 1.0
        self._outside[rows] = outside
        return Owned(owner, share, np.where(np.isnan(outside), self._outside[firsts], outside))
