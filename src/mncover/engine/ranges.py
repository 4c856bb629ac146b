"""The range of every neuron over the calibration texts: find it, and remember it.

The same run learns how the states of a text become its signature (`data/signatures.py`).
Ranges are kept in the user's cache folder under a key of model, tokenizer, texts and settings,
those of an unfinished calibration too, so that it resumes. Files are renamed into place, so
several runs at once do no harm: at worst all of them do the work.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.files import Unfinished
from mncover.data.layout import Layout
from mncover.data.places import free_disk, in_bytes
from mncover.data.schema import OneOf, Whole, check_shape
from mncover.data.signatures import SignatureSpace, learn_space, reference_places
from mncover.data.table import Signatures
from mncover.data.tensors import read_tensors, write_tensors
from mncover.engine.kernels.base import Bounds, Kernels
from mncover.engine.measure import Advance, Piece, cut_in_pieces, in_pieces, measure_piece
from mncover.engine.readers import Setup, WidenReader
from mncover.engine.references import References
from mncover.engine.signatures import PoolReader, pools_of
from mncover.engine.taps import Taps
from mncover.errors import DataFileError, MismatchError, MnCoverError, SchemaError, TextError
from mncover.types import POSITIONS, SITES, Settings, Text, counted, fingerprint_texts

FORMAT = "mncover-ranges-3"
_ABOUT = {"format": OneOf((FORMAT,)), "texts": Whole(), "layout": {}}


@dataclass(frozen=True)
class Ranges:
    """Low and high of every slot of a layout; a neuron that no text reached has low > high.

    `lengths` counts the texts of each length. `space` is how states become signatures. Until all
    texts were run there is `pooled` instead: the pooled states, part by part, of those texts that
    are kept to learn it from. `references` are calibration texts that others are compared with,
    if a criterion does that; they are kept in a file of their own.
    """

    layout: Layout
    low: NDArray[np.float32]
    high: NDArray[np.float32]
    lengths: NDArray[np.int64]
    texts: int = 0
    space: SignatureSpace | None = None
    pooled: tuple[Signatures, ...] = ()
    references: References | None = None

    @classmethod
    def empty(cls, layout: Layout, max_length: int) -> Ranges:
        """Return ranges that no text has reached yet."""
        low = np.full(layout.slots, np.inf, dtype=np.float32)
        high = np.full(layout.slots, -np.inf, dtype=np.float32)
        pooled = tuple(np.empty((0, pool.width), np.float16) for pool in pools_of(layout))
        lengths = np.zeros(max_length + 1, dtype=np.int64)
        return cls(layout, low, high, lengths, pooled=pooled)

    def on(self, kernels: Kernels) -> Bounds:
        """Return the ranges as the loops take them."""
        if not self.texts:
            return kernels.new_bounds()
        return Bounds(kernels.to_device(self.low), kernels.to_device(self.high))

    @cached_property
    def fingerprint(self) -> str:
        """A digest of all the numbers."""
        digest = hashlib.sha256(np.ascontiguousarray(self.low).data)
        digest.update(np.ascontiguousarray(self.high).data)
        return digest.hexdigest()

    def merge(self, other: Ranges) -> Ranges:
        """Return the ranges over the texts of both; signatures remain those of the first."""
        if self.layout != other.layout:
            raise MismatchError("cannot merge ranges: they belong to models of another shape.")
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        both = self.lengths + other.lengths, self.texts + other.texts
        space, references = self.space or other.space, self.references or other.references
        return Ranges(self.layout, low, high, *both, space, references=references)

    def forget_future(self) -> None:
        """In a causal model, take the ranges from attention to later positions: no neurons."""
        for site, part in self.layout.spans():
            if self.layout.causal and site.square:
                future = np.triu(np.ones((site.rows, site.columns), dtype=bool), k=1)
                self.low[part].reshape(site.shape)[:, future] = np.inf
                self.high[part].reshape(site.shape)[:, future] = -np.inf

    def save(self, path: Path) -> None:
        """Write the ranges to a file, replacing it in one step."""
        about = {"format": FORMAT, "texts": self.texts, "layout": self.layout.to_json()}
        arrays: dict[str, NDArray[Any]] = {
            "low": self.low,
            "high": self.high,
            "lengths": self.lengths,
        }
        arrays |= {f"pooled.{i}": states for i, states in enumerate(self.pooled)}
        if self.space is not None:
            arrays |= {f"space.{name}": array for name, array in self.space.arrays().items()}
        write_tensors(path, "mncover", about, arrays)

    @classmethod
    def load(cls, path: Path) -> Ranges:
        """Read ranges from a file."""
        try:
            about, arrays = read_tensors(path, "mncover", checksum=True)
            check_shape(about, _ABOUT, "header")
        except (OSError, DataFileError, SchemaError) as error:
            raise DataFileError(f"{path}: not a file of ranges, or damaged ({error}).") from error
        layout, wanted = Layout.from_json(about["layout"]), np.dtype("<f4")
        low, high = (arrays.get(name, np.empty(0)) for name in ("low", "high"))
        if any(one.shape != (layout.slots,) or one.dtype != wanted for one in (low, high)):
            raise DataFileError(f"{path}: its arrays are not those that its header gives.")
        lengths = arrays.get("lengths", np.empty(0))
        if lengths.ndim != 1 or len(lengths) <= layout.sites[0].rows or lengths.dtype != np.int64:
            raise DataFileError(f"{path}: its arrays are not those that its header gives.")
        inside = {n.removeprefix("space."): a for n, a in arrays.items() if n.startswith("space.")}
        space = SignatureSpace.from_arrays(inside) if inside else None
        return cls(layout, low, high, lengths, about["texts"], space, _pooled(arrays, layout, path))


def _pooled(arrays: dict[str, NDArray[Any]], layout: Layout, path: Path) -> tuple[Signatures, ...]:
    """Return the pooled states of an unfinished calibration; nothing if it is finished."""
    found = tuple(arrays[name] for name in sorted(arrays) if name.startswith("pooled."))
    if any(one.ndim != 2 for one in found):
        raise DataFileError(f"{path}: its pooled states are damaged.")
    widths = [pool.width for pool in pools_of(layout)] if found else []
    wanted = [(np.dtype(np.float16), (len(found[0]), width)) for width in widths]
    if [(one.dtype, one.shape) for one in found] != wanted:
        raise DataFileError(f"{path}: its pooled states are damaged.")
    return found


def kept_at(path: Path, size: int) -> Path | None:
    """Return where ranges are cached; None if they are not there and would not fit."""
    free = free_disk(path.parent)
    if path.exists() or size < free:
        return path
    takes = f"they take {in_bytes(size)}, and {in_bytes(free)} are free"
    warnings.warn(f"cannot cache the ranges in {path.parent}: {takes}.", stacklevel=4)
    return None


CHUNK = 4096


def cache_key(
    model: str, tokenizer: str, texts: Sequence[Text], taps: Taps, settings: Settings
) -> str:
    """Return the name under which a calibration is kept.

    The device is part of it: a GPU rounds differently, and a range should come from the same
    arithmetic as the values that are compared with it.
    """
    parts = [FORMAT, model, tokenizer, fingerprint_texts(texts), settings.max_length]
    parts += [taps.subject.device.type]
    if (settings.positions, settings.sites) != (POSITIONS[0], SITES[0]):
        parts += [settings.positions, settings.sites]
    if not taps.subject.prompting.plain:
        parts.append(json.dumps(taps.subject.prompting.to_json()))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


def calibrate(
    taps: Taps,
    setup: Setup,
    texts: Sequence[Text],
    max_length: int,
    batch_size: int | None,
    advance: Advance,
    cache: Path | None = None,
    chunk: int = CHUNK,
) -> Ranges:
    """Return the ranges over the texts; `cache` is the file that keeps them, or is to."""
    if not texts:
        raise TextError("calibration needs at least one text.")
    kernels, layout = setup.kernels, setup.kernels.layout
    kept = None if cache is None else _load(cache, layout)
    partial = None if cache is None else Unfinished(cache.with_suffix(".partial"), "calibration")
    if kept is not None and partial is not None:
        partial.remove()  # a kill may have left it
        advance(len(texts))
        return kept
    ranges = Ranges.empty(layout, max_length)
    if partial is not None:
        kept = partial.load(
            lambda path: _load(path, layout), lambda one: counted(one.texts, "text")
        )
        ranges = kept or ranges
    advance(ranges.texts)
    bounds = ranges.on(kernels)
    reader = WidenReader([setup._replace(bounds=bounds)])
    places = reference_places(len(texts), [states.shape[1] for states in ranges.pooled])
    left, most = texts[ranges.texts :], len(ranges.lengths)
    cuts = cut_in_pieces(taps.subject, len(left), chunk)
    with in_pieces(taps.subject, left, max_length, cuts) as pieces:
        for piece in pieces:
            mine = places - ranges.texts
            mine = mine[(mine >= 0) & (mine < len(piece.texts))]
            pools = PoolReader.raw(reader, layout, len(piece.first), piece.which[mine])
            states = _observe(taps, piece, piece.which[mine], pools, batch_size, advance)
            pairs = zip(ranges.pooled, states, strict=True)
            pooled = tuple(np.concatenate([before, now]) for before, now in pairs)
            low, high = map(kernels.to_numpy, bounds)
            lengths = ranges.lengths + np.bincount(piece.tokens.lengths, minlength=most)
            texts_done = ranges.texts + len(piece.texts)
            ranges = Ranges(layout, low, high, lengths, texts_done, pooled=pooled)
            ranges.forget_future()
            if partial is not None and ranges.texts < len(texts):
                _keep(ranges, partial.path)
    if not (ranges.low <= ranges.high).any():
        raise TextError("no calibration text has any token: there is nothing to measure.")
    ranges = replace(ranges, space=learn_space(ranges.pooled, places), pooled=())
    if cache is not None and partial is not None:
        _keep(ranges, cache)
        partial.remove()
    return ranges


def _observe(
    taps: Taps,
    piece: Piece,
    mine: NDArray[np.int64],
    pools: PoolReader,
    batch_size: int | None,
    advance: Advance,
) -> list[Signatures]:
    """Widen the ranges by texts; return the pooled states of some, part by part."""
    measure_piece(taps, piece, pools, batch_size, advance)
    places = np.searchsorted(np.unique(mine), mine)  # the same text may be wanted twice
    return [states[places] for states in pools.found]


def _keep(ranges: Ranges, path: Path) -> None:
    """Put ranges into the cache; a cache that cannot be written costs time, not the work."""
    try:
        ranges.save(path)
    except OSError as error:
        why = error.strerror or error
        warnings.warn(f"cannot cache the ranges in {path.parent}: {why}.", stacklevel=2)


def _load(path: Path, layout: Layout) -> Ranges | None:
    """Return kept ranges; a file that is missing or damaged is the same as none."""
    if not path.exists():
        return None
    try:
        ranges = Ranges.load(path)
    except MnCoverError as error:
        warnings.warn(f"{str(error).rstrip('.')}: it is ignored and made again.", stacklevel=2)
        return None
    if ranges.layout != layout:
        return None
    with suppress(OSError):
        os.utime(path)  # `mncover cache` says when it was used
    return ranges
