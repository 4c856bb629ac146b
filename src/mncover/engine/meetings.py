"""Texts of a run whose words are drawn in reports: which of them may masks let meet?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mncover.data.meetings import MOST_MEETINGS, MOST_WORDS, Meeting
from mncover.data.results import misclassified
from mncover.data.store import CoverageData
from mncover.suites.judging import FAILS, judged_cases

if TYPE_CHECKING:
    from mncover.engine.engine import Engine


def drawn_meetings(engine: Engine, data: CoverageData) -> tuple[Meeting, ...]:
    """Return which words may meet in a few texts, of failing cases if there are any."""
    if engine.masks is None:
        return ()
    texts = [data.table.texts[row] for row in _rows(data)]
    ids = engine.subject.encode(texts, engine.settings.max_length).ids()
    return tuple(engine.masks.meeting(one, MOST_WORDS) for one in ids)


def _rows(data: CoverageData) -> list[int]:
    """Return rows to draw: of different contexts, those that fail and are short first."""
    fails, table = misclassified(data), data.table
    for _, outcome, rows in judged_cases(data):
        fails[rows.taken(np.flatnonzero(outcome.verdicts == FAILS)).values] = True
    order = np.lexsort((table["length"] > MOST_WORDS + 2, ~fails))  # stable: else as they were run
    _, first = np.unique(table["context"][order], return_index=True)
    best = dict.fromkeys([*sorted(first.tolist()), *range(len(order))])  # then any others
    found: list[int] = order[list(best)[:MOST_MEETINGS]].tolist()
    return found
