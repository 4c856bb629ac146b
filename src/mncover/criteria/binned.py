"""Cover and mnCover: each neuron's range is cut into bins of equal width (DeepGauge's KMNC)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.criteria.base import ALL, Coding, Parameter, View
from mncover.types import Settings


class Bins:
    """A value within its neuron's range falls into one of equally wide bins, others into none.

    The kernels have a faster way to the same codes, which tests compare with this one.
    """

    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        """Return the bin of every value, or -1, in double precision.

        The span of a neuron that never varied is 0; with 1 instead, its value falls into bin 0.
        """
        v, lo, hi = (xp.asarray(array, dtype=xp.float64) for array in (values, low, high))
        inside = (v >= lo) & (v <= hi)
        span = xp.where(hi > lo, hi - lo, 1.0)
        position = xp.where(inside, (v - lo) / span * cells, -1.0)
        return xp.clip(xp.asarray(position, dtype=xp.int64), None, cells - 1)


BINS = Bins()


@dataclass(frozen=True)
class Binned:
    """A criterion whose cells are the bins of a neuron's range."""

    name: str
    title: str
    summary: str
    masked: bool = False
    view: View = ALL
    coding: Coding = BINS
    source: str = "Sekhon et al. 2022"
    parameter: Parameter | None = None

    def cells(self, settings: Settings) -> int:
        """Return how many cells each neuron has: the setting `bins`."""
        return settings.bins

    def reachable(
        self, low: NDArray[np.float32], high: NDArray[np.float32], cells: int
    ) -> NDArray[np.int64]:
        """Return how many bins of each neuron can be hit at all.

        All bins of a neuron that varied, the first bin of one that did not, none of one that no
        calibration text reached.
        """
        return np.where(low < high, cells, low == high).astype(np.int64)


COVER = Binned("cover", "Cover", "the bins of each neuron's range that were hit")
MNCOVER = Binned("mncover", "mnCover", "those hit by words and pairs that masks keep", masked=True)
