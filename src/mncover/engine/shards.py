"""What came of some texts, apart from all others: it can be sent, joined, and added to maps.

A cell belongs to the text that hit it first. Whoever adds shards in the order of their texts, each
to what the earlier ones have hit, finds what every text adds, to the last bit: a cell of a shard
is new if no earlier shard has it. So only cells go from process to process, each once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.layout import Layout
from mncover.data.maps import Bits
from mncover.data.owners import Block
from mncover.data.table import NewCells, Signatures
from mncover.engine.first_hits import FirstHits
from mncover.engine.generate import Ids
from mncover.engine.kernels import loops
from mncover.engine.kernels.base import NOBODY, Array
from mncover.engine.setups import Setups
from mncover.engine.windows import Window

if TYPE_CHECKING:
    from mncover.engine.engine import Engine

Cells = NDArray[Any]  # counted through all neurons of a map, as `maps.cells_in` does


class Hits(NamedTuple):
    """The cells that texts hit, by the text that did so first, and how many each of them has."""

    cells: Cells
    counts: NDArray[np.int64]


class Covered(NamedTuple):
    """Some cells in no order: as they are, or as a map, whichever is smaller."""

    cells: Cells | None
    bits: Bits | None = None


class Shard(NamedTuple):
    """Everything that is recorded of some texts, in their order.

    `contexts` has what each context covers, by criterion, and `answers` what a language model said
    to prompts.
    """

    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    signatures: Signatures
    sampled: list[Block]
    hits: dict[str, Hits]
    contexts: dict[str, dict[str, Covered]]
    answers: dict[bytes, Ids]


class Collector:
    """Walks through texts one after the other; keeps the cells that each was the first to hit."""

    def __init__(self, engine: Engine, names: Sequence[str] | None = None) -> None:
        self.engine = engine
        self.bits = {name: engine.new_bits(name) for name in names or engine.criteria}
        self._found: dict[str, list[Cells]] = {name: [] for name in self.bits}

    def add(self, window: Window, rows: Sequence[int]) -> None:
        """Add some rows of a window together."""
        for name, bits in self.bits.items():
            each = [self.engine.new_cells(window, row, bits, name) for row in rows]
            self._found[name].append(np.concatenate(each) if each else np.empty(0, np.int64))

    def hits(self) -> dict[str, Hits]:
        """Return what was found."""
        return {name: self._hits(name, found) for name, found in self._found.items()}

    def _hits(self, name: str, found: list[Cells]) -> Hits:
        counts = np.array([len(cells) for cells in found], dtype=np.int64)
        cells = np.concatenate([*found, np.empty(0, np.int64)])
        return Hits(compact(self.engine.setups, name, cells), counts)


def walked(
    engine: Engine, window: Window, contexts: Sequence[str]
) -> tuple[dict[str, Hits], dict[str, dict[str, Covered]]]:
    """Return the first hits of a window's texts, and what each context covers."""
    every = Collector(engine)
    for row in range(len(contexts)):
        every.add(window, [row])
    hits, names = every.hits(), list(dict.fromkeys(contexts))
    if len(names) == 1:  # the same object, so it is sent once
        return hits, {names[0]: {name: Covered(found.cells) for name, found in hits.items()}}
    maps_of = {context: engine.new_maps() for context in names}
    for row, context in enumerate(contexts):
        for name, bits in maps_of[context].items():
            engine.add(window, row, bits, name)
    return hits, {
        context: {name: covered(engine.setups, name, bits) for name, bits in mine.items()}
        for context, mine in maps_of.items()
    }


def first_hits(engine: Engine, hits: FirstHits, name: str, n: int) -> Hits:
    """Return what kernels that keep the first text of each cell have found for `n` texts."""
    import torch

    first = hits.targets[name].first
    assert first is not None
    code, slot = torch.nonzero((first >= 0) & (first < NOBODY), as_tuple=True)
    numbers = first[code, slot]
    order = torch.argsort(numbers, stable=True)
    cells = (slot * len(first) + code)[order].cpu().numpy()
    counts = torch.bincount(numbers.long(), minlength=n).cpu().numpy()
    return Hits(compact(engine.setups, name, cells), counts)


def compact(setups: Setups, name: str, cells: NDArray[np.int64]) -> Cells:
    """Return cells in half of the bytes, if their numbers allow it."""
    most = setups.layout_of(name).slots * setups.group(name).cells
    return cells.astype(np.uint32) if most < 2**32 else cells


def covered(setups: Setups, name: str, bits: Array) -> Covered:
    """Return what a criterion's map has, in as few bytes as possible."""
    return covered_by(setups, name, setups.bits_to_numpy(bits, name))


def covered_by(setups: Setups, name: str, mine: Bits) -> Covered:
    """Do the same with a map of NumPy's."""
    if 4 * int(np.bitwise_count(mine).sum()) > mine.nbytes:
        return Covered(None, mine)
    found = maps.cells_in(mine, setups.group(name).cells)
    return Covered(compact(setups, name, found))


class Adder:
    """Adds cells to maps, which are NumPy's."""

    def __init__(self, setups: Setups) -> None:
        self.setups = setups
        self._attention = {name: _attention(one) for name, one in setups.layouts.items()}

    def add(self, name: str, hits: Hits, bits: Bits) -> tuple[NewCells, Hits]:
        """Add texts to a criterion's map; return how many cells of each are new, and these."""
        new = np.zeros((2, len(hits.counts)), dtype=np.int64)
        kept = np.empty_like(hits.cells)
        cells, attention = self.setups.group(name).cells, self._attention[name]
        n = loops.add_cells(*hits, cells, attention, bits, new, kept)
        return new, Hits(kept[:n], new.sum(axis=0))

    def unite(self, name: str, part: Covered, bits: Bits) -> None:
        """Add cells to a criterion's map."""
        if part.bits is not None:
            bits |= part.bits
        elif part.cells is not None:
            self.add(name, Hits(part.cells, np.array([len(part.cells)])), bits)

    def empty(self, name: str) -> Bits:
        """Return a criterion's map in which nothing was hit."""
        return maps.empty_map(self.setups.layout_of(name), self.setups.group(name).cells)


def _attention(layout: Layout) -> NDArray[np.uint8]:
    """Return 1 for the slots of attention, 0 for those of hidden states."""
    kinds = [np.full(site.slots, site.kind == "attention", np.uint8) for site in layout.sites]
    return np.concatenate(kinds)


def joined(setups: Setups, shards: Sequence[Shard]) -> Shard:
    """Return adjacent shards as one; however shards are put together, the outcome is the same."""
    adder, starts = Adder(setups), np.cumsum([0, *(len(one.lengths) for one in shards)]).tolist()
    return Shard(
        np.concatenate([one.lengths for one in shards]),
        np.concatenate([one.truncated for one in shards]),
        np.concatenate([one.probabilities for one in shards]),
        np.concatenate([one.signatures for one in shards]),
        sampled=[
            block._replace(texts=block.texts + start)
            for one, start in zip(shards, starts, strict=False)
            for block in one.sampled
        ],
        hits={name: _joined_hits(adder, name, shards) for name in shards[0].hits},
        contexts=_joined_contexts(adder, shards),
        answers={key: ids for one in shards for key, ids in one.answers.items()},
    )


def _joined_hits(adder: Adder, name: str, shards: Sequence[Shard]) -> Hits:
    bits = adder.empty(name)
    left = [adder.add(name, one.hits[name], bits)[1] for one in shards]
    return Hits(*(np.concatenate(column) for column in zip(*left, strict=True)))


def _joined_contexts(adder: Adder, shards: Sequence[Shard]) -> dict[str, dict[str, Covered]]:
    found: dict[str, dict[str, Covered]] = {}
    for context in dict.fromkeys(name for one in shards for name in one.contexts):
        mine = [one.contexts[context] for one in shards if context in one.contexts]
        found[context] = {name: _united(adder, name, mine) for name in mine[0]}
    return found


def _united(adder: Adder, name: str, parts: Sequence[Mapping[str, Covered]]) -> Covered:
    if len(parts) == 1:
        return parts[0][name]
    bits = adder.empty(name)
    for one in parts:
        adder.unite(name, one[name], bits)
    return covered_by(adder.setups, name, bits)
