"""Kernels in plain torch operations, on any device.

This is the path of CUDA models, and the second opinion on the compiled loops. Maps are signed
integers here, because torch has few operations on unsigned ones: only their bits matter.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.criteria.base import Group
from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.engine.kernels.base import (
    NOBODY,
    Block,
    Bounds,
    CodeStore,
    Order,
    Target,
    WindowKernels,
    code_type,
    no_cell,
    spare_bytes,
)

KEPT_BYTES = 2**28  # for the places that texts of some lengths touch
PART = 2**22  # codes at a time: each needs some 50 bytes meanwhile


class TorchKernels(WindowKernels):
    """The loops as torch operations; every coding is computed as it is defined."""

    name = "torch"
    orders = True

    def __init__(self, layout: Layout, device: torch.device) -> None:
        super().__init__(layout, device)
        self.places = Places(layout, device)
        sites = len(layout.sites)
        self._faults = torch.full((sites,), NOBODY, dtype=torch.int32, device=device)

    def to_device(self, array: NDArray[Any]) -> Tensor:
        if array.dtype.kind == "u" and array.dtype.itemsize > 1:
            array = array.view(f"i{array.dtype.itemsize}")
        return torch.from_numpy(array).to(self.device)

    def to_numpy(self, array: Tensor) -> NDArray[Any]:
        return np.asarray(array.cpu())

    def bits_to_numpy(self, bits: Tensor, cells: int) -> maps.Bits:
        return np.asarray(bits.cpu().numpy().view(maps.int_type(cells)))

    def copy_of(self, array: Tensor) -> Tensor:
        return array.clone()

    def new_codes(self, n: int, site: Site, length: int, cells: int) -> Tensor:
        shape = (n, site.groups, site.touched(length) // site.groups)
        kind = torch.uint8 if code_type(cells).itemsize == 1 else torch.int16
        return torch.empty(shape, dtype=kind, device=self.device)

    def as_array(self, tensor: Tensor) -> Tensor:
        return tensor.contiguous()

    def stacked(self, codes: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(codes))

    def new_store(self) -> CodeStore:
        return MemoryStore()

    def disk_bytes(self, codes: int, cells: int) -> int:
        return 0

    def widen(self, block: Block, bounds: Bounds) -> bool:
        least, most = block.values.amin(0), block.values.amax(0)
        with self._writing(bounds, block) as (low, high):
            torch.minimum(low, least, out=low)
            torch.maximum(high, most, out=high)
        return self._checked(block)

    def hit(
        self,
        group: Group,
        block: Block,
        bounds: Bounds,
        targets: Sequence[Target],
        order: Order | None = None,
    ) -> bool:
        codes = self._codes(group, block, bounds)
        counting = codes, _counting(codes, block.keep)
        for mine, target in zip(counting, targets, strict=False):
            for texts, bits in _by_map(target.bits, block, order):
                with self._writing([bits], block, maps.ints_per_neuron(group.cells)) as (part,):
                    _store_all(mine[texts], part.view(*codes.shape[1:], -1))
            if order is not None:
                self._note_first(mine, group.cells, block, target, order.numbers)
        return self._checked(block)

    def encode(self, group: Group, block: Block, bounds: Bounds, codes: Tensor) -> bool:
        found = self._codes(group, block, bounds)
        codes.copy_(torch.where(found >= 0, found, no_cell(group.cells)))
        return self._checked(block)

    def scaled(self, values: Tensor, texts: int) -> Tensor:
        by_text = values.double().reshape(texts, -1)
        least, most = by_text.aminmax(dim=1, keepdim=True)
        span = torch.where(most == least, 1.0, most - least)
        return ((by_text - least) / span).float().view(values.shape)

    def top(self, values: Tensor, width: int, k: int) -> Tensor:
        rows = values.float().view(-1, width)
        least = rows.topk(min(k, width), dim=1).values[:, -1:]
        return torch.where(rows.isfinite(), (rows >= least).float(), rows).view(values.shape)

    def _codes(self, group: Group, block: Block, bounds: Bounds) -> Tensor:
        """Return the cells [texts, groups, n] of a block's values, -1 for none."""
        low, high = (self.touched(one, block.site, block.length) for one in bounds)
        found: Tensor = group.coding.codes(torch, block.values, low, high, group.cells)
        return found

    def _note_first(
        self, codes: Tensor, cells: int, block: Block, target: Target, numbers: Tensor
    ) -> None:
        """Keep the smallest number of a text for each cell that the old map does not have."""
        at, width = codes.clamp(min=0), maps.ints_per_neuron(cells)
        old = self.touched(target.old, block.site, block.length, width).view(*codes.shape[1:], -1)
        ints = old[None].expand(len(codes), -1, -1, -1).gather(-1, (at >> 6)[..., None])[..., 0]
        new = (codes >= 0) & ((ints.to(torch.int64) >> (at & 63)) & 1 == 0)
        slots = self.touched(self._every, block.site, block.length)
        mine = numbers[block.rows.long()][:, None, None].expand_as(codes)
        assert target.first is not None
        index = slots + at * self.layout.slots
        target.first.view(-1).scatter_reduce_(0, index[new], mine[new], "amin")

    @cached_property
    def _every(self) -> Tensor:
        return torch.arange(self.layout.slots, device=self.device)

    def _checked(self, block: Block) -> bool:
        """Remember the first text with a value that is not finite, without waiting for it."""
        odd = ~torch.isfinite(block.values).flatten(1).all(1)
        worst = torch.where(odd, block.rows, NOBODY).amin()
        place = self.layout.sites.index(block.site)
        self._faults[place] = torch.minimum(self._faults[place], worst)
        return True

    def fault(self) -> tuple[Site, int] | None:
        found = self._faults.tolist()
        self._faults.fill_(NOBODY)
        odd = [
            (site, row) for site, row in zip(self.layout.sites, found, strict=True) if row != NOBODY
        ]
        # What is wrong in one site is wrong in all behind it: attention comes before its layer.
        return min(odd, key=lambda one: (one[0].layer, one[0].kind), default=None)

    def walk(
        self, codes: Tensor, length: int, cells: int, bits: Tensor, store: bool
    ) -> tuple[int, int]:
        none, width = no_cell(cells), maps.ints_per_neuron(cells)
        slots, cut = self.places.slots(length), self.places.hidden(length)
        new = torch.zeros(2, dtype=torch.int64, device=bits.device)
        for part in _parts(len(codes)):
            fresh = _walk_part(codes[part], none, slots[part].long() * width, bits, store)
            behind = max(0, cut - part.start)  # where in this part attention begins
            new[0] += fresh[:behind].sum()
            new[1] += fresh[behind:].sum()
        hidden, attention = new.tolist()
        return int(hidden), int(attention)

    def mask_codes(
        self, codes: Tensor, length: int, cells: int, keep_tokens: Tensor, keep_pairs: Tensor
    ) -> Tensor:
        keep = torch.cat([keep_tokens, keep_pairs.flatten(-2)], -1)  # of one text, or of several
        out = torch.empty_like(codes)
        keepers, none = self.places.keepers(length), no_cell(cells)
        for part in _parts(*codes.shape):
            kept = keep[..., keepers[part].long()] != 0
            out[..., part] = torch.where(kept, codes[..., part], none)
        return out

    def copy_touched(self, length: int, cells: int, source: Tensor, target: Tensor) -> None:
        width, slots = maps.ints_per_neuron(cells), self.places.slots(length)
        for part in _parts(len(slots)):
            index = slots[part].long()
            target.view(-1, width)[index] = source.view(-1, width)[index]

    def for_windows(self, cells: int) -> TorchKernels | None:
        needed = 2 * 4 * cells * self.layout.slots  # `first`, and a copy of it
        return self if needed <= spare_bytes(self.device, needed) else None

    def new_first(self, cells: int, bits: Tensor | None = None) -> Tensor:
        # A plane for each cell: neighbours often hit the same one, and then lie side by side.
        shape = (cells, self.layout.slots)
        first = torch.full(shape, NOBODY, dtype=torch.int32, device=self.device)
        if bits is not None:
            for cell, plane in enumerate(first):
                ints = bits.view(len(plane), -1)[:, cell >> 6]
                plane.masked_fill_((ints >> (cell & 63) & 1) != 0, -1)
        return first

    def add_first(self, codes: Tensor, length: int, numbers: Tensor, first: Tensor) -> None:
        for part in _parts(*codes.shape):
            known, index = self._cells(codes, length, part, first)
            # What is no cell is sent to its neuron's cell 0 with a number that changes nothing.
            source = torch.where(known, numbers[:, None], NOBODY)
            first.view(-1).scatter_reduce_(0, index.flatten(), source.flatten(), "amin")

    def count_first(self, first: Tensor, n: int) -> Tensor:
        cut = sum(site.slots for site in self.layout.sites if site.kind == "hidden")
        found = torch.zeros((2, n), dtype=torch.int64, device=first.device)
        for plane in first:  # one at a time: selecting takes several bytes for each number
            for counts, part in zip(found, (plane[:cut], plane[cut:]), strict=True):
                counts += torch.bincount(part[(part >= 0) & (part < n)], minlength=n)
        return found

    def count_later(self, codes: Tensor, length: int, numbers: Tensor, first: Tensor) -> Tensor:
        new = torch.zeros((2, len(codes)), dtype=torch.int64, device=codes.device)
        cut = self.places.hidden(length)
        for part in _parts(*codes.shape):
            known, index = self._cells(codes, length, part, first)
            later = known & (first.view(-1)[index] >= numbers[:, None])
            behind = max(0, cut - part.start)
            new[0] += later[:, :behind].sum(1)
            new[1] += later[:, behind:].sum(1)
        return new

    def _cells(
        self, codes: Tensor, length: int, part: slice, first: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return which codes of a part are cells, and where in `first` each of them is."""
        some, cells = codes[:, part], len(first)
        known = some < cells
        at = torch.where(known, some, 0).long() * first.shape[1]
        return known, at.add_(self.places.slots(length)[part])

    def store_first(self, first: Tensor, bits: Tensor) -> None:
        for cell, plane in enumerate(first):
            ints = bits.view(len(plane), -1)[:, cell >> 6]
            ints |= ((plane >= 0) & (plane < NOBODY)).to(bits.dtype) << (cell & 63)

    def new_bounds(self) -> Bounds:
        ends = (
            torch.full((self.layout.slots,), end, device=self.device)
            for end in (math.inf, -math.inf)
        )
        return Bounds(*ends)

    def new_maps(self, n: int, cells: int) -> Tensor:
        one = self.new_bits(cells)
        return torch.zeros((n, len(one)), dtype=one.dtype, device=self.device)

    def only_new(
        self, codes: Tensor, length: int, cells: int, which: Tensor, several: Tensor
    ) -> Tensor:
        none, width, out = no_cell(cells), maps.ints_per_neuron(cells), torch.empty_like(codes)
        own = which[:, None] * several.shape[1]
        for part in _parts(*codes.shape):
            places = self.places.slots(length)[part].long() * width + own
            fresh = _walk_part(codes[:, part], none, places, several.view(-1), store=True)
            out[:, part] = torch.where(fresh, codes[:, part], none)
        return out


def _by_map(bits: Tensor, block: Block, order: Order | None) -> Iterator[tuple[slice, Tensor]]:
    """Yield the texts of a batch that go to the same map, and that map."""
    if order is None:
        yield slice(None), bits
        return
    which, counts = torch.unique_consecutive(order.which[block.rows.long()], return_counts=True)
    start = 0
    for one, n in zip(which.tolist(), counts.tolist(), strict=True):
        yield slice(start, start + n), bits[one]
        start += n


def _counting(codes: Tensor, keep: Tensor | None) -> Tensor:
    """Return the codes with -1 for neurons that do not count."""
    return codes if keep is None else torch.where(keep[:, None] != 0, codes, -1)


def _store_all(codes: Tensor, target: Tensor) -> None:
    """Set the bits of all texts' codes [texts, ..., n] in integers [..., n, W]."""
    if target.shape[-1] == 1:
        bits = torch.where(codes >= 0, torch.ones_like(codes) << codes.clamp(min=0), 0)
        target |= _or_over_texts(bits.to(target.dtype))[..., None]
        return
    for text in codes:
        at = text.clamp(min=0)
        bit = torch.where(text >= 0, torch.ones_like(at) << (at & 63), 0).to(target.dtype)
        index = (at >> 6)[..., None]
        target.scatter_(-1, index, target.gather(-1, index) | bit[..., None])


def _or_over_texts(bits: Tensor) -> Tensor:
    """Unite the bits of all texts, pair by pair: torch has no `or` that reduces a dimension."""
    while bits.shape[0] > 1:
        half = bits.shape[0] // 2
        bits = torch.cat([bits[:half] | bits[half : 2 * half], bits[2 * half :]])
    return bits[0]


def _walk_part(codes: Tensor, none: int, places: Tensor, bits: Tensor, store: bool) -> Tensor:
    """Return where a code has a cell that is new; a text has one code for a neuron."""
    known = codes != none
    at = torch.where(known, codes, 0).to(torch.int64)
    index = places + (at >> 6)
    bit = torch.where(known, torch.ones_like(at) << (at & 63), 0)
    before = bits[index]
    if store:
        bits[index] = before | bit.to(bits.dtype)
    return known & ((before.to(torch.int64) & bit) == 0)


def _parts(*shape: int) -> Iterator[slice]:
    """Yield slices of the last dimension that hold about `PART` values."""
    *before, n = shape
    step = max(1, PART // max(1, math.prod(before)))
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


class Places:
    """Which neurons a text of some length touches; the lists used last are kept.

    One list serves all sites at once; a step for each site would take as long as the model.
    """

    def __init__(self, layout: Layout, device: torch.device) -> None:
        self.layout, self.device = layout, device
        self._kept: OrderedDict[tuple[str, int], Tensor] = OrderedDict()

    def hidden(self, length: int) -> int:
        """Return how many of a text's codes are of hidden states, which come first."""
        return sum(site.touched(length) for site in self.layout.sites if site.kind == "hidden")

    def slots(self, length: int) -> Tensor:
        """Return the slot of each of a text's codes."""

        def at(site: Site, part: slice) -> Tensor:
            every = torch.arange(part.start, part.stop, device=self.device).view(site.shape)
            return every[:, :length, : site.touched_columns(length)]

        return self._kept_or_made("slots", length, at)

    def keepers(self, length: int) -> Tensor:
        """Return the place of each of a text's codes in the bytes of its tokens and pairs."""

        def at(site: Site, part: slice) -> Tensor:
            position = torch.arange(length, device=self.device)[:, None]
            if site.kind == "attention":
                position = length + position * length + position.T
            return position.expand(site.groups, length, site.touched_columns(length))

        return self._kept_or_made("keepers", length, at)

    def _kept_or_made(self, what: str, length: int, at: Callable[[Site, slice], Tensor]) -> Tensor:
        found = self._kept.pop((what, length), None)
        if found is None:
            kind = torch.int32 if self.layout.slots < 2**31 else torch.int64
            found = torch.cat([at(*one).to(kind).flatten() for one in self.layout.spans()])
        self._kept[what, length] = found
        while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)
        return found


class MemoryStore:
    """Codes as tensors, where the model is."""

    def put(self, codes: Tensor, cells: int) -> Tensor:
        return codes

    def get(
        self, places: Sequence[Tensor], sizes: NDArray[np.int64], row: int, cells: int
    ) -> Tensor:
        return torch.cat([codes[row].flatten() for codes in places])

    def clear(self) -> None:
        """Do nothing: whoever forgets where codes are frees them."""

    def close(self) -> None:
        """Do nothing."""
