"""What no text reaches: layers, heads and positions; and the texts that would. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.identity import Measured
from mncover.data.store import CoverageData
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.coverage import Coverage

CANDIDATES = 20  # for each text that is asked for: those that add most by themselves

Rows = NDArray[np.int64]  # [groups, rows]


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the model: how many bins can be reached there, and how many of them no text hits.

    `layer` is None for a position in all layers; `part` is a head or a position, counted from 0,
    and None for a layer's hidden states as a whole.
    """

    layer: int | None
    part: int | None
    missing: int
    reachable: int

    @property
    def share(self) -> float:
        """The missing share of the bins that can be reached."""
        return self.missing / self.reachable if self.reachable else 0.0


@dataclass(frozen=True, slots=True)
class Missing:
    """What all texts together leave out by one criterion: of every layer, head and position.

    Positions are those of hidden states.
    """

    criterion: Measured
    layers: tuple[Gap, ...]
    heads: tuple[Gap, ...]
    positions: tuple[Gap, ...]

    @property
    def unreached(self) -> tuple[Gap, ...]:
        """The layers, heads and positions in which nothing is hit."""
        every = (*self.layers, *self.heads, *self.positions)
        return tuple(gap for gap in every if gap.reachable and gap.missing == gap.reachable)


def missing_of(data: CoverageData, criterion: Measured) -> Missing:
    """Return what all texts together leave out."""
    layers, heads = [], []
    positions: list[tuple[Rows, Rows]] = []
    each = zip(
        criterion.layout.sites,
        hit_rows(data, criterion),
        reachable_rows(data, criterion),
        strict=True,
    )
    for site, hit, reachable in each:
        left = np.maximum(reachable - hit, 0)
        if site.kind == "hidden":
            layers.append(Gap(site.layer, None, int(left.sum()), int(reachable.sum())))
            positions.append((left[0], reachable[0]))
            continue
        sums = zip(left.sum(axis=1).tolist(), reachable.sum(axis=1).tolist(), strict=True)
        heads += [Gap(site.layer, head, *both) for head, both in enumerate(sums)]
    both = np.sum(positions, axis=0).T.tolist()  # over the layers
    by_position = [Gap(None, t, *counts) for t, counts in enumerate(both)]
    return Missing(criterion, tuple(layers), tuple(heads), tuple(by_position))


def reachable_rows(data: CoverageData, criterion: Measured) -> list[Rows]:
    """Return how many cells can be reached in each row of each group, site by site.

    A file that does not say is taken to reach everything up to its longest text.
    """
    layout = criterion.layout
    if data.calibration is not None:
        ends = np.cumsum([site.groups * site.rows for site in layout.sites])
        parts = np.split(data.calibration.reachable[criterion.name], ends[:-1])
        return [part.reshape(s.groups, s.rows) for s, part in zip(layout.sites, parts, strict=True)]
    longest = int(data.table["length"].max()) if len(data.table) else 0
    found = []
    for site in layout.sites:
        places = np.arange(site.rows)
        future = layout.causal and site.square
        columns = places + 1 if future else np.full(site.rows, site.touched_columns(longest))
        cells = np.where(places < longest, columns * criterion.cells, 0)
        found.append(np.tile(cells, (site.groups, 1)))
    return found


def hit_rows(data: CoverageData, criterion: Measured) -> list[Rows]:
    """Return how many cells all texts together hit in each row of each group, site by site."""
    bits, width = data.total(criterion.name), maps.ints_per_neuron(criterion.cells)
    return [
        np.bitwise_count(bits[part.start * width : part.stop * width])
        .reshape(site.groups, site.rows, -1)
        .sum(axis=2, dtype=np.int64)
        for site, part in criterion.layout.spans()
    ]


class Reaching(NamedTuple):
    """A text that would reach what is missing: its place among the candidates, and what it adds.

    `adds` is a share of all bins, beyond what was measured and the texts before it.
    """

    place: int
    adds: float


def texts_reaching(cov: Coverage, texts: Sequence[Text], n: int, criterion: str) -> list[Reaching]:
    """Return n texts that together reach most of what is missing, the best first.

    The choice is greedy, among those that add most by themselves.
    """
    gains = cov.gain(texts, criterion)
    best = np.argsort(-gains, kind="stable")[: CANDIDATES * n]
    found = cov.greedy([texts[i] for i in best], n, metric=criterion, on_top=True)
    return [Reaching(int(best[i]), float(found.gains[i])) for i in found.kept]
