"""What walking over the cases of a window finds, found for all cases at once.

Every number is the one that the walk gives; `engine/ordered.py` says when this way is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.kernels.base import Array
    from mncover.engine.ordered import Firsts, Ordered

Gains = NDArray[np.float64]
Numbers = NDArray[np.int64]

# How many gains are computed together, at first and at most, when the greedy choice asks for one.
FEWEST, MOST = 16, 256


class Rounds:
    """Filters the cases of a window, each of which has the number of its turn."""

    def __init__(
        self, engine: Engine, ordered: Ordered, criterion: str, numbers: Numbers | None = None
    ) -> None:
        self.engine, self.ordered, self.criterion = engine, ordered, criterion
        self.numbers = np.arange(ordered.n) if numbers is None else numbers
        self._every = np.ones(ordered.n, dtype=bool)

    def gain(self, new: Numbers) -> Gains:
        """Return newly hit cells as what they add to the criterion."""
        return self.engine.gain(self.criterion, *new)

    def add_all(self, bits: Array) -> Gains:
        """Add all cases to a map; return what each adds to it and to the cases before it."""
        firsts = self.ordered.start(bits).add(self._every, self.numbers)
        firsts.store(bits)
        return self.gain(firsts.new(self.numbers))

    def filter(self, threshold: float, bits: Array) -> Gains:
        """Return what each case adds to a map and to those kept before it; add the kept to it.

        A case is kept if its gain is greater than the threshold.
        """
        if threshold <= 0:  # one that adds nothing changes nothing, so all can be added
            return self.add_all(bits)
        firsts = self.ordered.start(bits)
        self._decide(firsts, threshold)
        firsts.store(bits)
        return self.gain(firsts.not_before(self._every, self.numbers))

    def _decide(self, firsts: Firsts, threshold: float) -> None:
        """Add the cases that the filter keeps, in rounds.

        A case adds at least what it would add if all undecided cases before it were kept, and at
        most what it would add if none of them were. For the first undecided case both are the same,
        so each round decides one at least.
        """
        left = self._every.copy()
        while left.any():
            least = self.gain(firsts.with_more(left, self.numbers).new(self.numbers))
            keep = left & (least > threshold)
            firsts.add(keep, self.numbers)
            left &= ~keep
            most = self.gain(firsts.not_before(left, self.numbers))
            left &= most > threshold


class GainsAhead:
    """What cases add to those taken so far: of many together, before they are asked for."""

    def __init__(
        self, engine: Engine, ordered: Ordered, criterion: str, start: Array | None = None
    ) -> None:
        self.engine, self.criterion = engine, criterion
        self.taken = np.zeros(ordered.n, dtype=bool)
        self._firsts = ordered.start(start)
        self._numbers = np.zeros(ordered.n, dtype=np.int64)  # all come after what was taken
        self._many = FEWEST
        self._gains: dict[int, float] = {}

    def all_gains(self) -> Gains:
        """Return the gain of every case."""
        return self._compute(~self.taken)

    def gain(self, case: int, bounds: Gains) -> float:
        """Return the gain of a case; `bounds` has the last ones known, which never grow."""
        if case not in self._gains:
            left = np.where(self.taken, -1.0, bounds)
            many = min(self._many, len(left))
            cases = np.append(np.argpartition(-left, many - 1)[:many], case)
            chosen = np.zeros_like(self.taken)
            chosen[cases] = True
            gains = self._compute(chosen)
            self._gains |= {one: float(gains[one]) for one in cases.tolist()}
            self._many = min(MOST, 2 * self._many)
        return self._gains[case]

    def take(self, case: int) -> None:
        """Take a case, after which no gain is known any more."""
        self.taken[case] = True
        alone = np.zeros_like(self.taken)
        alone[case] = True
        self._firsts.add(alone, self._numbers - 1)
        self._gains.clear()
        self._many = FEWEST

    def _compute(self, chosen: NDArray[np.bool_]) -> Gains:
        new = self._firsts.not_before(chosen, self._numbers)
        return self.engine.gain(self.criterion, *new)
