"""Judge a whole pool in one go, by verdicts that are already known: to measure and to try out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mncover.selection.batches import Chooser, Seen
from mncover.selection.journal import Journal

BATCH = 50


def rehearse(
    chooser: Chooser, fails: NDArray[np.bool_], *stops: int, batch: int = BATCH
) -> Journal:
    """Ask for batches until the last of some numbers of cases is judged; none goes over a stop.

    Cases are known by their position. The chooser sees the verdict of a case only after it has
    asked for it.
    """
    journal = Journal("")
    for stop in sorted(stops):
        while len(journal.asked) < min(stop, len(fails)):
            asked = np.array([one.case for one in journal.asked], dtype=np.int64)
            size = min(batch, stop - len(asked))
            new = chooser.choose(size, Seen(asked, asked, fails[asked]), journal.batches + 1)
            journal.ask(new)
            journal.tell({one.case: "wrong" if fails[one.case] else "ok" for one in new})
    return journal
