"""The public `Coverage` object: one method for each command.

Whoever measures, the command line and the experiments included, calls nothing else. Torch is
imported when a model is given, not before: data files are read and reported without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mncover.data import datafile
from mncover.data.files import Say, silent
from mncover.data.identity import Run
from mncover.data.prompting import Prompting
from mncover.data.store import CoverageData
from mncover.engine.questions import Questions
from mncover.errors import MismatchError, ModelError
from mncover.suites import intake
from mncover.suites.formats.records import Fields
from mncover.suites.model import How
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.augment.records import Augmented
    from mncover.augment.transforms import Resources
    from mncover.engine.engine import Engine
    from mncover.engine.recorder import Recorder
    from mncover.masks.masks import Masks


class Coverage(Questions):
    """Measures how much of a model's inside texts exercise.

    `model` and `tokenizer` are Hugging Face objects, or a folder or hub name; a pipeline, a
    sentence-transformers model and a PEFT model are unwrapped. The model is used where it is (CPU
    or GPU) and left as it was found; `device` and `dtype` are for a model that is loaded by name.
    With `masks`, or their file, mnCover is measured beside Cover; `criteria` names what to measure
    instead, `positions` and `sites` say of which neurons. `prompting` makes prompts of texts, and
    says how a language model answers. `kernels` is one of `mncover.engine.kernels.KERNELS`.
    `progress` None shows bars only on a terminal. With `signatures`, a small vector of what the
    model made of each text is kept. `workers` share the texts, on this machine or, with `ray`, on
    the Ray cluster at that address; `close` ends them. `device_map` spreads one model over devices.

        cov = Coverage("path/to/model", bins=10)
        cov.calibrate(train_texts)
        cov.update(["Not bad at all."], context="negation")
        print(cov.result().cover)

    Texts come as a list, or as a table (a DataFrame, a data set, a dictionary of columns, a file
    as a Path, `hf:NAME:SPLIT`), whose columns `text`, `pair`, `label` and `context` name.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        bins: int = 10,
        max_length: int = 128,
        attention_weight: float = 1.0,
        positions: str = "each",
        sites: str = "all",
        masks: Masks | str | Path | None = None,
        criteria: Sequence[str] | None = None,
        prompting: Prompting | None = None,
        batch_size: int | None = None,
        device: str | None = None,
        device_map: str | None = None,
        dtype: str = "auto",
        kernels: str = "auto",
        progress: bool | None = None,
        signatures: bool = True,
        workers: int | None = None,
        ray: str | None = None,
    ) -> None:
        from mncover.engine.cluster import Spread
        from mncover.masks.assembly import assembled

        settings = Settings(bins, max_length, attention_weight, positions, sites)
        loading = (model, tokenizer, device, dtype, prompting, device_map)
        running = (batch_size, progress, kernels, signatures)
        what = (loading, settings, criteria, masks, running, Spread.of(workers, ray))
        self._engine: Engine | None = assembled(*what)
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
        batch_size: int | None = None,
        device: str | None = None,
        device_map: str | None = None,
        dtype: str = "auto",
        kernels: str = "auto",
        progress: bool | None = None,
        workers: int | None = None,
        ray: str | None = None,
    ) -> Coverage:
        """Read a data file.

        Without a model the object can report, save and unite. With the model, and the masks,
        that the file was measured with, it can go on measuring after `calibrate` with the same
        texts.
        """
        data = datafile.read(Path(path))
        if model is None:
            return cls._of(data, None)
        from mncover.engine.cluster import Spread
        from mncover.masks.assembly import assembled

        loading = (model, tokenizer, device, dtype, data.identity.prompting, device_map)
        running = (batch_size, progress, kernels, data.space is not None or not data.n_rows)
        identity = data.identity
        criteria = identity.names if masks is not None or identity.masks is None else None
        spread = Spread.of(workers, ray)
        engine = assembled(loading, identity.settings, criteria, masks, running, spread)
        engine.require_same_subject(identity)
        if data.space is not None:
            engine.use_space(data.space)
        return cls._of(data, engine)

    @classmethod
    def _of(cls, data: CoverageData, engine: Engine | None) -> Coverage:
        cov = cls.__new__(cls)
        cov._engine, cov._data, cov._recorder = engine, data, None
        return cov

    def calibrate(
        self,
        texts: Any,
        cache: bool = True,
        labels: Sequence[Any] | None = None,
        *,
        text: str | None = None,
        pair: str | None = None,
        label: str | None = None,
        yardstick: bool = True,
    ) -> Coverage:
        """Learn the range of every neuron from texts, normally the training set.

        A second call widens the ranges by further texts. Once coverage was measured only the
        same ranges are accepted, because bins must not change under what was counted. With
        `cache`, ranges are kept in the user's cache folder and found again. `labels`, class
        numbers or names, are for scores that look at nearest texts. With `yardstick`, a sample
        runs again, to find what as many random texts reach.
        """
        engine, fields = self.engine, Fields(text, pair, label)
        checked, numbers = intake.given_pool(texts, fields, labels, engine.subject.labels)
        ranges = engine.calibrate(checked, cache)
        if numbers is not None and ranges.space is not None:
            ranges = replace(ranges, space=ranges.space.labelled(numbers))
        if engine.ranges is not None:
            ranges = engine.ranges.merge(ranges)
        if self._data is not None and not self._data.n_rows:
            self._data = self._recorder = None  # nothing was measured yet
        known = self._data.identity.ranges_fingerprint if self._data else None
        if known not in (None, ranges.fingerprint):
            raise MismatchError(
                "coverage was already measured with other ranges: "
                "calibrate on the same texts, or start with a new Coverage."
            )
        engine.settle(ranges, checked, yardstick and known is None, cache)
        return self

    def update(
        self,
        texts: Any,
        context: str | Sequence[str] = "",
        labels: Sequence[Any] | None = None,
        gains: bool = False,
        *,
        text: str | None = None,
        pair: str | None = None,
        label: str | None = None,
    ) -> Coverage:
        """Measure texts and add their hits, kept apart under `context`.

        `context` is one name, or one per text, or a column of a table; texts of one context are
        measured together, in the order in which contexts first appear. `labels` are class numbers
        or names. With `gains`, what each text adds in that order is recorded too, which takes a
        little longer.
        """
        engine, recorder = self.engine, self._require_recorder()
        found = intake.given_rows(texts, Fields(text, pair, label), context, labels)
        rows = found.without_cases().numbered(engine.subject.labels)
        if not gains:
            recorder.record(rows)
            return self
        with engine.bar("Measuring", len(rows)) as advance:
            for _ in recorder.record_in_order(rows.by_context(), advance):
                pass
        return self

    def run(
        self,
        suite: Any,
        output: str | Path,
        train: Any = None,
        classes: How = "auto",
        say: Say = silent,
        reuse: bool = False,
        *,
        text: str | None = None,
        pair: str | None = None,
        label: str | None = None,
        context: str | None = None,
    ) -> Coverage:
        """Run a suite of tests or texts, from a file or handed in, and write the data file.

        What was measured before is left alone: the result is another object, of this run. With
        `train`, it calibrates first. Strings are paths here. An interrupted run resumes; with
        `reuse`, one that is finished is read instead. `classes` says how the model's classes
        correspond to the suite's, and `say` is told what a person should know.
        """
        from mncover.engine.suite_run import SuiteRun

        rows = intake.given_suite(suite, Fields(text, pair, label, context))
        job = SuiteRun(self.engine, rows, Path(output), classes, say)
        if train is not None:
            self.calibrate(intake.given_train(train, Fields(text, pair, label)))
        data = (job.finished() if reuse else None) or job.run()
        return Coverage._of(data, self._engine)

    def augment(
        self,
        seeds: Any,
        transforms: Sequence[str] = (),
        guide: str = "cover",
        similarity: float = 0.85,
        threshold: float = 0.0,
        max_iter: int = 10,
        seed: int = 0,
        encoder: str | Path | None = None,
        resources: Resources | None = None,
        *,
        text: str | None = None,
        pair: str | None = None,
    ) -> Augmented:
        """Grow a list of texts by variants that make the model do something new: Algorithm 1.

        Each seed is changed by two transformations, of those named or of the usable sixteen,
        until the outcome adds more than `threshold` to the seeds and what was accepted before, and
        its embedding by `encoder`, or by this model, has a cosine of at least `similarity` with
        its seed's. `guide` is a criterion or "none". Nothing in this object changes.
        """
        from mncover.augment.grower import Grower
        from mncover.augment.records import AugmentSettings, check_guide
        from mncover.augment.transforms import Resources

        engine = self._calibrated()
        grower = Grower.make(engine, transforms, encoder, resources or Resources())
        settings = AugmentSettings(
            tuple(grower.transforms), check_guide(guide), similarity, threshold, max_iter, seed
        )
        return grower.grow(intake.given_texts(seeds, text, pair), settings)

    def close(self) -> None:
        """End the workers, if there are any; the next measurement starts new ones."""
        if self._engine is not None and self._engine.crew is not None:
            self._engine.crew.close()

    def __or__(self, other: Coverage) -> Coverage:
        if not isinstance(other, Coverage):
            return NotImplemented
        return Coverage._of(self.data.union(other.data), self._engine or other._engine)

    @property
    def data(self) -> CoverageData:
        """Everything measured, as the reading half knows it."""
        if self._data is None:
            self._data = CoverageData(self.engine.identity(), self.engine.calibration)
        if self._recorder is not None:
            self._recorder.close()
        return self._data

    @property
    def engine(self) -> Engine:
        """What runs the model; refuses if there is no model."""
        if self._engine is None:
            raise ModelError(
                "this Coverage was loaded without a model, so it cannot measure: "
                "use Coverage.load(path, model, tokenizer)."
            )
        return self._engine

    def _require_recorder(self) -> Recorder:
        from mncover.engine.recorder import Recorder

        engine = self._calibrated()
        if self._recorder is None:
            self._recorder = Recorder(engine, self.data, Run.start())
        return self._recorder
