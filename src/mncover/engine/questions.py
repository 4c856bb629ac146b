"""What a model can be asked without anything being counted: the half of `Coverage` that looks.

Torch is imported when a model is there, not before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mncover.report.reading import Reading
from mncover.selection.filters import Selection, greedy, sequential_filter
from mncover.selection.gap_groups import Gaps
from mncover.selection.sets import DRAWS, THRESHOLDS, Comparison, Curve, compare_sets, saturation
from mncover.suites import intake
from mncover.suites.formats.records import Fields
from mncover.suites.traffic import MOST, given_traffic

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.recorder import Recorder
    from mncover.engine.spaces import Space


class Questions(Reading):
    """The half of `Coverage` that asks a model; nothing in the object changes."""

    @property
    def engine(self) -> Engine:
        """What runs the model."""
        raise NotImplementedError

    def _require_recorder(self) -> Recorder:
        raise NotImplementedError

    def _calibrated(self) -> Engine:
        """Return the engine; refuse, before any work, to measure without ranges."""
        self.engine.require_ranges()
        return self.engine

    def gain(
        self,
        texts: Any,
        metric: str | None = None,
        *,
        text: str | None = None,
        pair: str | None = None,
    ) -> NDArray[np.float64]:
        """Return what each text would add to a criterion now; nothing changes."""
        engine, recorder = self.engine, self._require_recorder()
        name = engine.check(metric or engine.main)
        return engine.gains(intake.given_texts(texts, text, pair), recorder.total[name], name)

    def signatures(
        self, texts: Any, *, text: str | None = None, pair: str | None = None
    ) -> NDArray[np.float32]:
        """Return a small vector of what the model made of each text, [texts, numbers].

        Vectors compare if they come from one model, calibrated on the same texts. A text without
        tokens has NaN. Nothing in this object changes.
        """
        engine = self.engine
        if engine.space is None:
            engine.require_ranges()
        return engine.answers(intake.given_texts(texts, text, pair))[1].astype(np.float32)

    def filter(
        self,
        cases: Any,
        threshold: float = 0.0,
        on_top: bool = False,
        metric: str | None = None,
        *,
        text: str | None = None,
        pair: str | None = None,
    ) -> Selection:
        """Visit cases in order; keep those that add more than `threshold` to what was kept.

        A case is a list of texts, one text, or a row of a table. It starts from nothing kept, or,
        with `on_top`, from what this object has covered. `metric` is the criterion whose gain
        decides. Nothing in this object changes.
        """
        engine, recorder = self.engine, self._require_recorder()
        name = engine.check(metric or engine.main)
        bits = engine.new_bits(name)
        if on_top:
            bits |= recorder.total[name]
        return sequential_filter(
            engine, intake.given_cases(cases, text, pair), threshold, bits, name
        )

    def greedy(
        self,
        cases: Any,
        budget: int | None = None,
        threshold: float = 0.0,
        metric: str | None = None,
        *,
        on_top: bool = False,
        text: str | None = None,
        pair: str | None = None,
    ) -> Selection:
        """Take the case that adds most to those taken before, again and again.

        It starts from nothing, or with `on_top` from what was covered, and ends after `budget`
        cases, or when none adds more than `threshold`. `kept` is in that order. Nothing changes.
        """
        engine = self._calibrated()
        name = engine.check(metric or engine.main)
        start = self._require_recorder().total[name] if on_top else None
        given = intake.given_cases(cases, text, pair)
        return greedy(engine, given, name, budget, threshold, start)

    def curve(
        self,
        name: str,
        texts: Any,
        thresholds: Sequence[float] = THRESHOLDS,
        seeds: Sequence[int] = (),
        *,
        text: str | None = None,
        pair: str | None = None,
    ) -> list[Curve]:
        """Return how coverage grows with the number of texts, unfiltered and filtered.

        There is a curve for each criterion, threshold, and order: the given one, and one shuffled
        by each of `seeds`. Nothing in this object changes.
        """
        found = intake.given_texts(texts, text, pair)
        return saturation(self._calibrated(), name, found, thresholds, seeds)

    def compare(
        self,
        sets: Mapping[str, Any],
        texts: int | None = None,
        draws: int = DRAWS,
        seed: int = 0,
        *,
        text: str | None = None,
        pair: str | None = None,
    ) -> list[Comparison]:
        """Compare sets of texts by each criterion: what each covers, alone and with the others.

        Equally many `texts` are drawn from each set, `draws` times. Nothing in this object changes.
        """
        found = intake.given_sets(sets, text, pair)
        return compare_sets(self._calibrated(), found, texts, draws, seed)

    def gaps(
        self,
        suite: Any,
        traffic: Any,
        train: Any = None,
        *,
        space: Any = "middle",
        fdr: float = 0.1,
        limit: int = MOST,
        seed: int = 0,
        text: str | None = None,
        pair: str | None = None,
    ) -> Gaps:
        """Find the texts of traffic that no test of a suite is like, as `mncover gaps` does.

        Suite, traffic and training texts come as for `run`; strings are paths. `text` and `pair`
        name columns of the traffic, and of the others if they have them. Of more than `limit`
        lines as many are drawn. `space` is middle, last, the number of a layer, or a `Coverage` of
        an encoder. `fdr` is the rate of false alarms among the flagged texts.

            found = cov.gaps("suite.jsonl", "logs.jsonl")
            print(found.within, [one.text for one in found.flagged])
        """
        from mncover.engine.gaps import find_gaps

        fields = Fields(text, pair)
        tests = intake.given_train(suite, fields)
        given = given_traffic(traffic, fields, limit, seed)
        known = [] if train is None else intake.given_train(train, fields).texts
        return find_gaps(self._space(space), tests, given, known, fdr, seed)

    def _space(self, asked: Any) -> Space:
        from mncover.engine.spaces import Space

        if isinstance(asked, Questions):
            return Space.of_encoder(self.engine, asked.engine)
        return Space.layer_of(self.engine, str(asked))
