"""From values to bins with plain torch operations, on any device.

The same functions as in `bins.py`, for tensors instead of arrays; see there for the shapes.
Words are signed integers here, because torch has few operations on unsigned ones: only their
bits matter. This is the path of CUDA models, and the second opinion on the compiled loops.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

KEPT_BYTES = 2**28  # for the places that texts of some lengths touch
PART = 2**22  # so many codes of a text at a time: each needs some 50 bytes meanwhile


def _bins_of(values: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    """Return the bin of every value, or -1: the definition, in double precision."""
    v, lo, hi = values.double(), low.double(), high.double()
    span = torch.where(hi > lo, hi - lo, 1.0)
    codes = ((v - lo) / span * bins).to(torch.int64).clamp(max=bins - 1)
    return torch.where((v >= lo) & (v <= hi), codes, -1)


def _unseen(codes: Tensor, words: Tensor) -> Tensor:
    """Return where a code [..., n] has a bin whose bit in words [..., n, W] is 0."""
    at = codes.clamp(min=0)
    word = words.expand(*codes.shape, words.shape[-1]).gather(-1, (at >> 6)[..., None])[..., 0]
    return (codes >= 0) & ((word.to(torch.int64) >> (at & 63)) & 1 == 0)


def widen(values: Tensor, low: Tensor, high: Tensor) -> bool:
    """Stretch the ranges so that they hold the values."""
    least, most = values.amin(0), values.amax(0)
    torch.minimum(low, least, out=low)
    torch.maximum(high, most, out=high)
    return bool(torch.isfinite(least).all() & torch.isfinite(most).all())


def hit(
    values: Tensor,
    low: Tensor,
    high: Tensor,
    bins: int,
    words: Tensor,
    masked: Tensor | None = None,
    keep: Tensor | None = None,
) -> bool:
    """Set the bit of every bin that a value falls into; in `masked`, only where `keep` is 1."""
    codes = _bins_of(values, low, high, bins)
    _store_all(codes, words.view(*low.shape, -1))
    if masked is not None and keep is not None:
        _store_all(torch.where(keep[:, None] != 0, codes, -1), masked.view(*low.shape, -1))
    return bool(torch.isfinite(values).all())


def _store_all(codes: Tensor, target: Tensor) -> None:
    """Set the bits of all texts' codes [texts, ..., n] in words [..., n, W]."""
    if target.shape[-1] == 1:
        bits = torch.where(codes >= 0, torch.ones_like(codes) << codes.clamp(min=0), 0)
        target |= _or_over_texts(bits.to(target.dtype))[..., None]
    else:
        for text in codes:
            at = text.clamp(min=0)
            bit = torch.where(text >= 0, torch.ones_like(at) << (at & 63), 0).to(target.dtype)
            index = (at >> 6)[..., None]
            target.scatter_(-1, index, target.gather(-1, index) | bit[..., None])


def _or_over_texts(bits: Tensor) -> Tensor:
    """Unite the bits of all texts by halving: torch has no `or` that reduces a dimension."""
    while bits.shape[0] > 1:
        half = bits.shape[0] // 2
        rest = bits[2 * half :]
        bits = torch.cat([bits[:half] | bits[half : 2 * half], rest])
    return bits[0]


def novel(
    values: Tensor,
    low: Tensor,
    high: Tensor,
    bins: int,
    words: Tensor,
    counts: Tensor,
    keep: Tensor | None = None,
) -> bool:
    """Add to `counts` how many bins each text would hit that no bit in `words` shows yet."""
    fresh = _unseen(_bins_of(values, low, high, bins), words.view(*low.shape, -1))
    if keep is not None:
        fresh &= keep[:, None] != 0
    counts += fresh.sum(dim=(1, 2))
    return bool(torch.isfinite(values).all())


def encode(values: Tensor, low: Tensor, high: Tensor, bins: int, codes: Tensor, none: int) -> bool:
    """Write the bin of every value, or `none`, into `codes` [texts, groups, n]."""
    found = _bins_of(values, low, high, bins)
    codes.copy_(torch.where(found >= 0, found, none))
    return bool(torch.isfinite(values).all())


class SiteTable:
    """Where sites lie in a flat map, and what of it a text of some length touches.

    `rows` is `maps.site_table`. One list of places serves all sites at once, where a step for each
    site would take as long as the model itself; the lists used last are kept.
    """

    def __init__(self, rows: NDArray[np.int64], device: torch.device) -> None:
        self.rows: list[list[int]] = rows.tolist()
        self.device = device
        words = max(first + groups * stride * n for first, groups, stride, n, _, _ in self.rows)
        self.kind = torch.int32 if words < 2**31 else torch.int64
        self._kept: OrderedDict[tuple[str, int], Tensor] = OrderedDict()

    def hidden(self, length: int) -> int:
        """Return how many of a text's codes are of hidden states, which come first."""
        sizes = [
            groups * columns for _, groups, _, _, columns, attention in self.rows if not attention
        ]
        return sum(sizes) * length

    def places(self, length: int, per_neuron: int) -> Tensor:
        """Return the first word of the neuron of each of a text's codes."""

        def at(row: list[int]) -> Tensor:
            first, groups, stride, rows, columns, attention = row
            group, position = self._range(groups), self._range(length)
            column = self._range(length if attention else columns)
            start = first + group[:, None, None] * rows * stride + position[:, None] * stride
            return start + column * per_neuron

        return self._kept_or_made("places", length, at)

    def keepers(self, length: int) -> Tensor:
        """Return the place of each of a text's codes in the bytes of its words and pairs."""

        def at(row: list[int]) -> Tensor:
            _, groups, _, _, columns, attention = row
            position, column = self._range(length)[:, None], self._range(columns)
            if attention:
                found = length + position * length + self._range(length)
            else:
                found = position + 0 * column
            return found.expand(groups, -1, -1)

        return self._kept_or_made("keepers", length, at)

    def _range(self, n: int) -> Tensor:
        return torch.arange(n, device=self.device)

    def _kept_or_made(self, what: str, length: int, at: Callable[[list[int]], Tensor]) -> Tensor:
        found = self._kept.pop((what, length), None)
        if found is None:
            found = torch.cat([at(row).to(self.kind).flatten() for row in self.rows])
        self._kept[what, length] = found
        while len(self._kept) > 1 and sum(one.nbytes for one in self._kept.values()) > KEPT_BYTES:
            self._kept.popitem(last=False)
        return found


def walk(
    codes: Tensor,
    none: int,
    table: SiteTable,
    length: int,
    per_neuron: int,
    words: Tensor,
    store: bool,
) -> tuple[int, int]:
    """Return how many hidden and attention bins of one text are new; `store` adds them."""
    places, cut = table.places(length, per_neuron), table.hidden(length)
    new = torch.zeros(2, dtype=torch.int64, device=words.device)
    for part in _parts(len(codes)):
        fresh = _walk_part(codes[part], none, places[part], words, store)
        behind = max(0, cut - part.start)  # where in this part attention begins
        new[0] += fresh[:behind].sum()
        new[1] += fresh[behind:].sum()
    hidden, attention = new.tolist()
    return int(hidden), int(attention)


def _walk_part(codes: Tensor, none: int, places: Tensor, words: Tensor, store: bool) -> Tensor:
    """Return where a code has a bin that is new; a text has one code for a neuron."""
    known = codes != none
    at = torch.where(known, codes, 0).to(torch.int64)
    index = places + (at >> 6)
    bit = torch.where(known, torch.ones_like(at) << (at & 63), 0)
    before = words[index]
    if store:
        words[index] = before | bit.to(words.dtype)
    return known & ((before.to(torch.int64) & bit) == 0)


def _parts(n: int) -> Iterator[slice]:
    return (slice(start, min(n, start + PART)) for start in range(0, n, PART))


def mask_codes(
    codes: Tensor,
    none: int,
    table: SiteTable,
    length: int,
    keep_words: Tensor,
    keep_pairs: Tensor,
    out: Tensor,
) -> None:
    """Copy one text's codes to `out`, with `none` for neurons of words and pairs not kept."""
    keep = torch.cat([keep_words.flatten(), keep_pairs.flatten()])
    keepers = table.keepers(length)
    for part in _parts(len(codes)):
        out[part] = torch.where(keep[keepers[part].long()] != 0, codes[part], none)


def copy_touched(
    table: SiteTable, length: int, per_neuron: int, source: Tensor, target: Tensor
) -> None:
    """Copy the part of a map that a text of `length` tokens can touch."""
    every = torch.arange(per_neuron, device=target.device)
    places = table.places(length, per_neuron)
    for part in _parts(len(places)):
        index = (places[part, None] + every).flatten()
        target[index] = source[index]
