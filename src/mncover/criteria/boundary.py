"""DeepGauge's criteria of ranges (Ma et al. 2018): k-multisection, boundary, strong activation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.criteria.base import HIDDEN, Coding, Parameter, View
from mncover.criteria.binned import Binned
from mncover.types import Settings

DEEPGAUGE = "DeepGauge, Ma et al. 2018"


@dataclass(frozen=True, slots=True)
class Outside:
    """A value above its neuron's range falls into the last cell, one below it into the first."""

    below: bool

    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        """Return the cell of every value, -1 within the range or without one."""
        under = xp.where(values < low, 0, -1) if self.below else -1
        return xp.where(low <= high, xp.where(values > high, cells - 1, under), -1)


@dataclass(frozen=True)
class Boundary:
    """A criterion whose cells are outside a neuron's range."""

    name: str
    title: str
    summary: str
    coding: Coding
    size: int
    source: str = DEEPGAUGE
    parameter: Parameter | None = None
    masked: bool = False
    view: View = HIDDEN

    def cells(self, settings: Settings) -> int:
        """Return how many cells each neuron has."""
        return self.size

    def reachable(
        self, low: NDArray[np.float32], high: NDArray[np.float32], cells: int
    ) -> NDArray[np.int64]:
        """Return all cells of a neuron that has a range: nothing is outside of none."""
        return cells * (low <= high).astype(np.int64)


KMNC = Binned(
    "kmnc", "KMNC", "the bins of each hidden neuron's range", view=HIDDEN, source=DEEPGAUGE
)
NBC = Boundary("nbc", "NBC", "hidden neurons driven below or above their range", Outside(True), 2)
SNAC = Boundary("snac", "SNAC", "hidden neurons driven above their range", Outside(False), 1)
