"""The public `Coverage` object: calibrate, update, gain, filter, result, save, load, union."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.augment.grower import Grower
from mncover.augment.records import Augmented, AugmentSettings, check_guide
from mncover.augment.transforms import Resources
from mncover.criteria import COVER, check_metric
from mncover.data import datafile
from mncover.data.results import Result, gain_share, summarize
from mncover.data.store import CoverageData, Run
from mncover.engine.engine import Engine
from mncover.engine.loading import load_subject
from mncover.engine.recorder import Recorder
from mncover.errors import MismatchError, ModelError
from mncover.masks.masks import Masks
from mncover.report import plots
from mncover.report.progress import bar
from mncover.selection.greedy import greedy
from mncover.selection.sequential import Selection, sequential_filter
from mncover.suites.judging import judge_data
from mncover.suites.rows import Rows
from mncover.types import Settings, Text, check_cases, check_texts


class Coverage:
    """Measures how much of a model's inside texts exercise.

    `model` and `tokenizer` are Hugging Face objects, or a folder or hub name. The model is used
    where it lies (CPU or GPU) and is left as it was found; `device` and `dtype` are for a model
    that is loaded by name. With `masks`, or the path of a file of them, mnCover is measured
    beside Cover. `progress` None shows bars only on a terminal.

        cov = Coverage("path/to/model", bins=10)
        cov.calibrate(train_texts)
        cov.update(["Not bad at all."], context="negation")
        print(cov.result().cover)
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        bins: int = 10,
        max_length: int = 128,
        attention_weight: float = 1.0,
        masks: Masks | str | Path | None = None,
        batch_size: int = 32,
        device: str | None = None,
        dtype: str = "auto",
        progress: bool | None = None,
    ) -> None:
        settings = Settings(bins, max_length, attention_weight)
        subject = load_subject(model, tokenizer, device, dtype)
        self._engine: Engine | None = Engine(
            subject, settings, batch_size, progress, _loaded(masks)
        )
        self._data: CoverageData | None = None
        self._recorder: Recorder | None = None

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: Any = None,
        tokenizer: Any = None,
        *,
        masks: Masks | str | Path | None = None,
        batch_size: int = 32,
        progress: bool | None = None,
    ) -> Coverage:
        """Read a data file.

        Without a model the object can report, save and unite. With the model, and the masks,
        that the file was measured with, it can go on measuring after `calibrate` with the same
        texts.
        """
        data = datafile.read(Path(path))
        if model is None:
            return cls._of(data, None)
        subject = load_subject(model, tokenizer)
        engine = Engine(subject, data.identity.settings, batch_size, progress, _loaded(masks))
        engine.require_same_subject(data.identity)
        return cls._of(data, engine)

    @classmethod
    def _of(cls, data: CoverageData, engine: Engine | None) -> Coverage:
        cov = cls.__new__(cls)
        cov._engine, cov._data, cov._recorder = engine, data, None
        return cov

    def calibrate(self, texts: Iterable[Text], cache: bool = True) -> Coverage:
        """Learn the range of every neuron from texts, normally the training set.

        A second call widens the ranges by further texts. Once coverage was measured only the
        same ranges are accepted, because bins must not change under what was counted. With
        `cache`, ranges are kept in the user's cache folder and found again.
        """
        engine = self._require_engine()
        ranges = engine.calibrate(check_texts(texts), cache)
        if engine.ranges is not None:
            ranges = engine.ranges.merge(ranges)
        if self._data is not None and not len(self._data.table):
            self._data = self._recorder = None  # nothing was measured yet
        known = self._data.identity.ranges_fingerprint if self._data else None
        if known not in (None, ranges.fingerprint):
            raise MismatchError(
                "coverage was already measured with other ranges: "
                "calibrate on the same texts, or start with a new Coverage."
            )
        engine.use_ranges(ranges)
        return self

    def update(
        self,
        texts: Iterable[Text],
        context: str | Sequence[str] = "",
        labels: Sequence[Any] | None = None,
        gains: bool = False,
    ) -> Coverage:
        """Measure texts and add their hits, kept apart under `context`.

        `context` is one name, or one per text; texts of one context are then measured together,
        in the order in which contexts first appear. `labels` are class numbers or names. With
        `gains`, what each text adds in that order is recorded too, which takes a little longer.
        """
        engine, recorder = self._require_engine(), self._require_recorder()
        rows = Rows.make(check_texts(texts), context, labels).numbered(engine.subject.labels)
        if not gains:
            recorder.record(rows)
            return self
        with bar("Measuring", len(rows), engine.progress) as advance:
            for _ in recorder.record_in_order(rows.by_context(), advance):
                pass
        return self

    def gain(self, texts: Iterable[Text], metric: str = COVER) -> NDArray[np.float64]:
        """Return what each text would add to Cover, or to mnCover, now; nothing changes."""
        engine, recorder = self._require_engine(), self._require_recorder()
        known = check_metric(metric, engine.masks is not None)
        hidden, attention = engine.novel(check_texts(texts), recorder.total.of(known), known)
        shares = gain_share(engine.layout, engine.settings, hidden, attention)
        return np.asarray(shares, dtype=np.float64)

    def filter(
        self,
        cases: Iterable[Text | Sequence[Text]],
        threshold: float = 0.0,
        on_top: bool = False,
        metric: str = COVER,
    ) -> Selection:
        """Visit cases in order; keep those that add more than `threshold` to what was kept.

        A case is a list of texts, or one text. It starts from nothing kept, or, with `on_top`,
        from what this object has covered. `metric` says what a gain is measured by: "cover" or
        "mncover". Nothing in this object changes.
        """
        engine, recorder = self._require_engine(), self._require_recorder()
        known = check_metric(metric, engine.masks is not None)
        words = engine.backend.new_map()
        if on_top:
            words |= recorder.total.of(known)
        return sequential_filter(engine, check_cases(cases), threshold, words, known)

    def greedy(
        self,
        cases: Iterable[Text | Sequence[Text]],
        budget: int | None = None,
        threshold: float = 0.0,
        metric: str = COVER,
    ) -> Selection:
        """Take the case that adds most to those taken before, again and again.

        It starts from nothing and ends after `budget` cases, or when none adds more than
        `threshold`. `kept` is in the order of taking. Nothing in this object changes.
        """
        engine = self._require_engine()
        _ = engine.bounds  # refuses, before any work, to measure without ranges
        known = check_metric(metric, engine.masks is not None)
        return greedy(engine, check_cases(cases), budget, threshold, known)

    def augment(
        self,
        seeds: Iterable[Text],
        transforms: Sequence[str] = (),
        guide: str = COVER,
        similarity: float = 0.85,
        threshold: float = 0.0,
        max_iter: int = 10,
        seed: int = 0,
        encoder: str | Path | None = None,
        resources: Resources | None = None,
    ) -> Augmented:
        """Grow a list of texts by variants that make the model do something new: Algorithm 1.

        Each seed is changed by two transformations, of those named or of all that can be used,
        until the outcome adds more than `threshold` to the seeds and what was accepted before, and
        its embedding by `encoder`, or by this model, has a cosine of at least `similarity` with
        its seed's. `guide` is "cover", "mncover" or "none". Nothing in this object changes.

            found = cov.augment(train_texts, encoder="path/to/encoder")
            print([one.text for one in found.accepted])
        """
        engine = self._require_engine()
        _ = engine.bounds  # refuses, before any work, to measure without ranges
        grower = Grower.make(engine, transforms, encoder, resources or Resources())
        settings = AugmentSettings(
            tuple(grower.transforms), check_guide(guide), similarity, threshold, max_iter, seed
        )
        return grower.grow(check_texts(seeds), settings)

    def result(self) -> Result:
        """Return the numbers: Cover and mnCover, bins by kind, layer, head and context."""
        return summarize(self.data, tuple(judge_data(self.data)))

    def plot_contexts(self) -> Any:
        """Return a matplotlib figure of what each context covers, and what only it covers."""
        return plots.contexts_figure(self.result())

    def plot_layers(self) -> Any:
        """Return a matplotlib figure of the coverage of words and attention in each layer."""
        return plots.layers_figure(self.result())

    def plot_heads(self) -> Any:
        """Return a matplotlib figure of the coverage of every attention head."""
        return plots.heads_figure(self.result())

    def save(self, path: str | Path) -> None:
        """Write everything measured to a data file, replacing it in one step."""
        datafile.write(self.data, Path(path))

    def __or__(self, other: Coverage) -> Coverage:
        if not isinstance(other, Coverage):
            return NotImplemented
        return Coverage._of(self.data.union(other.data), self._engine or other._engine)

    @property
    def data(self) -> CoverageData:
        """Everything measured, as the reading half knows it."""
        if self._data is None:
            self._data = CoverageData(self._require_engine().identity())
        if self._recorder is not None:
            self._recorder.close()
        return self._data

    def _require_engine(self) -> Engine:
        if self._engine is None:
            raise ModelError(
                "this Coverage was loaded without a model, so it cannot measure: "
                "use Coverage.load(path, model, tokenizer)."
            )
        return self._engine

    def _require_recorder(self) -> Recorder:
        engine = self._require_engine()
        _ = engine.bounds  # refuses, before any work, to measure without ranges
        if self._recorder is None:
            self._recorder = Recorder(engine, self.data, Run.start())
        return self._recorder


def _loaded(masks: Masks | str | Path | None) -> Masks | None:
    return masks if masks is None or isinstance(masks, Masks) else Masks.load(masks)
