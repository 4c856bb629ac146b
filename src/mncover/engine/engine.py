"""The run side in one object: a subject, its taps, its kernels and its ranges.

It measures and keeps no results; maps are handed in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mncover.augment.packing import Packing, find_packing
from mncover.criteria import COVER, MNCOVER, Metric
from mncover.data.files import cache_folder
from mncover.data.store import Identity
from mncover.engine import ranges as calibration
from mncover.engine.batches import Encoding, distinct
from mncover.engine.hits import Hits
from mncover.engine.kernels.backend import Array, Backend
from mncover.engine.loading import fingerprint_model, fingerprint_tokenizer
from mncover.engine.masking import Keep, MaskTable
from mncover.engine.measure import Advance, measure
from mncover.engine.ranges import Ranges
from mncover.engine.readers import HitReader, NovelReader
from mncover.engine.subject import Subject
from mncover.engine.taps import find_taps
from mncover.engine.windows import Window, windows
from mncover.errors import MismatchError, NotCalibratedError, SettingsError
from mncover.masks.masks import Masks
from mncover.report.progress import bar
from mncover.types import Settings, Text

# Texts are tokenised and sorted in pieces of this many, so that no list of a whole training
# set's tokens is ever held.
PIECE = 8192


class Engine:
    """Runs texts through a subject and reduces what its taps see."""

    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        batch_size: int,
        progress: bool | None,
        masks: Masks | None = None,
    ) -> None:
        if batch_size < 1:
            raise SettingsError(f"`batch_size` must be at least 1, got {batch_size}.")
        subject.check_length(settings.max_length)
        self.subject = subject
        self.settings = settings
        self.batch_size = batch_size
        self.progress = progress
        self.taps = find_taps(subject)
        self.layout = self.taps.layout(settings.max_length)
        self.backend = Backend(self.layout, settings.bins, subject.device)
        self.masks = masks
        if masks is not None:
            masks.require_tokenizer(self.tokenizer_fingerprint)
        self.ranges: Ranges | None = None
        self._bounds: tuple[Array, Array] | None = None

    @cached_property
    def model_fingerprint(self) -> str:
        """A digest of the model's weights."""
        return fingerprint_model(self.subject.model)

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """A digest of the tokenizer."""
        return fingerprint_tokenizer(self.subject.tokenizer)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Low and high of every neuron, on the subject's device."""
        if self._bounds is None:
            raise NotCalibratedError("call calibrate() first: without ranges there are no bins.")
        return self._bounds

    def identity(self) -> Identity:
        """Return what tells this measurement from others."""
        if self.ranges is None:
            raise NotCalibratedError("call calibrate() first: without ranges there are no bins.")
        reachable = self.ranges.reachable_bins(self.settings.bins)
        return Identity(
            model=self.subject.name,
            model_fingerprint=self.model_fingerprint,
            tokenizer_fingerprint=self.tokenizer_fingerprint,
            ranges_fingerprint=self.ranges.fingerprint,
            settings=self.settings,
            layout=self.layout,
            labels=tuple(self.subject.labels),
            calibration_texts=self.ranges.texts,
            reachable=tuple(tuple(int(n) for n in groups) for groups in reachable),
            masks=None if self.masks is None else self.masks.summary(),
        )

    def require_same_subject(self, identity: Identity) -> None:
        """Refuse data that was measured on another model or tokenizer."""
        for what, mine, theirs in (
            ("model", self.model_fingerprint, identity.model_fingerprint),
            ("tokenizer", self.tokenizer_fingerprint, identity.tokenizer_fingerprint),
        ):
            if mine != theirs:
                raise MismatchError(
                    f"the data was measured with another {what} ({theirs[:12]}, not {mine[:12]})."
                )
        given = None if self.masks is None else self.masks.fingerprint
        if given != (None if identity.masks is None else identity.masks.fingerprint):
            had = "without masks" if identity.masks is None else "with masks, but not with these"
            raise MismatchError(f"the data was measured {had}: give the same `masks`.")

    def calibrate(self, texts: Sequence[Text], cache: bool) -> Ranges:
        """Return the ranges over texts, from the cache if they are there."""
        path = None
        if cache:
            key = calibration.cache_key(
                self.model_fingerprint,
                self.tokenizer_fingerprint,
                texts,
                self.taps,
                self.settings.max_length,
            )
            path = cache_folder("ranges") / f"{key}.safetensors"
        with bar("Calibrating", len(texts), self.progress) as advance:
            return calibration.calibrate(
                self.taps, self.backend, texts, self.batch_size, advance, path
            )

    def use_ranges(self, ranges: Ranges) -> None:
        """Cut bins by these ranges from now on."""
        self.ranges = ranges
        to_device = self.backend.to_device
        self._bounds = (to_device(ranges.low), to_device(ranges.high))

    @cached_property
    def keep(self) -> Keep | None:
        """The look-up of what counts, if there are masks."""
        if self.masks is None:
            return None
        return Keep(MaskTable(self.masks, self.subject.device), self.backend)

    def new_hits(self) -> Hits:
        """Return maps in which nothing was hit."""
        return Hits.empty(self.backend, self.masks is not None)

    def hit(
        self, texts: Sequence[Text], hits: Hits
    ) -> Iterator[tuple[Sequence[Text], list[Encoding], NDArray[np.float32]]]:
        """Add the hits of texts to maps, piece by piece, in any order within a piece."""
        reader = HitReader(self.backend, *self.bounds, hits, self.keep)
        with bar("Measuring", len(texts), self.progress) as advance:
            for start in range(0, len(texts), PIECE):
                piece = texts[start : start + PIECE]
                encodings = self.subject.encode(piece, self.settings.max_length)
                first, which = distinct(encodings)
                advance(len(piece) - len(first))
                chosen = [piece[i] for i in first], [encodings[i] for i in first]
                found = measure(self.taps, *chosen, reader, self.batch_size, advance)
                yield piece, encodings, found[which]

    def novel(
        self, texts: Sequence[Text], words: Array, metric: Metric = COVER
    ) -> tuple[NDArray[np.int64], ...]:
        """Count the hidden and attention bins that each text would add to a metric's map."""
        keep = self.keep if metric == MNCOVER else None
        parts: list[list[NDArray[np.int64]]] = [[], []]
        with bar("Measuring", len(texts), self.progress) as advance:
            for start in range(0, len(texts), PIECE):
                piece = texts[start : start + PIECE]
                encodings = self.subject.encode(piece, self.settings.max_length)
                reader = NovelReader(self.backend, *self.bounds, words, len(piece), keep)
                measure(self.taps, piece, encodings, reader, self.batch_size, advance)
                for part, kind in zip(parts, ("hidden", "attention"), strict=True):
                    part.append(self.backend.to_numpy(reader.new_bins[kind]))
        nothing = [np.zeros(0, dtype=np.int64)]
        return tuple(np.concatenate(part or nothing) for part in parts)

    def windows(
        self, groups: Sequence[Sequence[Text]], advance: Advance, whole: bool = False
    ) -> Iterator[Window]:
        """Run groups of texts and yield them in order, window by window, or as one window."""
        run_by = (self.taps, self.backend, self.bounds)
        return windows(*run_by, groups, self.batch_size, advance, self.keep, whole)

    @cached_property
    def packing(self) -> Packing | None:
        """How texts of different lengths run together, if they can."""
        return find_packing(self.taps, self.settings.max_length)

    def embed(self, texts: Sequence[Text]) -> Iterator[Window]:
        """Run texts and yield them in order, with the means of their last hidden states.

        The windows have no probabilities.
        """
        return windows(
            self.taps,
            self.backend,
            self.bounds,
            [[text] for text in texts],
            self.batch_size,
            lambda n: None,
            self.keep,
            with_means=True,
            packing=self.packing,
        )

    def add(
        self,
        window: Window,
        row: int,
        words: Array,
        store: bool = True,
        metric: Metric = COVER,
    ) -> tuple[int, int]:
        """Count the hidden and attention bins of a window's text that are new to a metric's map.

        With `store` they are added to it.
        """
        length = window.length(row)
        if not length:
            return 0, 0
        return self.walk(window.codes(row, metric), length, words, store)

    def walk(self, codes: Array, length: int, words: Array, store: bool = True) -> tuple[int, int]:
        """Do the same for a text of `length` tokens whose codes are given."""
        backend = self.backend
        new = backend.kernels.walk(
            codes, backend.none, backend.table, length, backend.per_neuron, words, store
        )
        return int(new[0]), int(new[1])

    def copy_touched(self, length: int, source: Array, target: Array) -> None:
        """Copy the part of a map that a text of `length` tokens can touch."""
        backend = self.backend
        backend.kernels.copy_touched(backend.table, length, backend.per_neuron, source, target)
