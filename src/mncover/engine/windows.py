"""Codes in the order of the texts, though the model runs them by length.

Texts are taken in windows. A window's texts are run in length-sorted batches, their codes wait
in a spool, and whoever walks the window reads them in order. The larger the window, the fuller
the batches: below some thousand texts the model, not the walk, becomes slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.augment.packing import Packing
from mncover.criteria import COVER, Metric
from mncover.engine.batches import Encoding, distinct
from mncover.engine.kernels.backend import Array, Backend
from mncover.engine.masking import Keep
from mncover.engine.measure import Advance, measure
from mncover.engine.readers import EncodeReader, MeanReader, Reader
from mncover.engine.spool import Spool, spool_halves
from mncover.engine.taps import Taps
from mncover.types import Text

WINDOW_TEXTS = 4096
WINDOW_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Window:
    """Some whole groups of texts that were run: `groups` says which rows belong together."""

    groups: list[range]
    texts: list[Text]
    encodings: list[Encoding]
    probabilities: NDArray[np.float32]
    spool: Spool
    which: list[int]  # row -> its number among the distinct texts, under which the spool has it
    means: dict[int, NDArray[np.float32]]  # by the same number, if they were asked for
    width: int  # of a mean
    _last: dict[str, Any] = field(default_factory=dict)

    def codes(self, row: int, metric: Metric = COVER) -> Array:
        """Return one text's codes for all sites, flat; for mnCover only those that count."""
        if self._last.get("row") != row:  # each text is asked for several times in turn
            self._last.clear()
            self._last.update(row=row, cover=self.spool.read(self.which[row]))
        if metric not in self._last:
            self._last[metric] = self.spool.masked(self.which[row], self._last[COVER])
        return self._last[metric]

    def mean(self, row: int) -> NDArray[np.float32]:
        """Return the mean of a text's last hidden states, at length one; zeros without tokens."""
        found = self.means.get(self.which[row])
        return np.zeros(self.width, dtype=np.float32) if found is None else found

    def length(self, row: int) -> int:
        """Return how many tokens a text has."""
        return self.encodings[row].length


def windows(
    taps: Taps,
    backend: Backend,
    ranges: tuple[Array, Array],
    groups: Sequence[Sequence[Text]],
    batch_size: int,
    advance: Advance,
    keep: Keep | None = None,
    whole: bool = False,
    with_means: bool = False,
    packing: Packing | None = None,
) -> Iterator[Window]:
    """Run all groups of texts and yield them in order, window by window.

    A window is good until the next one is asked for. A group is never cut. With `whole` there is
    one window, however large. With `with_means` it has the means of the last hidden states; with
    `packing` it is run faster and has no probabilities.
    """
    with Spool(backend) as spool:
        encode = EncodeReader(backend, *ranges, spool, keep)
        for part in [list(groups)] if whole and groups else _by_number(groups):
            texts = [text for group in part for text in group]
            encodings = taps.subject.encode(texts, backend.layout.sites[0].rows)
            for rows in _by_bytes(part, encodings, backend, np.inf if whole else WINDOW_BYTES):
                spool.clear()
                chosen = slice(rows[0].start, rows[-1].stop)
                picked, codes = texts[chosen], encodings[chosen]
                first, which = distinct(codes)
                advance(len(picked) - len(first))
                means = MeanReader(encode, taps.n_hidden - 1)
                reader: Reader = means if with_means else encode
                found = measure(
                    taps,
                    [picked[i] for i in first],
                    [codes[i] for i in first],
                    reader,
                    batch_size,
                    advance,
                    packing,
                )
                local = [range(r.start - chosen.start, r.stop - chosen.start) for r in rows]
                yield Window(
                    local, picked, codes, found[which], spool, which, means.means, taps.width[-1]
                )


def _by_number(groups: Sequence[Sequence[Text]]) -> Iterator[list[Sequence[Text]]]:
    """Yield runs of groups with about `WINDOW_TEXTS` texts together."""
    part: list[Sequence[Text]] = []
    n = 0
    for group in groups:
        part.append(group)
        n += len(group)
        if n >= WINDOW_TEXTS:
            yield part
            part, n = [], 0
    if part:
        yield part


def _by_bytes(
    groups: Sequence[Sequence[Text]], encodings: list[Encoding], backend: Backend, limit: float
) -> Iterator[list[range]]:
    """Yield runs of groups, as rows, whose codes take at most `limit` bytes together."""
    part: list[range] = []
    used = start = 0
    for group in groups:
        rows = range(start, start + len(group))
        start = rows.stop
        size = sum(backend.layout.touched(encodings[row].length) for row in rows)
        size = size * backend.code_type.itemsize // (2 if spool_halves(backend.bins) else 1)
        if part and used + size > limit:
            yield part
            part, used = [], 0
        part.append(rows)
        used += size
    if part:
        yield part
