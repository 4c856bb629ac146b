"""Coverage maps as flat NumPy arrays of bits: make, unite, count, pack.

A map has W words for each slot of a layout; bit b of a neuron's words says that bin b was
hit. This file belongs to the reading half: it knows neither torch nor models.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.layout import Layout
from mncover.errors import DataFileError

Words = NDArray[Any]


def word_type(bins: int) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds the bins; beyond 64, words of 64 bits."""
    if bins <= 16:
        return np.dtype(np.uint16)
    return np.dtype(np.uint32) if bins <= 32 else np.dtype(np.uint64)


def words_per_neuron(bins: int) -> int:
    """Return how many words a neuron needs.

    >>> words_per_neuron(10), words_per_neuron(64), words_per_neuron(65)
    (1, 1, 2)
    """
    return -(-bins // 64)


def map_size(layout: Layout, bins: int) -> int:
    """Return the number of words in a map."""
    return layout.slots * words_per_neuron(bins)


def empty_map(layout: Layout, bins: int) -> Words:
    """Return a map in which nothing was hit."""
    return np.zeros(map_size(layout, bins), dtype=word_type(bins))


def site_table(layout: Layout, bins: int) -> NDArray[np.int64]:
    """Return a row per site that tells the kernels where it lies in a flat map.

    The columns: first word, groups, words from one row of neurons to the next, rows, columns,
    1 for attention.
    """
    width = words_per_neuron(bins)
    rows = [
        (part.start * width, s.groups, s.columns * width, s.rows, s.columns, s.kind == "attention")
        for s, part in layout.spans()
    ]
    return np.array(rows, dtype=np.int64)


def count_bits(words: Words, layout: Layout, bins: int) -> list[NDArray[np.int64]]:
    """Return, for each site, how many bins each of its groups (heads) has hit."""
    width = words_per_neuron(bins)
    counts = []
    for site, part in layout.spans():
        block = words[part.start * width : part.stop * width].reshape(site.groups, -1)
        counts.append(np.bitwise_count(block).sum(axis=1, dtype=np.int64))
    return counts


def pack(words: Words, bins: int) -> bytes:
    """Return a map as compressed bytes.

    With one word a neuron the bits are turned into one plane per bin first: most planes are
    long runs of zeros, which compress far better than interleaved bits.
    """
    if words_per_neuron(bins) > 1:
        return zlib.compress(words.astype("<u8").tobytes(), 6)
    planes = [np.packbits((words >> word_type(bins).type(b)) & 1 != 0) for b in range(bins)]
    return zlib.compress(b"".join(plane.tobytes() for plane in planes), 6)


def unpack(data: bytes, layout: Layout, bins: int) -> Words:
    """Return the map that `pack` made; the bytes may come from a stranger."""
    size = map_size(layout, bins)
    if words_per_neuron(bins) > 1:
        raw = _inflate(data, size * 8)
        return np.frombuffer(raw, dtype="<u8").astype(word_type(bins))
    plane_bytes = -(-size // 8)
    raw = _inflate(data, plane_bytes * bins)
    words = np.zeros(size, dtype=word_type(bins))
    for b in range(bins):
        plane = np.frombuffer(raw, dtype=np.uint8, count=plane_bytes, offset=b * plane_bytes)
        words |= np.unpackbits(plane, count=size).astype(words.dtype) << words.dtype.type(b)
    return words


def _inflate(data: bytes, expected: int) -> bytes:
    """Decompress to exactly `expected` bytes, never allocating more than that."""
    decoder = zlib.decompressobj()
    try:
        raw = decoder.decompress(data, expected + 1)
    except zlib.error as error:
        raise DataFileError(f"a coverage map in it cannot be decompressed ({error})") from error
    if len(raw) != expected or not decoder.eof:
        raise DataFileError("a coverage map in it does not have the size its header tells")
    return raw
