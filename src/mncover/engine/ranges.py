"""The range of every neuron: the smallest and largest value over the calibration texts.

Find the range of every neuron over the calibration texts, and remember it.

Ranges are kept in the user's cache folder under a key of model, tokenizer, texts and settings.
While a long calibration runs, what is finished is kept there too, so that an interrupted one
goes on where it was. Files are renamed into place, so runs side by side do no harm: at worst
both do the work.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from mncover.data.files import replacing
from mncover.data.layout import Layout
from mncover.engine.batches import distinct
from mncover.engine.kernels.backend import Backend
from mncover.engine.measure import Advance, measure
from mncover.engine.readers import WidenReader
from mncover.engine.taps import Taps
from mncover.errors import DataFileError, MismatchError, TextError
from mncover.types import Text, fingerprint_texts

FORMAT = "mncover-ranges-1"


@dataclass(frozen=True)
class Ranges:
    """Low and high of every slot of a layout; a neuron that no text reached has low > high."""

    layout: Layout
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    texts: int = 0

    @classmethod
    def empty(cls, layout: Layout) -> Ranges:
        """Return ranges that no text has reached yet."""
        low = np.full(layout.slots, np.inf, dtype=np.float32)
        high = np.full(layout.slots, -np.inf, dtype=np.float32)
        return cls(layout, low, high)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all the numbers."""
        digest = hashlib.sha256(np.ascontiguousarray(self.low).data)
        digest.update(np.ascontiguousarray(self.high).data)
        return digest.hexdigest()

    def merge(self, other: Ranges) -> Ranges:
        """Return the ranges over the texts of both."""
        if self.layout != other.layout:
            raise MismatchError("cannot merge ranges: they belong to models of another shape.")
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Ranges(self.layout, low, high, self.texts + other.texts)

    def forget_future(self) -> None:
        """In a causal model, take the ranges from attention to later positions: no neurons."""
        for site, part in self.layout.spans():
            if self.layout.causal and site.kind == "attention":
                future = np.triu(np.ones((site.rows, site.columns), dtype=bool), k=1)
                self.low[part].reshape(site.shape)[:, future] = np.inf
                self.high[part].reshape(site.shape)[:, future] = -np.inf

    def reachable_bins(self, bins: int) -> list[NDArray[np.int64]]:
        """Return, for each site and group, how many bins can be hit at all.

        All bins of a neuron that varied, the first bin of one that did not, none of one that
        no calibration text reached.
        """
        counts = []
        for site, part in self.layout.spans():
            low, high = self.low[part], self.high[part]
            varied = (low < high).reshape(site.groups, -1).sum(axis=1, dtype=np.int64)
            constant = (low == high).reshape(site.groups, -1).sum(axis=1, dtype=np.int64)
            counts.append(varied * bins + constant)
        return counts

    def save(self, path: Path, **notes: Any) -> None:
        """Write the ranges to a file, with notes that `load` gives back."""
        about = {"format": FORMAT, "texts": self.texts, "layout": self.layout.to_json(), **notes}
        with replacing(path) as temporary:
            arrays = {"low": self.low, "high": self.high}
            try:
                save_file(arrays, temporary, metadata={"mncover": json.dumps(about)})
            except SafetensorError as error:
                raise OSError(str(error)) from error

    @classmethod
    def load(cls, path: Path) -> tuple[Ranges, dict[str, Any]]:
        """Read ranges and notes from a file."""
        try:
            with safe_open(path, framework="numpy") as file:
                about = json.loads((file.metadata() or {}).get("mncover", "{}"))
                low, high = file.get_tensor("low"), file.get_tensor("high")
        except (OSError, SafetensorError, ValueError) as error:
            raise DataFileError(f"{path}: not a file of ranges, or damaged ({error}).") from error
        if about.get("format") != FORMAT:
            raise DataFileError(f"{path}: not a file of ranges that this version reads.")
        layout = Layout.from_json(about["layout"])
        if low.shape != (layout.slots,) or high.shape != low.shape:
            raise DataFileError(f"{path}: its arrays do not have the size its header tells.")
        return cls(layout, low, high, about["texts"]), about


CHUNK = 4096


def cache_key(model: str, tokenizer: str, texts: Sequence[Text], taps: Taps, length: int) -> str:
    """Return the name under which a calibration is kept.

    The device is part of it: a GPU rounds differently, and a range should come from the same
    arithmetic as the values that are compared with it.
    """
    parts = [model, tokenizer, fingerprint_texts(texts), length, taps.subject.device.type]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def calibrate(
    taps: Taps,
    backend: Backend,
    texts: Sequence[Text],
    batch_size: int,
    advance: Advance,
    cache: Path | None = None,
    chunk: int = CHUNK,
) -> Ranges:
    """Return the ranges over the texts; `cache` is the file that keeps them, or is to."""
    if not texts:
        raise TextError("calibration needs at least one text.")
    kept = _load(cache, backend) if cache else None
    if kept is not None:
        advance(len(texts))
        return kept
    partial = cache.with_suffix(".partial") if cache else None
    ranges = (_load(partial, backend) if partial else None) or Ranges.empty(backend.layout)
    advance(ranges.texts)
    reader = WidenReader(backend, backend.to_device(ranges.low), backend.to_device(ranges.high))
    for start in range(ranges.texts, len(texts), chunk):
        part = texts[start : start + chunk]
        _observe(taps, part, reader, batch_size, advance)
        low, high = backend.to_numpy(reader.low), backend.to_numpy(reader.high)
        ranges = Ranges(backend.layout, low, high, start + len(part))
        ranges.forget_future()
        if partial is not None and ranges.texts < len(texts):
            _keep(ranges, partial)
    if not (ranges.low <= ranges.high).any():
        raise TextError("no calibration text has any token: there is nothing to measure.")
    if cache is not None and partial is not None:
        _keep(ranges, cache)
        partial.unlink(missing_ok=True)
    return ranges


def _keep(ranges: Ranges, path: Path) -> None:
    """Put ranges into the cache; a cache that cannot be written costs time, not the work."""
    try:
        ranges.save(path)
    except OSError as error:
        warnings.warn(f"the ranges cannot be kept: {path.parent}: {error.strerror}.", stacklevel=2)


def _observe(
    taps: Taps, texts: Sequence[Text], reader: WidenReader, batch_size: int, advance: Advance
) -> None:
    encodings = taps.subject.encode(texts, reader.backend.layout.sites[0].rows)
    first, _ = distinct(encodings)
    advance(len(texts) - len(first))
    picked = [texts[i] for i in first]
    measure(taps, picked, [encodings[i] for i in first], reader, batch_size, advance)


def _load(path: Path, backend: Backend) -> Ranges | None:
    """Return kept ranges; a file that is missing or damaged is the same as none."""
    if not path.exists():
        return None
    try:
        ranges, _ = Ranges.load(path)
    except DataFileError:
        return None
    return ranges if ranges.layout == backend.layout else None
