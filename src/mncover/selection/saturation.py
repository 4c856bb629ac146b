"""How coverage grows with the number of texts, unfiltered and filtered.

The model runs once over all texts; every order, threshold and criterion then walks over their
codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mncover.selection.sequential import CaseWalker
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.windows import Window


@dataclass(frozen=True, slots=True)
class Curve:
    """A saturation curve: `shares[i]` is the coverage of the first `texts[i]` texts kept.

    `visited` is the number of all texts. `seed` is that of the shuffled order, None for the given
    order. With the threshold None every text is kept.
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
        """The share of the texts that was filtered out."""
        return 1 - self.kept / self.visited if self.visited else 0.0


THRESHOLDS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
POINTS = 200  # per curve at most, so that files and pictures stay small


def saturation(
    engine: Engine,
    name: str,
    texts: Sequence[Text],
    thresholds: Sequence[float] = THRESHOLDS,
    seeds: Sequence[int] = (),
) -> list[Curve]:
    """Return the curves of a list of texts, in the given order and in shuffled ones.

    For each order and criterion there is one unfiltered curve and one for each threshold: a text
    is kept if it adds more than the threshold to the texts kept before.
    """
    found: list[Curve] = []
    with engine.bar(name, len(texts)) as advance:
        for window in engine.windows([[text] for text in texts], advance, whole=True):
            for seed in (None, *seeds):
                order = np.arange(len(texts))
                if seed is not None:
                    order = np.random.default_rng(seed).permutation(len(texts))
                for criterion in engine.criteria:
                    walks = [_Walk(engine, window, criterion, t) for t in (None, *thresholds)]
                    for row in order.tolist():
                        for walk in walks:
                            walk.visit(row)
                    found += [walk.curve(name, seed, len(texts)) for walk in walks]
    return found


class _Walk:
    """A map that is filled text by text, and what each text kept has added."""

    def __init__(
        self, engine: Engine, window: Window, criterion: str, threshold: float | None
    ) -> None:
        self.threshold = threshold
        always = threshold is None or threshold <= 0
        self.walker = CaseWalker(engine, window, engine.new_bits(criterion), criterion, always)
        self.gains: list[float] = []

    def visit(self, row: int) -> None:
        rows = range(row, row + 1)
        gain = self.walker.gain(rows)
        if self.threshold is None or gain > self.threshold:
            self.walker.add(rows)
            self.gains.append(gain)

    def curve(self, name: str, seed: int | None, visited: int) -> Curve:
        """Return the curve, thinned to some points that include the last one."""
        shares = np.cumsum(self.gains)
        n = len(shares)
        places = np.unique(np.linspace(0, n - 1, min(n, POINTS)).round().astype(int)).tolist()
        return Curve(
            name,
            self.walker.criterion,
            seed,
            self.threshold,
            visited,
            tuple(place + 1 for place in places),
            tuple(float(shares[place]) for place in places),
        )
