"""Choose cases by what they add: in order (the sequential filter), or the largest gain first."""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError
from mncover.selection.rounds import GainsAhead, Rounds
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
        title = f"{len(self.kept):,} of {len(self.gains):,} cases"
        return html_table(title, ["case", "gain"], rows)


def sequential_filter(
    engine: Engine, cases: Sequence[Sequence[Text]], threshold: float, bits: Array, criterion: str
) -> Selection:
    """Visit the cases in order and keep one if its gain is greater than the threshold.

    `bits` is the criterion's map to start from; the kept cases are added to it. A case's gain
    counts the union of its texts.
    """
    with engine.bar("Filtering", sum(map(len, cases))) as advance:
        gains = None
        if threshold <= 0:  # then nothing has to be decided: a case that adds nothing adds nothing
            gains = engine.first_gains(cases, bits, criterion, advance)
        if gains is None:
            gains = _filtered(engine, cases, threshold, bits, criterion, advance)
    return Selection(np.flatnonzero(gains > threshold).tolist(), gains)


def _filtered(
    engine: Engine,
    cases: Sequence[Sequence[Text]],
    threshold: float,
    bits: Array,
    criterion: str,
    advance: Callable[[int], None],
) -> NDArray[np.float64]:
    """Return the gain of every case over those kept before it, window by window."""
    found = [np.zeros(0)]
    for window in engine.windows(cases, advance):
        ordered = engine.ordered(window, criterion)
        if ordered is None:
            walker = CaseWalker(engine, window, bits, criterion, always=threshold <= 0)
            found.append(walker.filter(threshold))
        else:
            found.append(Rounds(engine, ordered, criterion).filter(threshold, bits))
    return np.concatenate(found)


@dataclass(slots=True)
class CaseWalker:
    """Says what the cases of a window, given by their rows, add to a map, and adds them.

    With `always`, every case is added whose gain is asked for (one that adds nothing changes
    nothing), which saves trying it on a copy first.
    """

    engine: Engine
    window: Window
    bits: Array
    criterion: str
    always: bool = False
    _trial: Array | None = None  # made when a case of several texts is met

    def filter(self, threshold: float) -> NDArray[np.float64]:
        """Add the cases that add more than the threshold; return the gain of every case."""
        gains: list[float] = []
        for rows in self.window.cases:
            gains.append(self.gain(rows))
            if gains[-1] > threshold:
                self.add(rows)
        return np.array(gains, dtype=np.float64)

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
        hidden, attention = sum(h for h, _ in new), sum(a for _, a in new)
        return float(self.engine.gain(self.criterion, hidden, attention))


def greedy(
    engine: Engine,
    cases: Sequence[Sequence[Text]],
    criterion: str,
    budget: int | None = None,
    threshold: float = 0.0,
    start: Array | None = None,
) -> Selection:
    """Take the case that adds most to those taken before, again and again.

    It starts from nothing, or from a map, which does not change. It ends after `budget` cases, or
    when no case adds more than `threshold`. Of cases that add equally much the first is taken.
    `kept` is in the order of taking; `gains` has the gain of each case when it was taken, and of
    the others the last one known, which bounds what they would still add: a gain never grows, so
    most need not be computed again.

    The codes of all cases wait in a temporary file, so it needs space on disk.
    """
    _require_space(engine, cases)
    with engine.bar("Measuring", sum(map(len, cases))) as advance:
        for window in engine.windows(cases, advance, whole=True):
            ordered = engine.ordered(window, criterion)
            if ordered is None:
                bits = engine.new_bits(criterion)
                if start is not None:
                    bits |= start
                walker = CaseWalker(engine, window, bits, criterion)
                now: GainsNow = _WalkedGains(walker)
            else:
                now = GainsAhead(engine, ordered, criterion, start)
            return _take(now, len(cases) if budget is None else budget, threshold, engine)
    return Selection([], np.zeros(0))


class GainsNow(Protocol):
    """Says what cases add to those taken so far."""

    def all_gains(self) -> NDArray[np.float64]:
        """Return the gain of every case."""

    def gain(self, case: int, bounds: NDArray[np.float64]) -> float:
        """Return the gain of a case; `bounds` has the last ones known, which never grow."""

    def take(self, case: int) -> None:
        """Take a case."""


@dataclass(frozen=True, slots=True)
class _WalkedGains:
    """Gains by walking, one case at a time."""

    walker: CaseWalker

    def all_gains(self) -> NDArray[np.float64]:
        return np.array([self.walker.gain(rows) for rows in self.walker.window.cases])

    def gain(self, case: int, bounds: NDArray[np.float64]) -> float:
        return self.walker.gain(self.walker.window.cases[case])

    def take(self, case: int) -> None:
        self.walker.add(self.walker.window.cases[case])


def _take(now: GainsNow, budget: int, threshold: float, engine: Engine) -> Selection:
    gains = now.all_gains()
    heap = [(-gain, case) for case, gain in enumerate(gains.tolist())]
    heapq.heapify(heap)
    kept: list[int] = []
    with engine.bar("Choosing", min(budget, len(heap))) as advance:
        while heap and len(kept) < budget:
            _, case = heapq.heappop(heap)
            gains[case] = now.gain(case, gains)
            if heap and (-gains[case], case) > heap[0]:  # another may add more, or is as good
                heapq.heappush(heap, (-gains[case], case))
                continue
            if gains[case] <= threshold:
                break
            now.take(case)
            kept.append(case)
            advance(1)
    return Selection(kept, gains)


def _require_space(engine: Engine, cases: Sequence[Sequence[Text]]) -> None:
    """Refuse, before any work, what would not fit on the disk."""
    texts = list(dict.fromkeys(text for case in cases for text in case))
    tokens = engine.subject.encode(texts, engine.settings.max_length)
    lengths, counts = np.unique(tokens.lengths, return_counts=True)
    each = zip(lengths.tolist(), counts.tolist(), strict=True)
    needed = sum(count * engine.setups.code_bytes(length) for length, count in each)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if needed > free:
        raise SettingsError(
            f"the greedy choice needs {needed / 1e9:.1f} GB in {tempfile.gettempdir()}, where "
            f"{free / 1e9:.1f} GB are free: choose from fewer cases, or set TMPDIR."
        )
