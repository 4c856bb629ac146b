"""Kernels for the CPU: compiled loops over NumPy arrays, and codes that wait in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.criteria.active import Above
from mncover.criteria.base import Group
from mncover.criteria.binned import BINS
from mncover.criteria.boundary import Outside
from mncover.data import maps
from mncover.data.layout import Layout, Site
from mncover.data.writing import naming_temporary
from mncover.engine.kernels import loops
from mncover.engine.kernels.base import (
    Array,
    Block,
    Bounds,
    CodeStore,
    Kernels,
    Order,
    Target,
    code_type,
    no_cell,
)


class CpuKernels(Kernels):
    """Compiled loops for bins and marks, NumPy for any other coding."""

    name = "cpu"

    def __init__(self, layout: Layout, device: torch.device) -> None:
        super().__init__(layout, device)
        # Of two batches that run in parallel only one at a time changes a site's ranges or maps.
        self._locks = {site: Lock() for site in layout.sites}
        self._table = cache(lambda cells: maps.site_table(layout, cells))

    def to_device(self, array: NDArray[Any]) -> Array:
        return array

    def to_numpy(self, array: Array) -> NDArray[Any]:
        return np.asarray(array)

    def bits_to_numpy(self, bits: Array, cells: int) -> maps.Bits:
        return bits  # type: ignore[no-any-return]

    def copy_of(self, array: Array) -> Array:
        return array.copy()

    def new_codes(self, n: int, site: Site, length: int, cells: int) -> Array:
        shape = (n, site.groups, site.touched(length) // site.groups)
        return np.empty(shape, dtype=code_type(cells))

    def as_array(self, tensor: Tensor) -> Array:
        return tensor.contiguous().numpy()

    def new_store(self) -> CodeStore:
        return FileStore()

    def disk_bytes(self, codes: int, cells: int) -> int:
        return codes * code_type(cells).itemsize // (2 if _two_per_byte(cells) else 1)

    def widen(self, block: Block, bounds: Bounds) -> bool:
        with self._locks[block.site], self._writing(bounds, block) as parts:
            return bool(loops.widen(block.values, *parts))

    def hit(
        self,
        group: Group,
        block: Block,
        bounds: Bounds,
        targets: Sequence[Target],
        order: Order | None = None,
    ) -> bool:
        low, high = (self.touched(one, block.site, block.length) for one in bounds)
        width, maps_of = maps.ints_per_neuron(group.cells), [target.bits for target in targets]
        with self._locks[block.site], self._writing(maps_of, block, width) as bits:
            return _hit(group, (block.values, low, high), bits, block.keep)

    def encode(self, group: Group, block: Block, bounds: Bounds, codes: Array) -> bool:
        none = no_cell(group.cells)
        low, high = (self.touched(one, block.site, block.length) for one in bounds)
        given = (block.values, low, high)
        if group.coding is BINS:
            return bool(loops.encode(*given, group.cells, codes, none))
        if (marks := _marks(group)) is not None:
            return bool(loops.encode_marks(*given, *marks, codes, none))
        found = group.coding.codes(np, *given, group.cells)
        codes[:] = np.where(found >= 0, found, none)
        return _finite(block.values)

    def scaled(self, values: Array, texts: int) -> Array:
        out = np.empty_like(values)
        loops.scale(values.reshape(texts, -1), out.reshape(texts, -1))
        return out

    def top(self, values: Array, width: int, k: int) -> Array:
        out = np.empty_like(values)
        loops.top(values.reshape(-1, width), min(k, width), out.reshape(-1, width))
        return out

    def walk(
        self, codes: Array, length: int, cells: int, bits: Array, store: bool
    ) -> tuple[int, int]:
        per_neuron = maps.ints_per_neuron(cells)
        table = self._table(cells)
        new = loops.walk(codes, no_cell(cells), table, length, per_neuron, bits, store)
        return int(new[0]), int(new[1])

    def add_cells(self, codes: Array, length: int, cells: int, bits: Array) -> NDArray[np.int64]:
        found = np.empty(len(codes), dtype=np.int64)
        given = codes, no_cell(cells), self._table(cells), length, maps.ints_per_neuron(cells)
        n = loops.walk_cells(*given, cells, bits, found)
        new: NDArray[np.int64] = found[:n].copy()  # the rest is mostly empty
        return new

    def mask_codes(
        self, codes: Array, length: int, cells: int, keep_tokens: Array, keep_pairs: Array
    ) -> Array:
        out, none = np.empty_like(codes), no_cell(cells)
        loops.mask_codes(codes, none, self._table(cells), length, keep_tokens, keep_pairs, out)
        return out

    def copy_touched(self, length: int, cells: int, source: Array, target: Array) -> None:
        table, per_neuron = self._table(cells), maps.ints_per_neuron(cells)
        loops.copy_touched(table, length, per_neuron, source, target)


def _hit(
    group: Group, given: tuple[Array, Array, Array], bits: list[Array], keep: Array | None
) -> bool:
    """Set the bits of a batch in the touched parts of a group's maps."""
    masked = bits[1] if len(bits) > 1 else None
    if group.coding is BINS:
        kept = None if masked is None else keep
        return bool(loops.hit(*given, group.cells, bits[0], masked, kept))
    if (marks := _marks(group)) is not None and masked is None:
        return bool(loops.mark(*given, *marks, bits[0]))
    codes = group.coding.codes(np, *given, group.cells)
    _store(codes, bits[0])
    if masked is not None:
        _store(_counting(codes, keep), masked)
    return _finite(given[0])


def _marks(group: Group) -> tuple[int, float] | None:
    """Return how the compiled loops mark values for a group, if they do."""
    if isinstance(group.coding, Outside):
        return loops.BOTH_SIDES if group.coding.below else loops.TOO_HIGH, 0.0
    return (loops.ABOVE, group.coding.threshold) if isinstance(group.coding, Above) else None


def _store(codes: NDArray[np.int64], bits: Array) -> None:
    """Set the bits of all texts' codes [texts, groups, n] in a part of a map."""
    ints = bits.reshape(*codes.shape[1:], -1)
    for text in codes:
        known = text >= 0
        at = text[known]
        places = (*np.nonzero(known), at >> 6)
        # A text has one code per neuron, so no two of these are the same place.
        ints[places] |= (1 << (at & 63)).astype(np.uint64).astype(ints.dtype)


def _counting(codes: NDArray[np.int64], keep: Array | None) -> NDArray[np.int64]:
    """Return the codes with -1 for neurons that do not count."""
    return codes if keep is None else np.where(keep[:, None] != 0, codes, -1)


def _finite(values: Array) -> bool:
    return bool(np.isfinite(values).all())


def _two_per_byte(cells: int) -> bool:
    """Return whether two codes share a byte: 15 must be free to stand for "no cell"."""
    return cells < 16


class FileStore:
    """Codes in an unnamed temporary file (`TMPDIR` says where): in memory they would outweigh all.

    With fewer than 16 cells two codes share a byte.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # Unbuffered: whole blocks go in and out, a buffer would only copy them once more.
        self._file = tempfile.TemporaryFile(prefix="mncover-", buffering=0)  # noqa: SIM115

    def put(self, codes: Array, cells: int) -> int:
        codes = codes.reshape(len(codes), -1)
        if _two_per_byte(cells):
            packed = np.empty((len(codes), (codes.shape[1] + 1) // 2), dtype=np.uint8)
            loops.pack_halves(codes, packed)
            codes = packed
        with self._lock:
            place = self._file.tell()
            with naming_temporary():
                self._write_all(codes.data.cast("B"))
        return place

    def get(self, places: Sequence[Any], sizes: NDArray[np.int64], row: int, cells: int) -> Array:
        halves, kind = _two_per_byte(cells), code_type(cells)
        stored = ((sizes + 1) // 2 if halves else sizes * kind.itemsize).tolist()
        raw = np.empty(sum(stored), dtype=np.uint8)
        view, at = raw.data, 0
        for place, size in zip(places, stored, strict=True):
            self._file.seek(place + row * size)
            self._read_all(view[at : at + size])
            at += size
        if not halves:
            return raw.view(kind)
        codes = np.empty(int(sizes.sum()), dtype=kind)
        loops.unpack_halves(raw, sizes, codes)
        return codes

    def clear(self) -> None:
        self._file.seek(0)

    def close(self) -> None:
        self._file.close()

    def _write_all(self, view: memoryview) -> None:
        while view:  # an unbuffered write may stop short of the end
            view = view[self._file.write(view) or 0 :]

    def _read_all(self, view: memoryview) -> None:
        while view:
            n = self._file.readinto(view)
            if not n:
                raise OSError("the temporary file with the codes of this window was cut short")
            view = view[n:]
