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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from functools import partial as partial_of
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Made
from mncover.data.files import Unfinished
from mncover.data.layout import Layout
from mncover.data.places import free_disk, in_bytes
from mncover.data.schema import OneOf, Whole, check_shape
from mncover.data.signatures import SignatureSpace, learn_space, reference_places
from mncover.data.table import Signatures
from mncover.data.tensors import read_tensors, write_tensors
from mncover.engine.batches import ahead
from mncover.engine.kernels.base import Bounds, Kernels
from mncover.engine.measure import Advance, Piece, cut_in_pieces, measure_piece, piece_of
from mncover.engine.readers import Setup, WidenReader
from mncover.engine.references import References
from mncover.engine.signatures import PoolReader, pools_of
from mncover.engine.taps import Taps
from mncover.errors import DataFileError, MismatchError, MnCoverError, SchemaError, TextError
from mncover.types import POSITIONS, SITES, Settings, Text, counted, fingerprint_texts

FORMAT = "mncover-ranges-3"
_ABOUT = {"format": OneOf((FORMAT,)), "texts": Whole(), "layout": {}}


class Observed(NamedTuple):
    """What calibration sees of some texts: the ends of the ranges, lengths, kept states."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    lengths: NDArray[np.int64]
    texts: int
    pooled: tuple[Signatures, ...]


# Texts to observe, and the places of those that are kept; and who observes them, in their order.
Asked = tuple[Sequence[Text], NDArray[np.int64]]
Elsewhere = Callable[[Sequence[Asked]], Iterable[Observed]]


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

    def widened(self, seen: Observed) -> Ranges:
        """Return the ranges over further texts, too, while a calibration is under way."""
        pairs = zip(self.pooled, seen.pooled, strict=True)
        found = Ranges(
            self.layout,
            np.minimum(self.low, seen.low),
            np.maximum(self.high, seen.high),
            self.lengths + seen.lengths,
            self.texts + seen.texts,
            pooled=tuple(np.concatenate([before, now]) for before, now in pairs),
        )
        found.forget_future()
        return found

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
    elsewhere: Elsewhere | None = None,
) -> Ranges:
    """Return the ranges over the texts; `cache` is the file that keeps them, or is to.

    The texts are run here, or `elsewhere`.
    """
    if not texts:
        raise TextError("calibration needs at least one text.")
    layout = setup.kernels.layout
    kept = None if cache is None else _load(cache, layout)
    partial = None if cache is None else Unfinished(cache.with_suffix(".partial"), "calibration")
    if kept is not None and partial is not None:
        partial.remove()  # a kill may have left it
        advance(len(texts))
        return kept
    ranges = _begun(partial, layout, max_length)
    advance(ranges.texts)
    places = reference_places(len(texts), [states.shape[1] for states in ranges.pooled])
    cuts = cut_in_pieces(taps.subject, len(texts) - ranges.texts, CHUNK)
    done = ranges.texts
    asked = Made(len(cuts), lambda number: _asked(texts, places, done, cuts[number]))
    here = partial_of(_here, taps, setup, ranges, max_length, batch_size, advance)
    for found in (elsewhere or here)(asked):
        ranges = ranges.widened(found)
        if partial is not None and ranges.texts < len(texts):
            _keep(ranges, partial.path)
    if not (ranges.low <= ranges.high).any():
        raise TextError("no calibration text has any token: there is nothing to measure.")
    ranges = replace(ranges, space=learn_space(ranges.pooled, places), pooled=())
    if cache is not None and partial is not None:
        _keep(ranges, cache)
        partial.remove()
    return ranges


def _begun(partial: Unfinished | None, layout: Layout, max_length: int) -> Ranges:
    """Return the ranges of a calibration that was interrupted, or empty ones."""
    kept = partial and partial.load(
        lambda path: _load(path, layout), lambda one: counted(one.texts, "text")
    )
    return kept or Ranges.empty(layout, max_length)


def _here(
    taps: Taps,
    setup: Setup,
    ranges: Ranges,
    max_length: int,
    batch_size: int | None,
    advance: Advance,
    asked: Sequence[Asked],
) -> Iterator[Observed]:
    """Run texts in this process, the next of which are tokenised meanwhile."""
    bounds = ranges.on(setup.kernels)

    def prepare(one: Asked) -> tuple[Piece, NDArray[np.int64]]:
        return piece_of(taps.subject, one[0], max_length), one[1]

    with ahead(1 if taps.subject.answerer else len(asked)) as each:
        for piece, kept in each(prepare, asked):
            what = taps, setup, bounds, piece, kept
            yield observe(*what, max_length, batch_size, advance)


def _asked(texts: Sequence[Text], places: NDArray[np.int64], done: int, cut: slice) -> Asked:
    """Return the texts of a cut behind those that are done, and which of them are kept."""
    start, stop = done + cut.start, min(len(texts), done + cut.stop)
    return texts[start:stop], places[(places >= start) & (places < stop)] - start


def observe(
    taps: Taps,
    setup: Setup,
    bounds: Bounds,
    piece: Piece,
    kept: NDArray[np.int64],
    max_length: int,
    batch_size: int | None,
    advance: Advance,
) -> Observed:
    """Widen bounds by texts; `kept` are the places of those whose pooled states are returned."""
    mine, kernels = piece.which[kept], setup.kernels
    reader = WidenReader([setup._replace(bounds=bounds)])
    pools = PoolReader.raw(reader, kernels.layout, len(piece.first), mine)
    measure_piece(taps, piece, pools, batch_size, advance)
    places = np.searchsorted(np.unique(mine), mine)  # the same text may be wanted twice
    states = tuple(states[places] for states in pools.found)
    lengths = np.bincount(piece.tokens.lengths, minlength=max_length + 1)
    low, high = map(kernels.to_numpy, bounds)
    return Observed(low, high, lengths, len(piece.texts), states)


def joined_observed(found: Sequence[Observed]) -> Observed:
    """Return what was seen of several pieces, in their order, as if they were one."""
    return Observed(
        np.minimum.reduce([one.low for one in found]),
        np.maximum.reduce([one.high for one in found]),
        np.sum([one.lengths for one in found], axis=0),
        sum(one.texts for one in found),
        tuple(np.concatenate(part) for part in zip(*(one.pooled for one in found), strict=True)),
    )


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
