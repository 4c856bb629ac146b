"""Choose cases by what they add: the largest gain first."""

from __future__ import annotations

import heapq
import shutil
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mncover.errors import SettingsError
from mncover.selection.sequential import CaseWalker, Selection
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine


def greedy(
    engine: Engine,
    cases: Sequence[Sequence[Text]],
    criterion: str,
    budget: int | None = None,
    threshold: float = 0.0,
) -> Selection:
    """Take the case that adds most to those taken before, again and again.

    It ends after `budget` cases, or when no case adds more than `threshold`. Of cases that add
    equally much the first is taken. `kept` is in the order of taking; `gains` has the gain of
    each case when it was taken, and of the others the last one known, which bounds what they
    would still add: a gain never grows, so most need not be computed again.

    The codes of all cases wait in a temporary file, so it needs space on disk.
    """
    _require_space(engine, cases)
    with engine.bar("Measuring", sum(map(len, cases))) as advance:
        for window in engine.windows(cases, advance, whole=True):
            walker = CaseWalker(engine, window, engine.new_bits(criterion), criterion)
            return _take(walker, len(cases) if budget is None else budget, threshold, engine)
    return Selection([], np.zeros(0))


def _take(walker: CaseWalker, budget: int, threshold: float, engine: Engine) -> Selection:
    cases = walker.window.cases
    gains = np.array([walker.gain(rows) for rows in cases])
    heap = [(-gain, case) for case, gain in enumerate(gains.tolist())]
    heapq.heapify(heap)
    kept: list[int] = []
    with engine.bar("Choosing", min(budget, len(cases))) as advance:
        while heap and len(kept) < budget:
            _, case = heapq.heappop(heap)
            gains[case] = walker.gain(cases[case])
            if heap and (-gains[case], case) > heap[0]:  # another may add more, or is as good
                heapq.heappush(heap, (-gains[case], case))
                continue
            if gains[case] <= threshold:
                break
            walker.add(cases[case])
            kept.append(case)
            advance(1)
    return Selection(kept, gains)


def _require_space(engine: Engine, cases: Sequence[Sequence[Text]]) -> None:
    """Refuse, before any work, what would not fit on the disk."""
    texts = list(dict.fromkeys(text for case in cases for text in case))
    encodings = engine.subject.encode(texts, engine.settings.max_length)
    codes = sum(engine.layout.touched(encoding.length) for encoding in encodings)
    needed = sum(engine.kernels.disk_bytes(codes, group.cells) for group in engine.groups)
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if needed > free:
        raise SettingsError(
            f"the greedy choice needs {needed / 1e9:.1f} GB in {tempfile.gettempdir()}, where "
            f"{free / 1e9:.1f} GB are free: choose from fewer cases, or set TMPDIR."
        )
