"""Criteria of neurons that stand out among their layer: activated ones, and the k largest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.criteria.base import Coding, Parameter, View
from mncover.types import Settings


@dataclass(frozen=True, slots=True)
class Above:
    """A value above a threshold falls into the only cell of its neuron."""

    threshold: float

    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        """Return 0 for values above the threshold, -1 for the others."""
        return xp.where(values > self.threshold, 0, -1)


@dataclass(frozen=True)
class Active:
    """A criterion with one cell for each hidden neuron, which any text may hit."""

    name: str
    title: str
    summary: str
    coding: Coding
    view: View
    source: str
    parameter: Parameter | None
    masked: bool = False

    def cells(self, settings: Settings) -> int:
        """Return how many cells each neuron has."""
        return 1

    def reachable(
        self, low: NDArray[np.float32], high: NDArray[np.float32], cells: int
    ) -> NDArray[np.int64]:
        """Return the cell of every neuron."""
        return np.ones(len(low), dtype=np.int64)


def nc(threshold: float = 0.5, name: str = "nc") -> Active:
    """Return neuron coverage: values scaled to 0..1 within the layer, above a threshold."""
    return Active(
        name,
        name.upper(),
        f"hidden neurons above {threshold:g}, scaled to 0..1 within the text's layer",
        Above(threshold),
        View("scaled"),
        "DeepXplore, Pei et al. 2017",
        Parameter("the threshold, such as 0.25, 0.5 or 0.75", 0.5, 0, 1, nc),
    )


def tknc(k: float = 3, name: str = "tknc") -> Active:
    """Return top-k neuron coverage."""
    return Active(
        name,
        name.upper(),
        f"hidden neurons among the {k:g} largest of their layer",
        Above(0.5),
        View("top", k),
        "DeepGauge, Ma et al. 2018",
        Parameter("k, how many of a layer count", 3, 1, 1000, tknc, whole=True),
    )


NC, TKNC = nc(), tknc()
