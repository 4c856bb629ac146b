"""What a comparison of sets of texts says. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mncover.metrics import Metric


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over all draws: its mean, and where 95 % of the draws lie."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of some values."""
        low, high = np.quantile(values, [0.025, 0.975])
        return cls(float(np.mean(values)), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sets by one metric, in the order given; `overlap[a][b]` is the Jaccard index of two sets.

    `union` is of the set and all before it, `only` what no other set covers. Bins are weighed as
    in Cover. `texts` of each set were drawn, `draws` times.
    """

    metric: Metric
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    texts: int
    draws: int
    alone: tuple[Spread, ...]
    union: tuple[Spread, ...]
    only: tuple[Spread, ...]
    overlap: tuple[tuple[Spread, ...], ...]
