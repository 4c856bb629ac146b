"""All cases of a window at once: which of them hits a cell first, and what each would add.

This is the way of kernels that keep codes in memory: on a GPU a step takes as long for one text as
for hundreds, so nothing here goes from text to text. Equally long texts go together, whatever
batches they ran in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.engine.kernels.base import Array, WindowKernels, spare_bytes

Item = TypeVar("Item")
Numbers = NDArray[np.int64]
Chosen = NDArray[np.bool_]

BLOCK_BYTES = 2**28  # of codes in a block: whatever selects or joins texts copies at most as much
MAPS_BYTES = 2**28  # for the maps of several cases, where the device does not say what is free


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The codes [n, touched slots] of equally long texts, and which tokens and pairs count."""

    length: int
    codes: Array
    keep: tuple[Array, Array] | None = None


def by_length(items: Iterable[Item], of: Callable[[Item], tuple[int, int]]) -> list[list[Item]]:
    """Put items of one length together, up to `BLOCK_BYTES`; `of` gives their length and bytes."""
    found: list[list[Item]] = []
    last: dict[int, tuple[list[Item], int]] = {}  # by length: the list that is filled, its bytes
    for item in items:
        length, size = of(item)
        some, used = last.get(length, ([], 0))
        if some and used + size > BLOCK_BYTES:
            some, used = [], 0
        if not some:
            found.append(some)
        some.append(item)
        last[length] = some, used + size
    return found


@dataclass(frozen=True, slots=True)
class _Members:
    """Texts by their row in a block, the cases that they are in, and their place in these."""

    block: CodeBlock
    rows: Numbers
    cases: Numbers
    places: Numbers

    def only(self, chosen: Chosen) -> _Members:
        arrays = (array[chosen] for array in (self.rows, self.cases, self.places))
        return _Members(self.block, *arrays)

    @property
    def is_whole(self) -> bool:
        """Whether these are all texts of the block, in its order."""
        return np.array_equal(self.rows, np.arange(len(self.block.codes)))

    @classmethod
    def joined(cls, parts: Sequence[_Members]) -> _Members:
        """Put equally long texts that have blocks of their own into one block."""
        codes = torch.cat([one.block.codes for one in parts])
        cases, places = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("cases", "places")
        )
        return cls(CodeBlock(parts[0].block.length, codes), np.arange(len(codes)), cases, places)


class Ordered:
    """The cases of a window, for one criterion.

    `where` [2, texts] gives block and row of every distinct text, -1 for one without tokens;
    `which` has the distinct text of each of the window's rows.
    """

    def __init__(
        self,
        kernels: WindowKernels,
        cells: int,
        blocks: Sequence[CodeBlock],
        where: Numbers,
        cases: Sequence[range],
        which: Numbers,
    ) -> None:
        self.kernels, self.cells, self.n = kernels, cells, len(cases)
        case = np.repeat(np.arange(self.n), [len(rows) for rows in cases])
        pairs = np.stack([case, which], axis=1)
        pairs = np.unique(pairs[where[0, pairs[:, 1]] >= 0], axis=0)  # a copy adds nothing
        case, (block, row) = pairs[:, 0], where[:, pairs[:, 1]]
        place = np.arange(len(case)) - np.searchsorted(case, case)
        every = (_Members(one, row, case, place).only(block == i) for i, one in enumerate(blocks))
        self._members = [one for one in every if len(one.rows)]
        self._apart: list[_Members] | None = None

    def start(self, bits: Array | None = None) -> Firsts:
        """Return the cells before any case; those of a map count as hit before all."""
        return Firsts(self, self.kernels.new_first(self.cells, bits))

    def new_to(self, bits: Array) -> Numbers:
        """Return how many hidden and attention cells of each case a map lacks: [2, cases]."""
        every, numbers = np.ones(self.n, dtype=bool), np.zeros(self.n, dtype=np.int64)
        return self.start(bits).not_before(every, numbers)

    def codes(self, chosen: Chosen, apart: bool = False) -> Iterator[tuple[CodeBlock, Numbers]]:
        """Yield the codes of the texts of some cases, and the case of each.

        With `apart`, what several texts of a case have in common is only in the first of them.
        """
        if apart and self._apart is None:
            self._apart = self._set_apart()
        for one in self._apart or [] if apart else self._members:
            mine = one.only(chosen[one.cases])
            if len(mine.rows):
                yield self._counting(mine), mine.cases

    def _counting(self, members: _Members) -> CodeBlock:
        """Return the codes of some texts that count."""
        block = members.block
        codes, keep = block.codes, block.keep
        if not members.is_whole:
            rows = self.to_device(members.rows)
            codes = codes[rows]
            keep = None if keep is None else (keep[0][rows], keep[1][rows])
        if keep is not None:
            codes = self.kernels.mask_codes(codes, block.length, self.cells, *keep)
        return CodeBlock(block.length, codes)

    def to_device(self, numbers: NDArray[np.generic]) -> Array:
        """Return numbers where the codes are."""
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self.kernels.device)

    def _set_apart(self) -> list[_Members]:
        """Take from the later texts of every case what earlier ones have."""
        later = [one.cases[one.places > 0] for one in self._members]
        several = np.unique(np.concatenate([*later, np.zeros(0, dtype=np.int64)]))
        if not len(several):
            return self._members
        size = self.kernels.new_maps(1, self.cells).nbytes
        step = max(1, spare_bytes(self.kernels.device, MAPS_BYTES) // size)
        starts = range(0, len(several), step)
        made = [one for at in starts for one in self._without_repeats(several[at : at + step])]
        sizes = ((one.block.length, one.block.codes.nbytes) for one in made)
        joined = [_Members.joined(some) for some in by_length(made, lambda one: next(sizes))]
        return [*(one.only(one.places == 0) for one in self._members), *joined]

    def _without_repeats(self, cases: Numbers) -> Iterator[_Members]:
        """Yield the later texts of some cases without what earlier ones of their case have.

        Each case has a map. The first texts of all cases go into these at once, then the second
        ones, and so on.
        """
        maps = self.kernels.new_maps(len(cases), self.cells)
        index = np.full(self.n, -1)
        index[cases] = np.arange(len(cases))
        mine = [one.only(index[one.cases] >= 0) for one in self._members]
        for place in range(1 + max(int(one.places.max(initial=0)) for one in mine)):
            for one in mine:
                now = one.only(one.places == place)
                if not len(now.rows):
                    continue
                block = self._counting(now)
                what = (block.codes, block.length, self.cells, self.to_device(index[now.cases]))
                left = CodeBlock(block.length, self.kernels.only_new(*what, maps))
                if place:
                    yield replace(now, block=left, rows=np.arange(len(now.rows)))


class Firsts:
    """For every cell the smallest number of a case that hit it; cases are added with numbers.

    A case's number is that of its turn, or -1 to make it part of the map that was there before.
    Cases are chosen by flags [cases] and have the numbers [cases]; what is counted comes as
    [2, cases], hidden states and attention apart.
    """

    def __init__(self, over: Ordered, first: Array) -> None:
        self.over, self.first = over, first

    def add(self, chosen: Chosen, numbers: Numbers) -> Firsts:
        """Add some cases."""
        for block, cases in self.over.codes(chosen):
            mine = self.over.to_device(numbers[cases].astype(np.int32))
            self.over.kernels.add_first(block.codes, block.length, mine, self.first)
        return self

    def with_more(self, chosen: Chosen, numbers: Numbers) -> Firsts:
        """Return a copy to which some cases were added."""
        return Firsts(self.over, self.over.kernels.copy_of(self.first)).add(chosen, numbers)

    def new(self, numbers: Numbers) -> Numbers:
        """Return how many cells each case was the first to hit."""
        found = self.over.kernels.count_first(self.first, self.over.n)
        return self.over.kernels.to_numpy(found)[:, numbers]

    def not_before(self, chosen: Chosen, numbers: Numbers) -> Numbers:
        """Return how many cells of each chosen case no case before it has hit; else 0."""
        kernels, first = self.over.kernels, self.first
        found = self.over.to_device(np.zeros((2, self.over.n), dtype=np.int64))
        for block, cases in self.over.codes(chosen, apart=True):
            mine = self.over.to_device(numbers[cases].astype(np.int32))
            counts = kernels.count_later(block.codes, block.length, mine, first)
            found.index_add_(1, self.over.to_device(cases), counts)
        return np.asarray(kernels.to_numpy(found))

    def store(self, bits: Array) -> None:
        """Add everything that cases with a number from 0 on have hit to a map."""
        self.over.kernels.store_first(self.first, bits)
