"""Choose cases by what they add: the sequential filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.types import Text, html_table

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.kernels.base import Array
    from mncover.engine.windows import Window


@dataclass(frozen=True, slots=True)
class Selection:
    """Which cases were kept, and what each case added or would have added.

    `kept` holds indices in the order of the cases; `gains` has one number per case, its gain
    over the cases kept before it, as a share of all cells: what it adds to the criterion.
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
    bits: Array,
    criterion: str,
) -> Selection:
    """Visit the cases in order and keep one if its gain is greater than the threshold.

    `bits` is the criterion's map to start from; the kept cases are added to it. A case's gain
    counts the union of its texts.
    """
    total = sum(len(case) for case in cases)
    kept: list[int] = []
    gains: list[float] = []
    with engine.bar("Filtering", total) as advance:
        for window in engine.windows(cases, advance):
            walker = CaseWalker(engine, window, bits, criterion, always=threshold <= 0)
            for rows in window.cases:
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
        self, engine: Engine, window: Window, bits: Array, criterion: str, always: bool = False
    ) -> None:
        self.engine = engine
        self.window = window
        self.bits = bits
        self.criterion = criterion
        self.always = always
        self._trial: Array | None = None  # made when a case of several texts is met

    def gain(self, rows: range) -> float:
        """Return what a case adds: the union of its texts."""
        if self.always:
            return self._gain([self._walk(row, self.bits) for row in rows])
        if len(rows) == 1:
            return self._gain([self._walk(rows[0], self.bits, store=False)])
        if self._trial is None:
            self._trial = self.engine.new_bits(self.criterion)
        length = max((self.window.length(row) for row in rows), default=0)
        self.engine.copy_touched(length, self.criterion, self.bits, self._trial)
        return self._gain([self._walk(row, self._trial) for row in rows])

    def add(self, rows: range) -> None:
        """Add a case to the map."""
        if not self.always:
            for row in rows:
                self._walk(row, self.bits)

    def _walk(self, row: int, bits: Array, store: bool = True) -> tuple[int, int]:
        return self.engine.add(self.window, row, bits, self.criterion, store)

    def _gain(self, new: list[tuple[int, int]]) -> float:
        hidden = sum(h for h, _ in new)
        attention = sum(a for _, a in new)
        return float(self.engine.gain(self.criterion, hidden, attention))
