"""Find the range of every neuron over the calibration texts, and remember it.

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
from pathlib import Path

from mncover.backend import Backend
from mncover.batches import distinct
from mncover.errors import DataFileError, TextError
from mncover.measure import Advance, measure
from mncover.ranges import Ranges
from mncover.readers import WidenReader
from mncover.taps import Taps
from mncover.texts import Text, fingerprint_texts

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
