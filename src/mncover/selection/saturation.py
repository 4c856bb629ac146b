"""What a saturation curve is. No torch here.

How coverage saturates: against the number of texts, unfiltered and filtered.

The codes of all texts are measured once; every order, threshold and criterion walks over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.kernels.base import Array
    from mncover.engine.windows import Window


@dataclass(frozen=True, slots=True)
class Curve:
    """Coverage (`shares`) of the first so many texts kept (`texts`), and how many were visited.

    `seed` is that of the shuffled order, None for the given order. `threshold` None means that
    every text was kept.
    """

    name: str
    criterion: str
    seed: int | None
    threshold: float | None
    visited: int
    texts: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def kept(self) -> int:
        """How many texts were kept."""
        return self.texts[-1] if self.texts else 0

    @property
    def share(self) -> float:
        """The coverage of all texts kept."""
        return self.shares[-1] if self.shares else 0.0

    @property
    def reduction(self) -> float:
        """The share of the texts that was left out."""
        return 1 - self.kept / self.visited if self.visited else 0.0


THRESHOLDS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
POINTS = 200  # of a curve that are kept, so that files and pictures stay small


def saturation(
    engine: Engine,
    name: str,
    texts: Sequence[Text],
    thresholds: Sequence[float] = THRESHOLDS,
    seeds: Sequence[int] = (),
) -> list[Curve]:
    """Return the curves of a list of texts, in its order and in shuffled ones.

    For each order and criterion there is one without filter, and one for each threshold: a text is
    kept if it adds more than that to those kept before.
    """
    found: list[Curve] = []
    with engine.bar(name, len(texts)) as advance:
        for window in engine.windows([[text] for text in texts], advance, whole=True):
            for seed in (None, *seeds):
                order = np.arange(len(texts))
                if seed is not None:
                    order = np.random.default_rng(seed).permutation(len(texts))
                for criterion in engine.criteria:
                    walks = [_Walk(engine, criterion, t) for t in (None, *thresholds)]
                    for row in order.tolist():
                        for walk in walks:
                            walk.visit(window, row)
                    found += [walk.curve(name, seed) for walk in walks]
    return found


class _Walk:
    """One map that is filled text by text, and the coverage after each text kept."""

    def __init__(self, engine: Engine, criterion: str, threshold: float | None) -> None:
        self.engine = engine
        self.criterion = criterion
        self.threshold = threshold
        self.bits: Array = engine.new_bits(criterion)
        self.visited = 0
        self.gains: list[float] = []

    def visit(self, window: Window, row: int) -> None:
        self.visited += 1
        if self.threshold is None or self.threshold <= 0:  # what adds nothing changes nothing
            gain = self._add(window, row, store=True)
            if self.threshold is None or gain > self.threshold:
                self.gains.append(gain)
        else:
            gain = self._add(window, row, store=False)
            if gain > self.threshold:
                self._add(window, row, store=True)
                self.gains.append(gain)

    def curve(self, name: str, seed: int | None) -> Curve:
        """Return the curve, thinned to some points of which the last is always one."""
        shares = np.cumsum(self.gains)
        n = len(shares)
        places: list[int] = []
        if n:
            places = np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(int)).tolist()
        return Curve(
            name,
            self.criterion,
            seed,
            self.threshold,
            self.visited,
            tuple(place + 1 for place in places),
            tuple(float(shares[place]) for place in places),
        )

    def _add(self, window: Window, row: int, store: bool) -> float:
        new = self.engine.add(window, row, self.bits, self.criterion, store)
        return float(self.engine.gain(self.criterion, *new))
