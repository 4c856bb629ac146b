"""Choose cases by what they add: the sequential filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.criteria import COVER, Metric
from mncover.data.display import html_table
from mncover.data.results import gain_share
from mncover.engine.engine import Engine
from mncover.engine.kernels.backend import Array
from mncover.engine.windows import Window
from mncover.report.progress import bar
from mncover.types import Text


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases were kept, and what each case added or would have added.

    `kept` holds indices in the order of the cases; `gains` has one number per case, its gain
    over the cases kept before it, as a share of all bins: what it adds to the metric.
    """

    kept: list[int]
    gains: NDArray[np.float64]

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the kept cases with their gains."""
        rows = [[str(case), f"{self.gains[case]:.3g}"] for case in self.kept]
        return html_table(
            f"{len(self.kept):,} of {len(self.gains):,} cases", ["case", "gain"], rows
        )


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
    total = sum(len(case) for case in cases)
    kept: list[int] = []
    gains: list[float] = []
    with bar("Filtering", total, engine.progress) as advance:
        for window in engine.windows(cases, advance):
            walker = CaseWalker(engine, window, words, metric, always=threshold <= 0)
            for rows in window.groups:
                gain = walker.gain(rows)
                if gain > threshold:
                    walker.add(rows)
                    kept.append(len(gains))
                gains.append(gain)
    return Selection(kept, np.array(gains, dtype=np.float64))


class CaseWalker:
    """Says what the cases of a window, given by their rows, add to a map, and adds them.

    With `always`, every case is added whose gain is asked for (one that adds nothing changes
    nothing), which saves trying it on a copy first.
    """

    def __init__(
        self, engine: Engine, window: Window, words: Array, metric: Metric, always: bool = False
    ) -> None:
        self.engine = engine
        self.window = window
        self.words = words
        self.metric = metric
        self.always = always
        self._trial = None if always else engine.backend.new_map()

    def gain(self, rows: range) -> float:
        """Return what a case adds: the union of its texts."""
        if self.always:
            return self._gain([self._walk(row, self.words) for row in rows])
        if len(rows) == 1:
            return self._gain([self._walk(rows[0], self.words, store=False)])
        length = max((self.window.length(row) for row in rows), default=0)
        self.engine.copy_touched(length, self.words, self._trial)
        return self._gain([self._walk(row, self._trial) for row in rows])

    def add(self, rows: range) -> None:
        """Add a case to the map."""
        if not self.always:
            for row in rows:
                self._walk(row, self.words)

    def _walk(self, row: int, words: Array, store: bool = True) -> tuple[int, int]:
        return self.engine.add(self.window, row, words, store, self.metric)

    def _gain(self, new: list[tuple[int, int]]) -> float:
        hidden = sum(h for h, _ in new)
        attention = sum(a for _, a in new)
        return float(gain_share(self.engine.layout, self.engine.settings, hidden, attention))
