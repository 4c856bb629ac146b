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

from mncover.data.layout import Layout
from mncover.errors import DataFileError

Bits = NDArray[Any]


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


def empty_map(layout: Layout, cells: int) -> Bits:
    """Return a map in which nothing was hit."""
    return np.zeros(layout.slots * ints_per_neuron(cells), dtype=int_type(cells))


def site_table(layout: Layout, cells: int) -> NDArray[np.int64]:
    """Return a row per site that tells the kernels where it is in a flat map.

    The columns: first integer, groups, integers from one row of neurons to the next, rows,
    columns, 1 for attention.
    """
    width = ints_per_neuron(cells)
    rows = [
        (part.start * width, s.groups, s.columns * width, s.rows, s.columns, s.kind == "attention")
        for s, part in layout.spans()
    ]
    return np.array(rows, dtype=np.int64)


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


def pack(bits: Bits, cells: int) -> bytes:
    """Return a map as compressed bytes.

    With one integer per neuron the bits are turned into one plane per cell first: most planes
    are long runs of zeros, which compress far better than interleaved bits.
    """
    if ints_per_neuron(cells) > 1:
        return zlib.compress(bits.astype("<u8").tobytes(), 6)
    return zlib.compress(b"".join(plane.tobytes() for plane in _planes(bits, cells)), 6)


def _planes(bits: Bits, cells: int) -> Iterator[NDArray[np.uint8]]:
    """Yield the bits of each cell; eight cells share a byte, which is faster than the integers."""
    ordered = bits.astype(bits.dtype.newbyteorder("<"), copy=False)
    columns = ordered.view(np.uint8).reshape(len(bits), bits.itemsize)
    for first in range(0, cells, 8):
        column = np.ascontiguousarray(columns[:, first // 8])
        for cell in range(min(8, cells - first)):
            yield np.packbits(column & np.uint8(1 << cell))


def unpack(data: bytes, layout: Layout, cells: int) -> Bits:
    """Return the map that `pack` made; the bytes may come from a stranger."""
    size = layout.slots * ints_per_neuron(cells)
    if ints_per_neuron(cells) > 1:
        return np.frombuffer(_inflate(data, size * 8), dtype="<u8").astype(int_type(cells))
    plane_bytes = -(-size // 8)
    raw = _inflate(data, plane_bytes * cells)
    bits = np.zeros(size, dtype=int_type(cells))
    for c in range(cells):
        plane = np.frombuffer(raw, dtype=np.uint8, count=plane_bytes, offset=c * plane_bytes)
        bits |= np.unpackbits(plane, count=size).astype(bits.dtype) << bits.dtype.type(c)
    return bits


def _inflate(data: bytes, expected: int) -> bytes:
    """Decompress to exactly `expected` bytes, never allocating more than that."""
    decoder = zlib.decompressobj()
    try:
        raw = decoder.decompress(data, expected + 1)
    except zlib.error as error:
        raise DataFileError(f"a coverage map in it cannot be decompressed ({error})") from error
    if len(raw) != expected or not decoder.eof:
        raise DataFileError("a coverage map in it does not have the size that its header gives")
    return raw
