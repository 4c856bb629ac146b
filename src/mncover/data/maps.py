"""Coverage maps as flat NumPy arrays of bits: make, count, pack.

A map has one or more integers for each slot of a layout; bit c of a neuron's integers says that
its cell c was hit. No torch here, and no models.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.layout import Layout, Site
from mncover.data.limits import MAP
from mncover.errors import DataFileError
from mncover.types import brief

Bits = NDArray[Any]
SLAB = 2**18  # slots that are packed or unpacked at a time, a multiple of 8


def int_type(cells: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds the cells; beyond 64, integers of 64 bits."""
    if cells <= 16:
        return np.dtype(np.uint16)
    return np.dtype(np.uint32) if cells <= 32 else np.dtype(np.uint64)


def ints_per_neuron(cells: int) -> int:
    """Return how many integers a neuron needs.

    >>> ints_per_neuron(10), ints_per_neuron(64), ints_per_neuron(65)
    (1, 1, 2)
    """
    return -(-cells // 64)


def check_size(layout: Layout, cells: int) -> None:
    """Refuse maps that would fill the memory; the layout may come from a stranger."""
    size = layout.slots * ints_per_neuron(cells) * int_type(cells).itemsize
    MAP.check(size, f"bytes of a coverage map of {brief(layout.slots)} neurons")


def empty_map(layout: Layout, cells: int) -> Bits:
    """Return a map in which nothing was hit."""
    return np.zeros(layout.slots * ints_per_neuron(cells), dtype=int_type(cells))


def site_table(layout: Layout, cells: int) -> NDArray[np.int64]:
    """Return a row per site that tells the kernels where it is in a flat map.

    The columns: first integer, groups, integers from one row of neurons to the next, rows,
    columns, and 1 for attention, 2 for statistics of attention.
    """
    width = ints_per_neuron(cells)
    rows = [
        (part.start * width, s.groups, s.columns * width, s.rows, s.columns, _kind(s))
        for s, part in layout.spans()
    ]
    return np.array(rows, dtype=np.int64)


def _kind(site: Site) -> int:
    return 0 if site.kind == "hidden" else 1 if site.square else 2


def count_bits(bits: Bits, layout: Layout, cells: int) -> list[NDArray[np.int64]]:
    """Return, for each site, how many cells each of its groups (heads) has hit."""
    width = ints_per_neuron(cells)
    counts = []
    for site, part in layout.spans():
        block = bits[part.start * width : part.stop * width].reshape(site.groups, -1)
        if not block[0].nbytes % 8:  # several integers at once
            block = block.view(np.uint64)
        counts.append(np.bitwise_count(block).sum(axis=1, dtype=np.int64))
    return counts


def cells_in(bits: Bits, cells: int) -> NDArray[np.int64]:
    """Return the cells that a map has, counted through all neurons: slot * cells + cell.

    >>> cells_in(np.array([0, 5, 2], dtype=np.uint16), 10).tolist()
    [10, 12, 21]
    """
    width = ints_per_neuron(cells)
    places = np.flatnonzero(bits)
    codes = np.arange(min(cells, 64))
    hit = bits[places].astype(np.uint64)[:, None] >> codes.astype(np.uint64) & np.uint64(1)
    found, code = np.nonzero(hit)
    slots, part = np.divmod(places[found], width)
    counted: NDArray[np.int64] = slots * cells + part * 64 + code
    return counted


def pack(bits: Bits, cells: int) -> bytes:
    """Return a map as compressed bytes.

    With one integer per neuron the bits are turned into one plane per cell first: most planes
    are long runs of zeros, which compress far better than interleaved bits.
    """
    if ints_per_neuron(cells) > 1:
        return zlib.compress(bits.astype("<u8").tobytes(), 6)
    return zlib.compress(_planes(bits, cells).data, 6)


def _planes(bits: Bits, cells: int) -> NDArray[np.uint8]:
    """Return the bits of each cell [cells, bytes]; eight cells share a byte of the integers."""
    planes = np.empty((cells, -(-len(bits) // 8)), dtype=np.uint8)
    ordered = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
    by_byte = ordered.view(np.uint8).reshape(len(bits), bits.itemsize)
    for slots, part in _slabs(len(bits)):
        eights = np.ascontiguousarray(by_byte[slots].T)
        for cell in range(cells):
            planes[cell, part] = np.packbits(eights[cell // 8] & np.uint8(1 << cell % 8))
    return planes


def _slabs(slots: int) -> Iterator[tuple[slice, slice]]:
    """Yield the slots of pieces that fit into a processor's cache, and their part of a plane."""
    for start in range(0, slots, SLAB):
        yield slice(start, start + SLAB), slice(start // 8, (start + SLAB) // 8)


def unpack(data: bytes, layout: Layout, cells: int) -> Bits:
    """Return the map that `pack` made; the bytes may come from a stranger."""
    size = layout.slots * ints_per_neuron(cells)
    if ints_per_neuron(cells) > 1:
        return np.frombuffer(_inflate(data, size * 8), dtype="<u8").astype(int_type(cells))
    raw = _inflate(data, -(-size // 8) * cells)
    planes = np.frombuffer(raw, dtype=np.uint8).reshape(cells, -1)
    bits = np.zeros(size, dtype=int_type(cells))
    for slots, part in _slabs(size):
        slab = bits[slots]
        for cell, plane in enumerate(planes[:, part]):
            hit = np.unpackbits(plane, count=len(slab)).astype(bits.dtype)
            hit <<= bits.dtype.type(cell)
            slab |= hit
    return bits


def unpack_cropped(data: bytes, layout: Layout, cells: int, length: int) -> Bits:
    """Return the part of a packed map that texts of `length` tokens touch, in the cropped layout.

    Only one cell's plane is in memory at a time: a map made for long texts is large, even if those
    that were run are short.
    """
    small = layout.cropped(length)
    if small == layout or ints_per_neuron(cells) > 1:
        return crop(unpack(data, layout, cells), layout, cells, length)
    bits, size = empty_map(small, cells), -(-layout.slots // 8)
    for cell, raw in enumerate(_inflated(data, size, cells)):
        plane = np.frombuffer(raw, dtype=np.uint8)
        for (site, whole), (kept, part) in zip(layout.spans(), small.spans(), strict=True):
            target = bits[part].reshape(kept.shape)
            for group in range(site.groups):
                start = whole.start + group * site.rows * site.columns
                hit = _bits_of(plane, start, kept.rows * site.columns).reshape(kept.rows, -1)
                target[group] |= hit[:, : kept.columns].astype(bits.dtype) << bits.dtype.type(cell)
    return bits


def _bits_of(plane: NDArray[np.uint8], start: int, n: int) -> NDArray[np.uint8]:
    """Return n bits of a plane, one byte for each."""
    first = start // 8
    found = np.unpackbits(plane[first : -(-(start + n) // 8)])
    return found[start - 8 * first :][:n]


def crop(bits: Bits, layout: Layout, cells: int, length: int) -> Bits:
    """Return the part of a map that texts of `length` tokens touch, in the cropped layout."""
    small, width = layout.cropped(length), ints_per_neuron(cells)
    if small == layout:
        return bits
    parts = []
    for (site, whole), kept in zip(layout.spans(), small.sites, strict=True):
        block = bits[whole.start * width : whole.stop * width].reshape(*site.shape, width)
        parts.append(block[:, : kept.rows, : kept.columns].ravel())
    return np.concatenate(parts)


def _inflate(data: bytes, expected: int) -> bytes:
    """Decompress to exactly `expected` bytes, never allocating more than that."""
    (raw,) = _inflated(data, expected, 1)
    return raw


def _inflated(data: bytes, size: int, n: int) -> Iterator[bytes]:
    """Decompress to exactly n pieces of a size, one at a time."""
    decoder = zlib.decompressobj()
    for piece in range(n + 1):
        expected = size if piece < n else 0
        try:
            raw = decoder.decompress(data, expected or 1)
        except zlib.error as error:
            raise DataFileError(f"a coverage map in it cannot be decompressed ({error})") from error
        data = decoder.unconsumed_tail
        if len(raw) != expected or (piece == n and not decoder.eof):
            raise DataFileError("a coverage map in it does not have the size that its header gives")
        if raw:
            yield raw
