"""What is done with a site's values while the model runs: one small class each.

A reader is told which batch comes (`begin`) and answers with a function that takes every site's
tensor of that batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from mncover.data.layout import Kind, Site
from mncover.engine.hits import Hits
from mncover.engine.kernels.backend import Array, Backend
from mncover.engine.masking import Keep, Kept
from mncover.engine.spool import Spool
from mncover.engine.taps import Read
from mncover.errors import ModelError


class NotFiniteError(Exception):
    """A site held NaN or infinity; the caller knows the texts behind a batch's indices."""

    def __init__(self, site: Site, rows: list[int], values: Array) -> None:
        super().__init__(site.name)
        self.site = site
        self.rows = rows
        self.values = values


class Reader(Protocol):
    """Takes the sites of batches, also of several batches at a time."""

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The texts that run together: their indices, how long they are, and what of them counts."""

    rows: list[int]
    length: int
    kept: Kept | None


class _SiteReader:
    """Checks a tensor's shape, and that all of it was finite; the rest is the subclass's."""

    def __init__(self, backend: Backend, keep: Keep | None = None) -> None:
        self.backend = backend
        self.kernels = backend.kernels
        self.keep = keep

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""
        return partial(self.read, self.batch(rows, ids))

    def batch(self, rows: list[int], ids: Tensor) -> Batch:
        """Look up what of a batch counts."""
        return Batch(rows, ids.shape[1], None if self.keep is None else self.keep.of(ids))

    def read(self, batch: Batch, kind: Kind, layer: int, tensor: Tensor) -> None:
        """Take one site's values."""
        site, texts, length = self.backend.site(kind, layer), len(batch.rows), batch.length
        values = self.backend.values(tensor[:texts])  # behind them are copies
        shape = (texts, site.groups, length, site.touched_columns(length))
        if tuple(values.shape) != (shape if kind == "attention" else (shape[0], *shape[2:])):
            raise ModelError(
                f"{site.name} has shape {tuple(values.shape)}, expected {shape}: "
                "its size changes from text to text, so it cannot be counted."
            )
        if not self.reduce(batch, site, values.reshape(texts, site.groups, -1)):
            raise NotFiniteError(site, batch.rows, values)

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        raise NotImplementedError


class _RangeReader(_SiteReader):
    """A reader that needs the ranges.

    `locks` has one for each site: of two batches that run side by side only one at a time changes
    a site's ranges or maps.
    """

    def __init__(self, backend: Backend, low: Array, high: Array, keep: Keep | None = None) -> None:
        super().__init__(backend, keep)
        self.low, self.high = low, high
        self.locks = {site: Lock() for site in backend.layout.sites}

    def ranges(self, site: Site, length: int) -> tuple[Array, Array]:
        """Return low and high of the neurons that texts of `length` tokens touch at a site."""
        cut = self.backend.touched_ranges
        return cut(self.low, site, length), cut(self.high, site, length)


class WidenReader(_RangeReader):
    """Stretches ranges so that they hold everything seen."""

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        with self.locks[site]:
            low, high = self.ranges(site, batch.length)
            finite = self.kernels.widen(values, low, high)
            self.backend.put_back(self.low, site, batch.length, low)
            self.backend.put_back(self.high, site, batch.length, high)
        return bool(finite)


class HitReader(_RangeReader):
    """Adds everything seen to maps; the order of texts is of no matter."""

    def __init__(
        self, backend: Backend, low: Array, high: Array, hits: Hits, keep: Keep | None
    ) -> None:
        super().__init__(backend, low, high, keep)
        self.hits = hits

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        cut, length = self.backend.touched_words, batch.length
        maps = [words for _, words in self.hits]
        keep = [] if batch.kept is None else [batch.kept.at(site)]
        low, high = self.ranges(site, length)
        with self.locks[site]:
            parts = [cut(words, site, length) for words in maps]
            finite = self.kernels.hit(values, low, high, self.backend.bins, *parts, *keep)
            for words, part in zip(maps, parts, strict=True):
                self.backend.put_back(words, site, length, part)
        return bool(finite)


class NovelReader(_RangeReader):
    """Counts, for each text, the hidden and attention bins that a map does not have yet."""

    def __init__(
        self, backend: Backend, low: Array, high: Array, words: Array, n: int, keep: Keep | None
    ) -> None:
        super().__init__(backend, low, high, keep)
        self.words = words
        self.new_bins = {"hidden": backend.new_counts(n), "attention": backend.new_counts(n)}

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        words = self.backend.touched_words(self.words, site, batch.length)
        counts = self.backend.new_counts(len(batch.rows))
        keep = [] if batch.kept is None else [batch.kept.at(site)]
        low, high = self.ranges(site, batch.length)
        finite = self.kernels.novel(values, low, high, self.backend.bins, words, counts, *keep)
        self.new_bins[site.kind][batch.rows] += counts  # no other batch has these texts
        return bool(finite)


class MeanReader:
    """Hands everything on to another reader, and takes the means of the last hidden states.

    `means` has, for each text, what `embedding.py` calls its embedding.
    """

    def __init__(self, reader: Reader, last: int) -> None:
        self.reader = reader
        self.last = last
        self.means: dict[int, NDArray[np.float32]] = {}

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""
        hand_on = self.reader.begin(rows, ids)

        def read(kind: Kind, layer: int, tensor: Tensor) -> None:
            hand_on(kind, layer, tensor)
            if (kind, layer) == ("hidden", self.last):
                means = normalize(tensor[: len(rows)].float().mean(1), dim=-1)
                self.means.update(zip(rows, means.cpu().numpy(), strict=True))

        return read


class EncodeReader(_RangeReader):
    """Keeps every text's codes in a spool, to be walked in order afterwards."""

    def __init__(
        self, backend: Backend, low: Array, high: Array, spool: Spool, keep: Keep | None
    ) -> None:
        super().__init__(backend, low, high, keep)
        self.spool = spool

    def begin(self, rows: list[int], ids: Tensor) -> Read:
        """Take the indices of a batch's texts and their tokens [n, T]; return who reads it."""
        batch = self.batch(rows, ids)
        self.spool.begin(rows, batch.length, batch.kept)
        return partial(self.read, batch)

    def reduce(self, batch: Batch, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        backend = self.backend
        codes = backend.new_codes(len(batch.rows), site, batch.length)
        low, high = self.ranges(site, batch.length)
        finite = self.kernels.encode(values, low, high, backend.bins, codes, backend.none)
        self.spool.write(batch.rows[0], site, codes)
        return bool(finite)
