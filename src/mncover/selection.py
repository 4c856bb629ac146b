"""Choose cases by what they add: the sequential filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.backend import Array
from mncover.engine import Engine
from mncover.metrics import COVER, Metric
from mncover.progress import bar
from mncover.results import gain_share
from mncover.texts import Text
from mncover.windows import Window


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases were kept, and what each case added or would have added.

    `kept` holds indices in the order of the cases; `gains` has one number per case, its gain
    over the cases kept before it, as a share of all bins: what it adds to the metric.
    """

    kept: list[int]
    gains: NDArray[np.float64]


def sequential_filter(
    engine: Engine,
    cases: Sequence[Sequence[Text]],
    threshold: float,
    words: Array,
    metric: Metric = COVER,
) -> Selection:
    """Visit the cases in order and keep one if its gain is greater than the threshold.

    `words` is the metric's map to start from; the kept cases are added to it. A case's gain
    counts the union of its texts.
    """
    walker = _Walker(engine, threshold, words, metric)
    total = sum(len(case) for case in cases)
    kept: list[int] = []
    gains: list[float] = []
    with bar("Filtering", total, engine.progress) as advance:
        for window in engine.windows(cases, advance):
            for rows in window.groups:
                gain = walker.visit(window, rows)
                if gain > threshold:
                    kept.append(len(gains))
                gains.append(gain)
    return Selection(kept, np.array(gains, dtype=np.float64))


class _Walker:
    """Adds the cases that are worth it to a map, one after the other."""

    def __init__(self, engine: Engine, threshold: float, words: Array, metric: Metric) -> None:
        self.engine = engine
        self.metric = metric
        self.threshold = threshold
        self.words = words
        # A case of several texts is tried on a copy; with one text, or if every gain is enough
        # (a case that adds nothing changes nothing), no copy is needed.
        self.trial = None if threshold <= 0 else engine.backend.new_map()

    def visit(self, window: Window, rows: range) -> float:
        """Return a case's gain; add the case if the gain is greater than the threshold."""
        if self.trial is None:
            return self._gain([self._add(window, row, self.words) for row in rows])
        if len(rows) == 1:
            gain = self._gain([self._add(window, rows[0], self.words, store=False)])
            if gain > self.threshold:
                self._add(window, rows[0], self.words)
            return gain
        length = max((window.length(row) for row in rows), default=0)
        self.engine.copy_touched(length, self.words, self.trial)
        gain = self._gain([self._add(window, row, self.trial) for row in rows])
        if gain > self.threshold:
            self.engine.copy_touched(length, self.trial, self.words)
        return gain

    def _add(self, window: Window, row: int, words: Array, store: bool = True) -> tuple[int, int]:
        return self.engine.add(window, row, words, store, self.metric)

    def _gain(self, new: list[tuple[int, int]]) -> float:
        hidden = sum(h for h, _ in new)
        attention = sum(a for _, a in new)
        return float(gain_share(self.engine.layout, self.engine.settings, hidden, attention))
