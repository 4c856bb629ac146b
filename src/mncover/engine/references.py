"""Calibration texts that other texts are compared with: which ones, and their mean states.

They are the texts with the smallest digests, so that the choice depends neither on their order nor
on whether they came at once. Their states are kept beside the ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.data.layout import Kind
from mncover.data.tensors import read_tensors, write_tensors
from mncover.engine.batches import Batch, Rows
from mncover.engine.kernels.base import Heads
from mncover.engine.measure import Advance, measure
from mncover.engine.taps import Read, Taps
from mncover.errors import DataFileError
from mncover.types import Text, fingerprint_texts

MOST = 1000  # texts
FORMAT = "mncover-means-1"


class References(NamedTuple):
    """The digests of texts, sorted, and the mean states [texts, width] of every layer."""

    digests: NDArray[Any]
    means: tuple[NDArray[np.float32], ...]

    def merge(self, other: References) -> References:
        """Return what there would be if the texts of both had come at once."""
        digests = np.concatenate([self.digests, other.digests])
        _, first = np.unique(digests, return_index=True)
        first = first[:MOST]
        pairs = zip(self.means, other.means, strict=True)
        means = tuple(np.concatenate(both)[first] for both in pairs)
        return References(digests[first], means)


def references_of(
    texts: Sequence[Text],
    taps: Taps,
    max_length: int,
    batch_size: int | None,
    advance: Advance,
    cache: Path | None,
) -> References:
    """Return the references among texts, from the cache if they are there."""
    if cache is not None and (kept := _load(cache)) is not None:
        advance(MOST)
        return kept
    digests = {fingerprint_texts([text])[:32]: text for text in texts}
    chosen = sorted(digests)[:MOST]
    mine = [digests[digest] for digest in chosen]
    tokens = taps.subject.encode(mine, max_length)
    reader = _MeansReader(taps.width, len(mine))
    measure(taps, mine, tokens, reader, batch_size, advance)
    run = tokens.lengths > 0
    names = np.array(chosen, dtype="S32")[run]
    found = References(names, tuple(means[run] for means in reader.means))
    if cache is not None:
        with suppress(OSError):  # the ranges were not kept either, and that was said
            arrays = {f"{layer:05d}": means for layer, means in enumerate(found.means)}
            digest_bytes = found.digests.view(np.uint8).reshape(-1, 32)
            write_tensors(cache, "mncover", {"format": FORMAT}, {"digests": digest_bytes, **arrays})
    return found


def _load(path: Path) -> References | None:
    """Return kept references; a file that is missing or damaged is the same as none."""
    try:
        about, arrays = read_tensors(path, "mncover", checksum=True)
    except (OSError, DataFileError):
        return None
    if about != {"format": FORMAT}:
        return None
    digests = np.ascontiguousarray(arrays.pop("digests")).reshape(-1).view("S32")
    return References(digests, tuple(arrays[name] for name in sorted(arrays)))


class _MeansReader:
    """Keeps the mean state of each text in every layer."""

    def __init__(self, widths: Sequence[int], texts: int) -> None:
        self.means = [np.zeros((texts, width), dtype=np.float32) for width in widths]

    def begin(self, batch: Batch) -> Read:
        """Take a batch."""
        return partial(self._read, batch.rows)

    def end(self) -> None:
        """Do nothing: everything was kept."""

    def _read(self, rows: Rows, kind: Kind, layer: int, values: Any) -> None:
        if kind == "hidden":
            means = values[: len(rows)].mean(dim=1, dtype=torch.float64)
            self.means[layer][rows] = means.float().cpu().numpy()
        elif isinstance(values, Heads):
            values.fill()
