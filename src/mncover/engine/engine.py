"""The run side in one object: a subject, its taps, its kernels, its criteria and its ranges.

It measures and keeps no results; maps are handed in. `Coverage` is the one that makes engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.criteria.base import ALL, Criterion, Group
from mncover.data.calibration import Calibration
from mncover.data.files import cache_folder
from mncover.data.identity import Identity
from mncover.data.signatures import SignatureSpace
from mncover.engine import elsewhere, pieces
from mncover.engine import ranges as calibration
from mncover.engine.asked import Hit
from mncover.engine.elsewhere import Elsewhere
from mncover.engine.fused import fused_taps
from mncover.engine.kernels import AUTO
from mncover.engine.kernels.base import Array, Kernels
from mncover.engine.loading import fingerprint_model, fingerprint_tokenizer
from mncover.engine.masking import Keep
from mncover.engine.measure import (
    Advance,
    Piece,
    cut_in_pieces,
    in_pieces,
    measure,
)
from mncover.engine.ordered import Ordered
from mncover.engine.probe import find_taps
from mncover.engine.ranges import Ranges
from mncover.engine.readers import Reader
from mncover.engine.references import MOST, References, references_of
from mncover.engine.setups import Setups
from mncover.engine.signatures import PoolReader, Projection, projections_on
from mncover.engine.statistics import statistical_taps
from mncover.engine.subject import Subject
from mncover.engine.taps import chosen_taps
from mncover.engine.windows import RunTexts, Window, Windows, Wrap
from mncover.engine.yardstick import describe
from mncover.errors import MismatchError, SettingsError
from mncover.report.progress import bar
from mncover.types import Settings, Text

if TYPE_CHECKING:
    from mncover.masks.masks import Masks


class Engine:
    """Runs texts through a subject and reduces what its taps see.

    `progress` None shows bars only on a terminal. The first criterion is the main one, which is
    meant wherever none is named.
    """

    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        criteria: Sequence[Criterion],
        masks: Masks | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
        kernels: str = AUTO,
        signatures: bool = True,
    ) -> None:
        if batch_size is not None and batch_size < 1:
            raise SettingsError(f"`batch_size` must be at least 1, got {batch_size}.")
        subject.check_length(settings.max_length)
        self.subject, self.settings, self.masks = subject, settings, masks
        self.batch_size, self.progress = batch_size, progress
        self.taps = chosen_taps(find_taps(subject), settings)
        self.layout = self.taps.layout(settings.max_length, settings.pooled)
        self.setups = Setups(criteria, settings, self.layout)
        if subject.device.type == "cpu":
            self.setups.room.require_memory()
        self.setups.run_on(subject.device, kernels)
        self._fuse()
        if masks is not None:
            masks.require_tokenizer(self.tokenizer_fingerprint)
            self.setups.keep = Keep(masks, self.kernels)
        self.signatures = signatures
        self.space: SignatureSpace | None = None
        self._projections: tuple[Projection, ...] = ()
        self.calibration: Calibration | None = None
        self.crew: Elsewhere | None = None  # who runs texts in its place

    def _fuse(self) -> None:
        """Let attention be computed by whoever reads it, if it is read and that is possible."""
        length = self.settings.max_length
        if not any(one.n for one in self.taps.heads):
            return
        if self.settings.pooled:
            # A language model that answers also runs on parts of texts, with what it has cached.
            if self.subject.prompting.plain:
                self.taps = statistical_taps(self.taps, length)
        elif self.kernels.fuses([one for one in self.setups.groups if one.view == ALL]):
            self.taps = fused_taps(self.taps, self.kernels, length, self.bar)

    @property
    def kernels(self) -> Kernels:
        """The kernels over all sites."""
        return self.setups.kernels

    @cached_property
    def model_fingerprint(self) -> str:
        """A digest of the model's weights."""
        return fingerprint_model(self.subject.model)

    @cached_property
    def tokenizer_fingerprint(self) -> str:
        """A digest of the tokenizer."""
        return fingerprint_tokenizer(self.subject.tokenizer)

    def bar(self, what: str, total: int) -> AbstractContextManager[Callable[[int], None]]:
        """Show progress; yield a function that is told how much more is done."""
        return bar(what, total, self.progress)

    # Criteria.

    @property
    def main(self) -> str:
        """The name of the main criterion."""
        return self.setups.main

    @property
    def criteria(self) -> dict[str, Criterion]:
        """The criteria by name."""
        return self.setups.criteria

    def check(self, criterion: str) -> str:
        """Return the name of a criterion that is measured; refuse another."""
        return self.setups.check(criterion)

    def group(self, criterion: str) -> Group:
        """Return the group that a criterion is in."""
        return self.setups.group(criterion)

    def gain(self, criterion: str, hidden: object, attention: object) -> NDArray[np.float64]:
        """Return newly hit cells, numbers or arrays, as what they add to a criterion."""
        return self.setups.gain(criterion, hidden, attention)

    def new_bits(self, criterion: str) -> Array:
        """Return a criterion's map in which nothing was hit."""
        return self.setups.new_bits(criterion)

    def new_maps(self) -> dict[str, Array]:
        """Return a map of each criterion in which nothing was hit."""
        return {name: self.new_bits(name) for name in self.criteria}

    # Identity.

    def identity(self) -> Identity:
        """Return what tells this measurement from others."""
        ranges = self.require_ranges()
        return Identity(
            model=self.subject.name,
            model_fingerprint=self.model_fingerprint,
            tokenizer_fingerprint=self.tokenizer_fingerprint,
            ranges_fingerprint=ranges.fingerprint,
            settings=self.settings,
            layout=self.layout,
            labels=tuple(self.subject.labels),
            calibration_texts=ranges.texts,
            masks=None if self.masks is None else self.masks.summary(),
            criteria=self.setups.measured(),
            prompting=self.subject.prompting,
        )

    def require_same_subject(self, identity: Identity) -> None:
        """Refuse data that was measured on another model or tokenizer, or with other masks."""
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

    # Ranges.

    @property
    def ranges(self) -> Ranges | None:
        """The ranges, if they are known."""
        return self.setups.ranges

    def require_ranges(self) -> Ranges:
        """Return the ranges; refuse if there are none yet."""
        return self.setups.require_ranges()

    def calibrate(self, texts: Sequence[Text], cache: bool) -> Ranges:
        """Return the ranges over texts, from the cache if they are there."""
        size, length = self.setups.room.ranges, self.settings.max_length
        path = calibration.kept_at(self.cache_path(texts), size) if cache else None
        with self.bar("Calibrating", len(texts)) as tell:
            what = self.taps, self.setups.widening, texts, length, self.batch_size
            crew = (
                None if self.crew is None else partial(self.crew, self, "calibrate", advance=tell)
            )
            return calibration.calibrate(*what, tell, path, crew)

    def cache_path(self, texts: Sequence[Text]) -> Path:
        """Return the file that keeps the ranges over texts."""
        digests = self.model_fingerprint, self.tokenizer_fingerprint
        key = calibration.cache_key(*digests, texts, self.taps, self.settings)
        return cache_folder("ranges") / f"{key}.safetensors"

    def use_ranges(self, ranges: Ranges) -> None:
        """Cut bins by these ranges from now on."""
        self.setups.use_ranges(ranges)
        if ranges.space is not None:
            self.use_space(ranges.space)

    def settle(self, ranges: Ranges, texts: Sequence[Text], draw: bool, cache: bool) -> None:
        """Do the same, and describe the texts; with `draw`, by what random ones of them reach.

        Draws from texts that widen earlier ranges would not be draws from all of them.
        """
        before = self.ranges
        if self.setups.needs_references:
            ranges = replace(ranges, references=self._references(ranges.references, texts, cache))
        self.use_ranges(ranges)
        try:
            self.calibration = describe(self, texts, draw and before is None, cache)
        except BaseException:
            self.setups.ranges = before  # otherwise the next call would widen what it finds
            raise

    def _references(
        self, before: References | None, texts: Sequence[Text], cache: bool
    ) -> References:
        """Return what texts are compared with, those of earlier calibrations included."""
        path = self.cache_path(texts).with_suffix(".means") if cache else None
        with self.bar("References", MOST) as advance:
            what = self.taps, self.settings.max_length, self.batch_size, advance
            found = references_of(texts, *what, path)
        return found if before is None else before.merge(found)

    # Signatures.

    def use_space(self, space: SignatureSpace) -> None:
        """Make signatures by this projection from now on."""
        self.space = space
        self._projections = projections_on(space, self.subject.device)

    def sign(self, inner: Reader | None, texts: int) -> PoolReader:
        """Return a reader of signatures around another; of none, if they are not wanted."""
        projections = self._projections if self.signatures else ()
        return PoolReader.projected(inner, self.layout, texts, projections)

    def signing(self, texts: int) -> PoolReader:
        """Return a reader of signatures and of nothing else, also where they are not kept."""
        return PoolReader.projected(None, self.layout, texts, self._projections)

    def answers(self, texts: Sequence[Text]) -> tuple[NDArray[np.float32], NDArray[np.float16]]:
        """Return the class probabilities and signatures of texts; nothing is counted."""
        with self.bar("Running", len(texts)) as advance:
            if self.crew is None:
                with self.pieces(texts) as each:
                    found = [pieces.answer(self, piece, advance) for piece in each]
            else:
                found = elsewhere.answers(self.crew, self, texts, advance)
        if not found:
            none = np.empty((0, self.subject.n_labels), dtype=np.float32)
            return none, self.signing(0).signatures
        probabilities, signatures = zip(*found, strict=True)
        return np.concatenate(probabilities), np.concatenate(signatures)

    # Measuring.

    def hit(self, texts: Sequence[Text], maps: Mapping[str, Array]) -> Iterator[Hit]:
        """Add the hits of texts to maps, piece by piece, in any order within a piece."""
        with self.bar("Measuring", len(texts)) as advance:
            if self.crew is not None:
                yield from elsewhere.hit(self.crew, self, texts, maps, advance)
                return
            with self.pieces(texts) as each:
                for piece in each:
                    yield pieces.hit(self, piece, maps, advance)

    def pieces(
        self, texts: Sequence[Text], cuts: Sequence[slice] | None = None
    ) -> AbstractContextManager[Iterator[Piece]]:
        """Return texts as tokens, piece by piece."""
        cuts = cut_in_pieces(self.subject, len(texts)) if cuts is None else cuts
        return in_pieces(self.subject, texts, self.settings.max_length, cuts)

    def first_gains(
        self, cases: Sequence[Sequence[Text]], bits: Array, criterion: str, advance: Advance
    ) -> NDArray[np.float64] | None:
        """Add cases to a map; return what each adds, or None if kernels have no loops for that."""
        if self.crew is not None:
            return elsewhere.first_gains(self.crew, self, cases, bits, criterion, advance)
        return pieces.first_gains(self, cases, bits, criterion, advance)

    def gains(self, texts: Sequence[Text], bits: Array, criterion: str) -> NDArray[np.float64]:
        """Return what each text would add to a criterion's map, which does not change."""
        new: list[tuple[int, int]] = []
        with self.bar("Measuring", len(texts)) as advance:
            for window in self.windows([[text] for text in texts], advance):
                ordered, rows = self.ordered(window, criterion), range(len(window.texts))
                if ordered is None:
                    new += [self.add(window, row, bits, criterion, store=False) for row in rows]
                else:
                    new += ordered.new_to(bits).T.tolist()
        return self.gain(criterion, *np.array(new, dtype=np.int64).reshape(-1, 2).T)

    def windows(
        self,
        cases: Sequence[Sequence[Text]],
        advance: Advance,
        whole: bool = False,
        run: RunTexts = measure,
        wrap: Wrap | None = None,
        done: int = 0,
    ) -> Iterator[Window]:
        """Run cases after the first `done`, window by window, or as one window."""
        windows = Windows(self.taps, self.setups, self.batch_size, run, wrap)
        return windows.over(cases, advance, whole, done)

    def codes(self, window: Window, row: int, criterion: str) -> Array:
        """Return the codes of a window's text that count for a criterion."""
        group = self.group(criterion)
        return window.codes(row, group, masked=criterion == group.masked)

    def add(
        self, window: Window, row: int, bits: Array, criterion: str, store: bool = True
    ) -> tuple[int, int]:
        """Count the hidden and attention cells of a window's text that are new to a map.

        With `store` they are added to it.
        """
        length = window.length(row)
        if not length:
            return 0, 0
        return self.walk(self.codes(window, row, criterion), length, bits, criterion, store)

    def new_cells(self, window: Window, row: int, bits: Array, criterion: str) -> NDArray[np.int64]:
        """Add a window's text to a map; return the cells that are new to it."""
        length = window.length(row)
        if not length:
            return np.empty(0, dtype=np.int64)
        kernels, cells = self.setups.kernels_of(criterion), self.group(criterion).cells
        codes, rows = self.codes(window, row, criterion), kernels.layout.touched_rows(length)
        each = [codes] if codes.ndim == 1 else codes
        return np.concatenate([kernels.add_cells(one, rows, cells, bits) for one in each])

    def walk(
        self, codes: Array, length: int, bits: Array, criterion: str, store: bool = True
    ) -> tuple[int, int]:
        """Do the same for a text of `length` tokens whose codes are given, perhaps in rows."""
        kernels, cells = self.setups.kernels_of(criterion), self.group(criterion).cells
        rows = kernels.layout.touched_rows(length)
        if codes.ndim == 1:
            return kernels.walk(codes, rows, cells, bits, store)
        # No two rows have the same cell of a neuron, so they may be counted one by one.
        new = [kernels.walk(one, rows, cells, bits, store) for one in codes]
        return sum(hidden for hidden, _ in new), sum(attention for _, attention in new)

    def ordered(self, window: Window, criterion: str) -> Ordered | None:
        """Return the cases of a window all at once, if the kernels have loops for that."""
        group = self.group(criterion)
        kernels = self.setups.kernels_of(criterion).for_windows(group.cells)
        if kernels is None or self.settings.positions == "any":  # whose texts have several rows
            return None
        blocks, where = window.spool.blocks(1 + int(window.which.max(initial=-1)), group)
        if criterion != group.masked:
            blocks = [replace(block, keep=None) for block in blocks]
        return Ordered(kernels, group.cells, blocks, where, window.cases, window.which)

    def unite(self, window: Window, cases: NDArray[np.int64], bits: Array, criterion: str) -> None:
        """Add some cases of a window to a map."""
        ordered = self.ordered(window, criterion)
        if ordered is None:
            for row in (row for case in cases.tolist() for row in window.cases[case]):
                self.add(window, row, bits, criterion)
            return
        chosen = np.zeros(ordered.n, dtype=bool)
        chosen[cases] = True
        ordered.start().add(chosen, np.zeros(ordered.n, dtype=np.int64)).store(bits)

    def copy_touched(self, length: int, criterion: str, source: Array, target: Array) -> None:
        """Copy the part of a criterion's map that a text of `length` tokens can touch."""
        kernels, cells = self.setups.kernels_of(criterion), self.group(criterion).cells
        kernels.copy_touched(kernels.layout.touched_rows(length), cells, source, target)
