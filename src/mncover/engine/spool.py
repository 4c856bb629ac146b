"""The codes of a window of texts, kept until they are walked in order.

Batches go by length, but gains are defined in the order of the texts. So the codes, one byte
per touched neuron, wait in an unnamed temporary file (`TMPDIR` says where) until the window is
complete; in memory they would outweigh everything else. With fewer than 16 bins two codes share
a byte. On a GPU they stay on the GPU.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.data.layout import Site
from mncover.engine.kernels.backend import Array, Backend
from mncover.engine.masking import Kept

_Sizes = tuple[NDArray[np.int64], list[tuple[str, int]], int]


@dataclass(slots=True)
class _Batch:
    """One batch: how long its texts are, what of them counts, where each site's codes lie."""

    length: int
    keep_words: Array = None  # [texts, T], if there are masks
    keep_pairs: Array = None  # [texts, T, T]
    parts: dict[str, Any] = field(default_factory=dict)


def spool_halves(bins: int) -> bool:
    """Return whether two codes share a byte: 15 must be free to stand for "no bin"."""
    return bins < 16


class Spool:
    """Takes codes batch by batch and site by site; gives them back text by text."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._halves = spool_halves(backend.bins)
        self._where: dict[int, tuple[_Batch, int]] = {}
        self._sizes_by_length: dict[int, _Sizes] = {}
        self._lock = Lock()
        # Unbuffered: whole blocks go in and out, a buffer would only copy them once more.
        self._file = tempfile.TemporaryFile(prefix="mncover-", buffering=0)  # noqa: SIM115

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()

    def clear(self) -> None:
        """Forget all codes; the file's room is used again."""
        self._where.clear()
        self._file.seek(0)

    def begin(self, rows: list[int], length: int, kept: Kept | None = None) -> None:
        """Start a batch of texts, named by their index; others may be under way."""
        batch = _Batch(length)
        if kept is not None:
            batch.keep_words = self.backend.as_array(kept.words)
            batch.keep_pairs = self.backend.as_array(kept.pairs)
        self._where.update({text: (batch, row) for row, text in enumerate(rows)})

    def write(self, text: int, site: Site, codes: Array) -> None:
        """Take the codes [texts, groups, n] at one site of the batch that `text` is in."""
        parts = self._where[text][0].parts
        if not self.backend.on_cpu:
            parts[site.name] = codes
            return
        codes = codes.reshape(len(codes), -1)
        if self._halves:
            packed = np.empty((len(codes), self._stored(codes.shape[1])), dtype=np.uint8)
            self.backend.kernels.pack_halves(codes, packed)
            codes = packed
        with self._lock:
            parts[site.name] = self._file.tell()
            self._write_all(codes.data.cast("B"))

    def read(self, text: int) -> Array:
        """Return one text's codes for all sites, flat, in the order of the layout."""
        batch, row = self._where[text]
        if self.backend.on_cpu:
            return self._read_file(batch, row)
        sites = self.backend.layout.sites
        return torch.cat([batch.parts[site.name][row].flatten() for site in sites])

    def masked(self, text: int, codes: Array) -> Array:
        """Return one text's codes with "no bin" for everything that the masks leave out."""
        batch, row = self._where[text]
        backend, out = self.backend, self.backend.room_like(codes)
        backend.kernels.mask_codes(
            codes,
            backend.none,
            backend.table,
            batch.length,
            batch.keep_words[row],
            batch.keep_pairs[row],
            out,
        )
        return out

    def _read_file(self, batch: _Batch, row: int) -> Array:
        sizes, stored, bytes_of_all = self._sizes(batch.length)
        raw = np.empty(bytes_of_all, dtype=np.uint8)
        view, at = raw.data, 0
        for name, size in stored:
            self._file.seek(batch.parts[name] + row * size)
            self._read_all(view[at : at + size])
            at += size
        if not self._halves:
            return raw.view(self.backend.code_type)
        codes = np.empty(int(sizes.sum()), dtype=self.backend.code_type)
        self.backend.kernels.unpack_halves(raw, sizes, codes)
        return codes

    def _sizes(self, length: int) -> _Sizes:
        """Return how many codes each site has, how many bytes they take, and all of them."""
        if length not in self._sizes_by_length:
            layout, kind = self.backend.layout, self.backend.code_type
            sizes = np.array([site.touched(length) for site in layout.sites])
            stored = (self._stored(sizes) if self._halves else sizes * kind.itemsize).tolist()
            names = [site.name for site in layout.sites]
            self._sizes_by_length[length] = (
                sizes,
                list(zip(names, stored, strict=True)),
                sum(stored),
            )
        return self._sizes_by_length[length]

    @staticmethod
    def _stored(n: Any) -> Any:
        """Return how many bytes `n` codes take if two share a byte; a number or an array."""
        return (n + 1) // 2

    def _write_all(self, view: memoryview) -> None:
        while view:  # an unbuffered write may stop short of the end
            view = view[self._file.write(view) or 0 :]

    def _read_all(self, view: memoryview) -> None:
        while view:
            n = self._file.readinto(view)
            if not n:
                raise OSError("the temporary file with the codes of this window was cut short")
            view = view[n:]
