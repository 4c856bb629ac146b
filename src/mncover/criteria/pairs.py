"""Combinations of two neurons of a layer (DeepCT, Ma et al. 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.criteria.base import Coding, Parameter, View
from mncover.types import Settings


class Combinations:
    """The value of a pair is the number of its combination, or negative."""

    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        """Return the value of every pair as its cell."""
        return xp.asarray(xp.nan_to_num(values, nan=-1.0), dtype=xp.int64)


COMBINATIONS = Combinations()


@dataclass(frozen=True)
class PairsOfNeurons:
    """Four cells for each sampled pair: both below the middle of their ranges, one, both above."""

    name: str
    title: str
    summary: str
    view: View
    parameter: Parameter | None
    source: str = "DeepCT, Ma et al. 2019"
    masked: bool = False
    coding: Coding = COMBINATIONS

    def cells(self, settings: Settings) -> int:
        """Return how many cells each pair has."""
        return 4

    def reachable(
        self, low: NDArray[np.float32], high: NDArray[np.float32], cells: int
    ) -> NDArray[np.int64]:
        """Return all cells of a pair of neurons that have ranges."""
        return cells * (low <= high).astype(np.int64)


def pairs(number: float = 100, name: str = "pairs") -> PairsOfNeurons:
    """Return the criterion of some pairs of each layer."""
    return PairsOfNeurons(
        name,
        name.capitalize(),
        f"above or below the middle, for {number:g} pairs of hidden neurons of a layer",
        View("pairs", number),
        Parameter("how many pairs of a layer", 100, 1, 1_000_000, pairs, whole=True),
    )


PAIRS = pairs()
