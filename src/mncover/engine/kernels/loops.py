"""From values to bins on the CPU: compiled loops over NumPy arrays, as base.py describes them.

Inner loops have no branches, so that the compiler vectorises them, and start at 0, because
with any other start every index is checked for being negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

# Kept on disk, so that a machine compiles once. "numpy" lets a division by zero give infinity.
# Without Python's lock, other threads go on.
_compiled: Callable[[F], F] = numba.njit(cache=True, error_model="numpy", nogil=True)
_inlined: Callable[[F], F] = numba.njit(cache=True, error_model="numpy", inline="always")

FLOAT32_MAX = float(np.finfo(np.float32).max)


@_inlined
def _bin(value: Any, low: Any, high: Any, bins: int) -> Any:
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
def widen(values: Any, low: Any, high: Any) -> bool:
    """Stretch the ranges so that they hold the values."""
    finite = True
    texts, groups, size = values.shape
    for g in range(groups):
        lo, hi = low[g], high[g]
        for t in range(texts):
            row = values[t, g]
            for i in range(size):
                v = row[i]
                lo[i] = v if v < lo[i] else lo[i]
                hi[i] = v if v > hi[i] else hi[i]
                finite &= abs(v) <= FLOAT32_MAX
    return finite


@_compiled
def hit(
    values: Any, low: Any, high: Any, bins: int, bits: Any, masked: Any = None, keep: Any = None
) -> bool:
    """Set the bit of every bin that a value falls into; in `masked`, only where `keep` is set."""
    finite = True
    texts, groups, _ = values.shape
    for g in range(groups):
        for t in range(texts):
            if masked is None:
                finite &= _hit_row(values[t, g], low[g], high[g], bins, bits[g])
            else:
                finite &= _hit_row(values[t, g], low[g], high[g], bins, bits[g], masked[g], keep[t])
    return finite


@_compiled
def _hit_row(
    row: Any, low: Any, high: Any, bins: int, bits: Any, masked: Any = None, keep: Any = None
) -> bool:
    """Do it for one text and group: [n]."""
    finite = True
    per_neuron = bits.size // row.size
    if per_neuron == 1:
        for i in range(row.size):
            code = _bin(row[i], low[i], high[i], bins)
            bit = np.int64(1) << code if code >= 0 else np.int64(0)
            bits[i] |= bit
            if masked is not None:
                masked[i] |= bit if keep[i] else np.int64(0)
            finite &= abs(row[i]) <= FLOAT32_MAX
        return finite
    for i in range(row.size):
        code = _bin(row[i], low[i], high[i], bins)
        finite &= abs(row[i]) <= FLOAT32_MAX
        if code >= 0:
            at, bit = i * per_neuron + (code >> 6), np.uint64(1) << np.uint64(code & 63)
            bits[at] |= bit
            if masked is not None:
                masked[at] |= bit if keep[i] else np.uint64(0)
    return finite


@_compiled
def encode(values: Any, low: Any, high: Any, bins: int, codes: Any, none: int) -> bool:
    """Write the bin of every value, or `none`, into `codes` [texts, groups, n]."""
    finite = True
    texts, groups, size = values.shape
    for g in range(groups):
        lo, hi = low[g], high[g]
        for t in range(texts):
            row, out = values[t, g], codes[t, g]
            for i in range(size):
                code = _bin(row[i], lo[i], hi[i], bins)
                out[i] = code if code >= 0 else none
                finite &= abs(row[i]) <= FLOAT32_MAX
    return finite


# How values become marks, for codings that ask whether a value lies outside or above.
BOTH_SIDES, TOO_HIGH, ABOVE = 0, 1, 2


@_compiled
def mark(values: Any, low: Any, high: Any, mode: int, threshold: float, bits: Any) -> bool:
    """Set the bits of values below or above their range, or above a threshold."""
    finite = True
    texts, groups, size = values.shape
    for g in range(groups):
        lo, hi, out = low[g], high[g], bits[g]
        for t in range(texts):
            row = values[t, g]
            if mode == BOTH_SIDES:
                for i in range(size):
                    under, over = row[i] < lo[i], row[i] > hi[i]
                    bit = np.uint16(under) | (np.uint16(over) << np.uint16(1))
                    out[i] |= bit if lo[i] <= hi[i] else np.uint16(0)
                    finite &= abs(row[i]) <= FLOAT32_MAX
            elif mode == TOO_HIGH:
                for i in range(size):
                    out[i] |= np.uint16((row[i] > hi[i]) & (lo[i] <= hi[i]))
                    finite &= abs(row[i]) <= FLOAT32_MAX
            else:
                for i in range(size):
                    out[i] |= np.uint16(row[i] > threshold)
                    finite &= abs(row[i]) <= FLOAT32_MAX
    return finite


@_compiled
def encode_marks(
    values: Any, low: Any, high: Any, mode: int, threshold: float, codes: Any, none: int
) -> bool:
    """Write the cell of every such value, or `none`, into `codes` [texts, groups, n]."""
    finite = True
    texts, groups, size = values.shape
    for g in range(groups):
        lo, hi = low[g], high[g]
        for t in range(texts):
            row, out = values[t, g], codes[t, g]
            if mode == BOTH_SIDES:
                for i in range(size):
                    outside = 1 if row[i] > hi[i] else 0 if row[i] < lo[i] else none
                    out[i] = outside if lo[i] <= hi[i] else none
                    finite &= abs(row[i]) <= FLOAT32_MAX
            elif mode == TOO_HIGH:
                for i in range(size):
                    out[i] = 0 if (row[i] > hi[i]) & (lo[i] <= hi[i]) else none
                    finite &= abs(row[i]) <= FLOAT32_MAX
            else:
                for i in range(size):
                    out[i] = 0 if row[i] > threshold else none
                    finite &= abs(row[i]) <= FLOAT32_MAX
    return finite


@_compiled
def scale(values: Any, out: Any) -> None:
    """Scale the values of each text [texts, n] to 0..1 between their least and their largest."""
    texts, size = values.shape
    for t in range(texts):
        row, to = values[t], out[t]
        least, most = row[0], row[0]
        for i in range(size):
            least = row[i] if row[i] < least else least
            most = row[i] if row[i] > most else most
        start, span = np.float64(least), np.float64(most) - np.float64(least)
        span = span if span != 0 else 1.0
        for i in range(size):
            to[i] = (np.float64(row[i]) - start) / span


@_compiled
def top(values: Any, k: int, out: Any) -> None:
    """Write 1 for the k largest values of each row [rows, n], and all as large; 0 for others."""
    rows, size = values.shape
    best = np.empty(k, dtype=values.dtype)
    for r in range(rows):
        row, to = values[r], out[r]
        best[:] = -np.inf
        for i in range(size):
            v = row[i]
            if v > best[k - 1]:
                at = k - 1
                while at > 0 and best[at - 1] < v:
                    best[at] = best[at - 1]
                    at -= 1
                best[at] = v
        least = best[k - 1]
        for i in range(size):
            # What is not finite stays so, to be found.
            to[i] = row[i] - row[i] + (1.0 if row[i] >= least else 0.0)


@_compiled
def pack_halves(codes: Any, packed: Any) -> None:
    """Put rows of codes below 16 two in a byte: [rows, n] into [rows, (n + 1) // 2]."""
    rows, size = codes.shape
    half = packed.shape[1]
    for r in range(rows):
        first, second, out = codes[r, :half], codes[r, half:], packed[r]
        for i in range(size - half):
            out[i] = (first[i] & np.uint8(15)) | (second[i] << np.uint8(4))
        if size < 2 * half:
            out[half - 1] = first[half - 1] & np.uint8(15)


@_compiled
def unpack_halves(packed: Any, sizes: Any, codes: Any) -> None:
    """Undo `pack_halves` for one row of each of several sites, which lie one after the other.

    `sizes` has the number of codes of each. 15, which no bin has there, becomes "no bin", 255.
    """
    at, end = 0, 0
    for size in sizes:
        half = (size + 1) // 2
        site, first, second = packed[at : at + half], codes[end:], codes[end + half :]
        for i in range(half):
            code = site[i] & np.uint8(15)
            first[i] = code if code != 15 else 255
        for i in range(size - half):
            code = site[i] >> np.uint8(4)
            second[i] = code if code != 15 else 255
        at += half
        end += size


# The two below take one text's codes for all sites, [touched slots], one site after the other,
# and a whole flat map. `table` is `maps.site_table`: first integer, groups, integers from a row of
# neurons to the next, rows, columns, and 1 for attention, 2 for its statistics.


@_compiled
def _new_bits(codes: Any, none: int, row_bits: Any, per_neuron: int, store: bool) -> int:
    """Count the codes of one row whose bit is not set in `row_bits`; `store` sets them."""
    new = 0
    for i in range(codes.size):
        code = np.int64(codes[i])
        if code != none:
            at = i * per_neuron + (code >> 6)
            bit = np.uint64(1) << np.uint64(code & 63)
            if np.uint64(row_bits[at]) & bit == 0:
                new += 1
                if store:
                    row_bits[at] |= bit
    return new


@_compiled
def _new_bits_narrow(codes: Any, none: int, row_bits: Any, store: bool) -> int:
    """Do the same for one integer per neuron, vectorised."""
    new = 0
    for i in range(codes.size):
        bit = np.int64(1) << np.int64(codes[i]) if codes[i] != none else np.int64(0)
        new += (bit & ~np.int64(row_bits[i])) != 0
        if store:
            row_bits[i] |= bit
    return new


@_compiled
def walk(
    codes: Any, none: int, table: Any, length: int, per_neuron: int, bits: Any, store: bool
) -> tuple[int, int]:
    """Return how many hidden and attention bins of one text are new; `store` adds them."""
    new_hidden, new_attention, at = 0, 0, 0
    for first, groups, stride, rows, columns, attention in table:
        width = length if attention == 1 else columns
        new = 0
        for g in range(groups):
            for t in range(length):
                start = first + (g * rows + t) * stride
                row_bits = bits[start : start + width * per_neuron]
                row = codes[at : at + width]
                if per_neuron == 1:
                    new += _new_bits_narrow(row, none, row_bits, store)
                else:
                    new += _new_bits(row, none, row_bits, per_neuron, store)
                at += width
        if attention:
            new_attention += new
        else:
            new_hidden += new
    return new_hidden, new_attention


@_compiled
def walk_cells(
    codes: Any,
    none: int,
    table: Any,
    length: int,
    per_neuron: int,
    cells: int,
    bits: Any,
    found: Any,
) -> int:
    """Add one text to a map; write the cells that are new to `found` and return how many."""
    n, at = 0, 0
    for first, groups, stride, rows, columns, attention in table:
        width = length if attention == 1 else columns
        for g in range(groups):
            for t in range(length):
                start = first + (g * rows + t) * stride
                for i in range(width):
                    code = np.int64(codes[at + i])
                    if code != none:
                        place = start + i * per_neuron + (code >> 6)
                        bit = np.uint64(1) << np.uint64(code & 63)
                        if np.uint64(bits[place]) & bit == 0:
                            bits[place] |= bit
                            found[n] = (start // per_neuron + i) * cells + code
                            n += 1
                at += width
    return n


@_compiled
def add_cells(
    given: Any, counts: Any, cells: int, attention: Any, bits: Any, new: Any, kept: Any
) -> int:
    """Add cells, `counts` of each text after the other, to a map; return how many are new.

    `new` [2, texts] counts those of hidden states and of attention, and `kept` gets them.
    """
    per_neuron = -(-cells // 64)
    n, at = 0, 0
    for text in range(counts.size):
        for _ in range(counts[text]):
            slot = np.int64(given[at]) // cells
            code = np.int64(given[at]) - slot * cells
            place = slot * per_neuron + (code >> 6)
            bit = np.uint64(1) << np.uint64(code & 63)
            if np.uint64(bits[place]) & bit == 0:
                bits[place] |= bit
                new[attention[slot], text] += 1
                kept[n] = given[at]
                n += 1
            at += 1
    return n


@_compiled
def mask_codes(
    codes: Any, none: int, table: Any, length: int, keep_tokens: Any, keep_pairs: Any, out: Any
) -> None:
    """Copy one text's codes to `out`, with `none` for neurons of tokens and pairs not kept.

    `keep_tokens` [T] and `keep_pairs` [T, T] hold 1 or 0.
    """
    at = 0
    for _, groups, _, _, columns, attention in table:
        width = length if attention == 1 else columns
        for _ in range(groups):
            for t in range(length):
                source, target, pairs = codes[at : at + width], out[at : at + width], keep_pairs[t]
                if attention == 1:
                    for i in range(width):
                        target[i] = source[i] if pairs[i] else none
                elif keep_tokens[t]:
                    target[:] = source
                else:
                    target[:] = none
                at += width


@_compiled
def copy_touched(table: Any, length: int, per_neuron: int, source: Any, target: Any) -> None:
    """Copy the part of a map that a text of `length` tokens can touch."""
    for first, groups, stride, rows, columns, attention in table:
        width = (length if attention == 1 else columns) * per_neuron
        for g in range(groups):
            for t in range(length):
                start = first + (g * rows + t) * stride
                target[start : start + width] = source[start : start + width]
