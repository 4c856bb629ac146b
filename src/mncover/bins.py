"""From values to bins on the CPU: compiled loops over NumPy arrays, and nothing else.

Every function takes the values of one site for a batch of equally long texts,

    values  [texts, groups, T, columns]   float32

and the site's part of the flat arrays,

    low, high  [groups, rows, columns]      float32; a neuron without range has low > high
    words      [groups, rows, columns * W]  W words of bits a neuron, bit b = bin b was hit

`bins_torch.py` has the same functions for tensors on any device. All but the first return
whether every value was finite; what they did with a value that is not is unspecified.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

# Kept on disk, so that a machine compiles once. "numpy" lets a division by zero give infinity.
_compiled = numba.njit(cache=True, error_model="numpy")
_inlined = numba.njit(cache=True, error_model="numpy", inline="always")

FLOAT32_MAX = float(np.finfo(np.float32).max)


def none_code(codes: Any) -> int:
    """Return the code that stands for "no bin" in an array of codes: its largest number."""
    return int(np.iinfo(codes.dtype).max)


@_inlined
def _bin(value, low, high, bins):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the bin of one value, or -1: the definition, in double precision.

    The span of a neuron that never varied is 0; with 1 in its place its value falls in bin 0.
    """
    v, lo, hi = np.float64(value), np.float64(low), np.float64(high)
    inside = (v >= lo) & (v <= hi)
    span = hi - lo if hi > lo else 1.0
    position = (v - lo) / span * bins if inside else 0.0
    code = min(np.int64(position), np.int64(bins - 1))
    return code if inside else np.int64(-1)


@_compiled
def widen(values: Any, low: Any, high: Any, causal: bool) -> bool:
    """Stretch the ranges so that they hold the values; in `causal` attention only column <= row."""
    finite = True
    texts, groups, rows, columns = values.shape
    for g in range(groups):
        for t in range(rows):
            end = t + 1 if causal else columns
            lo, hi = low[g, t], high[g, t]
            for n in range(texts):
                row = values[n, g, t]
                for c in range(end):
                    v = row[c]
                    lo[c] = v if v < lo[c] else lo[c]
                    hi[c] = v if v > hi[c] else hi[c]
                    finite &= abs(v) <= FLOAT32_MAX
    return finite


@_compiled
def hit(values: Any, low: Any, high: Any, bins: int, words: Any) -> bool:
    """Set the bit of every bin that a value falls into."""
    finite = True
    texts, groups, rows, columns = values.shape
    per_neuron = words.shape[2] // low.shape[2]
    for g in range(groups):
        for t in range(rows):
            lo, hi, word = low[g, t], high[g, t], words[g, t]
            for n in range(texts):
                row = values[n, g, t]
                if per_neuron == 1:  # a loop without branches, which the compiler vectorises
                    for c in range(columns):
                        code = _bin(row[c], lo[c], hi[c], bins)
                        word[c] |= np.int64(1) << code if code >= 0 else np.int64(0)
                        finite &= abs(row[c]) <= FLOAT32_MAX
                else:
                    for c in range(columns):
                        code = _bin(row[c], lo[c], hi[c], bins)
                        if code >= 0:
                            word[c * per_neuron + (code >> 6)] |= np.uint64(1) << np.uint64(code & 63)
                        finite &= abs(row[c]) <= FLOAT32_MAX
    return finite


@_compiled
def novel(values: Any, low: Any, high: Any, bins: int, words: Any, counts: Any) -> bool:
    """Add to `counts` how many bins each text would hit that no bit in `words` shows yet."""
    finite = True
    texts, groups, rows, columns = values.shape
    per_neuron = words.shape[2] // low.shape[2]
    for g in range(groups):
        for t in range(rows):
            lo, hi, word = low[g, t], high[g, t], words[g, t]
            for n in range(texts):
                row = values[n, g, t]
                new = 0
                for c in range(columns):
                    code = _bin(row[c], lo[c], hi[c], bins)
                    at = max(code, 0)
                    seen = np.int64(word[c * per_neuron + (at >> 6)]) >> (at & 63)
                    new += (code >= 0) & ((seen & 1) == 0)
                    finite &= abs(row[c]) <= FLOAT32_MAX
                counts[n] += new
    return finite


@_compiled
def encode(values: Any, low: Any, high: Any, bins: int, codes: Any, none: int) -> bool:
    """Write the bin of every value, or `none`, into `codes` [texts, groups, T, columns]."""
    finite = True
    texts, groups, rows, columns = values.shape
    for g in range(groups):
        for t in range(rows):
            lo, hi = low[g, t], high[g, t]
            for n in range(texts):
                row, out = values[n, g, t], codes[n, g, t]
                for c in range(columns):
                    code = _bin(row[c], lo[c], hi[c], bins)
                    out[c] = code if code >= 0 else none
                    finite &= abs(row[c]) <= FLOAT32_MAX
    return finite


# The three below take one text's codes for all sites, [touched slots], one site after the
# other, and a whole flat map. `table` has a row per site: first word, groups, words from one
# row of neurons to the next, rows, columns, and 1 for attention.


@_compiled
def _new_bits(codes: Any, none: int, word: Any, per_neuron: int, store: bool) -> int:
    """Count the codes of one row whose bit is not set in `word`; `store` sets them."""
    new = 0
    for c in range(codes.size):
        code = np.int64(codes[c])
        if code != none:
            at = c * per_neuron + (code >> 6)
            bit = np.uint64(1) << np.uint64(code & 63)
            if np.uint64(word[at]) & bit == 0:
                new += 1
                if store:
                    word[at] |= bit
    return new


@_compiled
def _new_bits_narrow(codes: Any, none: int, word: Any, store: bool) -> int:
    """Do the same for one word a neuron, without branches, which the compiler vectorises."""
    new = 0
    for c in range(codes.size):
        bit = np.int64(1) << np.int64(codes[c]) if codes[c] != none else np.int64(0)
        new += (bit & ~np.int64(word[c])) != 0
        if store:
            word[c] |= bit
    return new


@_compiled
def walk(
    codes: Any, none: int, table: Any, length: int, per_neuron: int, words: Any, store: bool
) -> tuple[int, int]:
    """Return how many hidden and attention bins of one text are new; `store` adds them."""
    new_hidden, new_attention, at = 0, 0, 0
    for first, groups, stride, rows, columns, attention in table:
        width = length if attention else columns
        new = 0
        for g in range(groups):
            for t in range(length):
                start = first + (g * rows + t) * stride
                word = words[start : start + width * per_neuron]
                row = codes[at : at + width]
                if per_neuron == 1:
                    new += _new_bits_narrow(row, none, word, store)
                else:
                    new += _new_bits(row, none, word, per_neuron, store)
                at += width
        if attention:
            new_attention += new
        else:
            new_hidden += new
    return new_hidden, new_attention


@_compiled
def copy_touched(table: Any, length: int, per_neuron: int, source: Any, target: Any) -> None:
    """Copy the part of a map that a text of `length` tokens can touch."""
    for first, groups, stride, rows, columns, attention in table:
        width = (length if attention else columns) * per_neuron
        for g in range(groups):
            for t in range(length):
                start = first + (g * rows + t) * stride
                target[start : start + width] = source[start : start + width]
