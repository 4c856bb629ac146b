"""From values to bins with plain torch operations, on any device.

The same functions as in `bins.py`, for tensors instead of arrays; see there for the shapes.
Words are signed integers here, because torch has few operations on unsigned ones: only their
bits matter. This is the path of CUDA models, and the second opinion on the compiled loops.
"""

from __future__ import annotations

import torch
from torch import Tensor


def none_code(codes: Tensor) -> int:
    """Return the code that stands for "no bin" in a tensor of codes: its largest number."""
    return torch.iinfo(codes.dtype).max


def _bins_of(values: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    """Return the bin of every value, or -1: the definition, in double precision."""
    rows, columns = values.shape[2:]
    v = values.double()
    lo, hi = low[:, :rows, :columns].double(), high[:, :rows, :columns].double()
    span = torch.where(hi > lo, hi - lo, 1.0)
    codes = ((v - lo) / span * bins).to(torch.int64).clamp(max=bins - 1)
    return torch.where((v >= lo) & (v <= hi), codes, -1)


def _per_neuron(words: Tensor, rows: int, columns: int, per_neuron: int) -> Tensor:
    """View the touched part of a site's words as [groups, T, columns, words per neuron]."""
    return words.unflatten(2, (-1, per_neuron))[:, :rows, :columns]


def _unseen(codes: Tensor, words: Tensor) -> Tensor:
    """Return where a code [..., columns] has a bin whose bit in words [..., columns, W] is 0."""
    at = codes.clamp(min=0)
    word = words.expand(*codes.shape, words.shape[-1]).gather(-1, (at >> 6)[..., None])[..., 0]
    return (codes >= 0) & ((word.to(torch.int64) >> (at & 63)) & 1 == 0)


def _store(codes: Tensor, words: Tensor) -> None:
    """Set the bits of one text's codes [groups, T, columns] in words [groups, T, columns, W]."""
    at = codes.clamp(min=0)
    bit = torch.where(codes >= 0, torch.ones_like(at) << (at & 63), 0).to(words.dtype)
    index = (at >> 6)[..., None]
    words.scatter_(-1, index, words.gather(-1, index) | bit[..., None])


def widen(values: Tensor, low: Tensor, high: Tensor, causal: bool) -> bool:
    """Stretch the ranges so that they hold the values; in `causal` attention only column <= row."""
    rows, columns = values.shape[2:]
    least, most = values.amin(0), values.amax(0)
    finite = bool(torch.isfinite(least).all() & torch.isfinite(most).all())
    if causal:
        future = torch.ones(rows, columns, dtype=torch.bool, device=values.device).triu(1)
        least = least.masked_fill(future, float("inf"))
        most = most.masked_fill(future, float("-inf"))
    lo, hi = low[:, :rows, :columns], high[:, :rows, :columns]
    torch.minimum(lo, least, out=lo)
    torch.maximum(hi, most, out=hi)
    return finite


def hit(values: Tensor, low: Tensor, high: Tensor, bins: int, words: Tensor) -> bool:
    """Set the bit of every bin that a value falls into."""
    rows, columns = values.shape[2:]
    target = _per_neuron(words, rows, columns, words.shape[2] // low.shape[2])
    codes = _bins_of(values, low, high, bins)
    if target.shape[-1] == 1:
        bits = torch.where(codes >= 0, torch.ones_like(codes) << codes.clamp(min=0), 0)
        target |= _or_over_texts(bits.to(words.dtype))[..., None]
    else:
        for text in codes:
            _store(text, target)
    return bool(torch.isfinite(values).all())


def _or_over_texts(bits: Tensor) -> Tensor:
    """Unite the bits of all texts by halving: torch has no `or` that reduces a dimension."""
    while bits.shape[0] > 1:
        half = bits.shape[0] // 2
        rest = bits[2 * half :]
        bits = torch.cat([bits[:half] | bits[half : 2 * half], rest])
    return bits[0]


def novel(
    values: Tensor, low: Tensor, high: Tensor, bins: int, words: Tensor, counts: Tensor
) -> bool:
    """Add to `counts` how many bins each text would hit that no bit in `words` shows yet."""
    rows, columns = values.shape[2:]
    known = _per_neuron(words, rows, columns, words.shape[2] // low.shape[2])
    counts += _unseen(_bins_of(values, low, high, bins), known).sum(dim=(1, 2, 3))
    return bool(torch.isfinite(values).all())


def encode(
    values: Tensor, low: Tensor, high: Tensor, bins: int, codes: Tensor, none: int
) -> bool:
    """Write the bin of every value, or `none`, into `codes` [texts, groups, T, columns]."""
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
        known = _per_neuron(site, length, width, per_neuron)
        new[attention] += _unseen(block, known).sum()
        if store:
            _store(block, known)
        at += block.numel()
    hidden, attention = new.tolist()
    return int(hidden), int(attention)


def copy_touched(
    table: Tensor, length: int, per_neuron: int, source: Tensor, target: Tensor
) -> None:
    """Copy the part of a map that a text of `length` tokens can touch."""
    for first, groups, stride, rows, columns, attention in table.tolist():
        width = (length if attention else columns) * per_neuron
        part = slice(first, first + groups * rows * stride)
        view = target[part].view(groups, rows, stride)[:, :length, :width]
        view.copy_(source[part].view(groups, rows, stride)[:, :length, :width])
