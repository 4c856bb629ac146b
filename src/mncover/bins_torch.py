"""From values to bins with plain torch operations, on any device.

The same functions as in `bins.py`, for tensors instead of arrays; see there for the shapes.
Words are signed integers here, because torch has few operations on unsigned ones: only their
bits matter. This is the path of CUDA models, and the second opinion on the compiled loops.
"""

from __future__ import annotations

import torch
from torch import Tensor


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


def _store(codes: Tensor, words: Tensor) -> None:
    """Set the bits of one text's codes [..., n] in words [..., n, W]."""
    at = codes.clamp(min=0)
    bit = torch.where(codes >= 0, torch.ones_like(at) << (at & 63), 0).to(words.dtype)
    index = (at >> 6)[..., None]
    words.scatter_(-1, index, words.gather(-1, index) | bit[..., None])


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
            _store(text, target)


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


def walk(
    codes: Tensor,
    none: int,
    table: Tensor,
    length: int,
    per_neuron: int,
    words: Tensor,
    store: bool,
) -> tuple[int, int]:
    """Return how many hidden and attention bins of one text are new; `store` adds them."""
    new = torch.zeros(2, dtype=torch.int64, device=words.device)
    at = 0
    for first, groups, stride, rows, columns, attention in table.tolist():
        width = length if attention else columns
        block = codes[at : at + groups * length * width].view(groups, length, width)
        block = torch.where(block == none, -1, block.to(torch.int64))
        site = words[first : first + groups * rows * stride].view(groups, rows, stride)
        known = site.view(groups, rows, -1, per_neuron)[:, :length, :width]
        new[attention] += _unseen(block, known).sum()
        if store:
            _store(block, known)
        at += block.numel()
    hidden, attention = new.tolist()
    return int(hidden), int(attention)


def mask_codes(
    codes: Tensor,
    none: int,
    table: Tensor,
    length: int,
    keep_words: Tensor,
    keep_pairs: Tensor,
    out: Tensor,
) -> None:
    """Copy one text's codes to `out`, with `none` for neurons of words and pairs not kept."""
    at = 0
    for _, groups, _, _, columns, attention in table.tolist():
        width = length if attention else columns
        part = slice(at, at + groups * length * width)
        block = codes[part].view(groups, length, width)
        keep = keep_pairs if attention else keep_words[:, None]
        out[part] = torch.where(keep != 0, block, none).flatten()
        at = part.stop


def copy_touched(
    table: Tensor, length: int, per_neuron: int, source: Tensor, target: Tensor
) -> None:
    """Copy the part of a map that a text of `length` tokens can touch."""
    for first, groups, stride, rows, columns, attention in table.tolist():
        width = (length if attention else columns) * per_neuron
        part = slice(first, first + groups * rows * stride)
        view = target[part].view(groups, rows, stride)[:, :length, :width]
        view.copy_(source[part].view(groups, rows, stride)[:, :length, :width])
