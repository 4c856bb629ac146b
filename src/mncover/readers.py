"""What is done with a site's values while the model runs: one small class each.

A reader is told which batch comes (`begin`), then gets every site's tensor (`read`).
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from mncover.backend import Array, Backend
from mncover.errors import ModelError
from mncover.hits import Hits
from mncover.keep import Keep
from mncover.sites import Kind, Site
from mncover.spool import Spool


class NotFiniteError(Exception):
    """A site held NaN or infinity; the caller knows which texts were in the batch."""

    def __init__(self, site: Site, values: Array) -> None:
        super().__init__(site.name)
        self.site = site
        self.values = values


class Reader(Protocol):
    """Takes the sites of one batch after the other."""

    def begin(self, rows: list[int], ids: Tensor) -> None:
        """Say which texts the next batch holds: their indices, and their tokens [n, T]."""

    def read(self, kind: Kind, layer: int, tensor: Tensor) -> None:
        """Take one site's values."""


class _SiteReader:
    """Checks a tensor's shape, and that all of it was finite; the rest is the subclass's."""

    def __init__(self, backend: Backend, keep: Keep | None = None) -> None:
        self.backend = backend
        self.kernels = backend.kernels
        self.keep = keep
        self.rows: list[int] = []
        self.length = 0

    def begin(self, rows: list[int], ids: Tensor) -> None:
        """Say which texts the next batch holds: their indices, and their tokens [n, T]."""
        self.rows = rows
        self.length = ids.shape[1]
        if self.keep is not None:
            self.keep.begin(ids)

    def read(self, kind: Kind, layer: int, tensor: Tensor) -> None:
        """Take one site's values."""
        site = self.backend.site(kind, layer)
        values = self.backend.values(tensor[: len(self.rows)])  # behind them are copies
        shape = (len(self.rows), site.groups, self.length, site.touched_columns(self.length))
        if tuple(values.shape) != (shape if kind == "attention" else (shape[0], *shape[2:])):
            raise ModelError(
                f"{site.name} has shape {tuple(values.shape)}, expected {shape}: "
                "its size changes from text to text, so it cannot be counted."
            )
        if not self.reduce(site, values.reshape(shape[0], site.groups, -1)):
            raise NotFiniteError(site, values)

    def reduce(self, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        raise NotImplementedError


class _RangeReader(_SiteReader):
    """A reader that needs the ranges."""

    def __init__(self, backend: Backend, low: Array, high: Array, keep: Keep | None = None) -> None:
        super().__init__(backend, keep)
        self.low, self.high = low, high

    def ranges(self, site: Site) -> tuple[Array, Array]:
        """Return low and high of the neurons that the present batch touches at a site."""
        cut = self.backend.touched_ranges
        return cut(self.low, site, self.length), cut(self.high, site, self.length)


class WidenReader(_RangeReader):
    """Stretches ranges so that they hold everything seen."""

    def reduce(self, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        low, high = self.ranges(site)
        finite = self.kernels.widen(values, low, high)
        self.backend.put_back(self.low, site, self.length, low)
        self.backend.put_back(self.high, site, self.length, high)
        return bool(finite)


class HitReader(_RangeReader):
    """Adds everything seen to maps; the order of texts is of no matter."""

    def __init__(
        self, backend: Backend, low: Array, high: Array, hits: Hits, keep: Keep | None
    ) -> None:
        super().__init__(backend, low, high, keep)
        self.hits = hits

    def reduce(self, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        cut = self.backend.touched_words
        maps = [words for _, words in self.hits]
        parts = [cut(words, site, self.length) for words in maps]
        keep = [] if self.keep is None else [self.keep.of(site)]
        finite = self.kernels.hit(values, *self.ranges(site), self.backend.bins, *parts, *keep)
        for words, part in zip(maps, parts, strict=True):
            self.backend.put_back(words, site, self.length, part)
        return bool(finite)


class NovelReader(_RangeReader):
    """Counts, for each text, the hidden and attention bins that a map does not have yet."""

    def __init__(
        self, backend: Backend, low: Array, high: Array, words: Array, n: int, keep: Keep | None
    ) -> None:
        super().__init__(backend, low, high, keep)
        self.words = words
        self.new_bins = {"hidden": backend.new_counts(n), "attention": backend.new_counts(n)}

    def reduce(self, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        words = self.backend.touched_words(self.words, site, self.length)
        counts = self.backend.new_counts(len(self.rows))
        keep = [] if self.keep is None else [self.keep.of(site)]
        finite = self.kernels.novel(
            values, *self.ranges(site), self.backend.bins, words, counts, *keep
        )
        self.new_bins[site.kind][self.rows] += counts
        return bool(finite)


class EncodeReader(_RangeReader):
    """Keeps every text's codes in a spool, to be walked in order afterwards."""

    def __init__(
        self, backend: Backend, low: Array, high: Array, spool: Spool, keep: Keep | None
    ) -> None:
        super().__init__(backend, low, high, keep)
        self.spool = spool

    def begin(self, rows: list[int], ids: Tensor) -> None:
        """Say which texts the next batch holds: their indices, and their tokens [n, T]."""
        super().begin(rows, ids)
        self.spool.begin(rows, self.length, self.keep)

    def reduce(self, site: Site, values: Array) -> bool:
        """Use the values [texts, groups, n]; return whether all of them were finite."""
        backend = self.backend
        codes = backend.new_codes(len(self.rows), site, self.length)
        low, high = self.ranges(site)
        finite = self.kernels.encode(values, low, high, backend.bins, codes, backend.none)
        self.spool.write(site, codes)
        return bool(finite)
