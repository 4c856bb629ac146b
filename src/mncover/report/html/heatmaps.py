"""Where in the model coverage lies: by layer and position, by layer and head. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover import maps
from mncover.data import CoverageData

CELLS = 32  # of a head's map at most, in each direction


@dataclass(frozen=True, slots=True)
class HiddenLayer:
    """One layer's hidden states: the covered share of all bins at each position."""

    layer: int
    share: float
    positions: list[float]


@dataclass(frozen=True, slots=True)
class Head:
    """One attention head: its covered share, and a coarse map [queries, keys] of it."""

    number: int
    share: float
    cells: list[list[float]]


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """One layer's heads."""

    layer: int
    heads: list[Head]


def heatmaps(data: CoverageData) -> tuple[list[HiddenLayer], list[AttentionLayer]]:
    """Return the shares of bins that all texts together covered, up to the longest text."""
    layout, bins = data.identity.layout, data.identity.settings.bins
    length = int(data.table["length"].max()) if len(data.table) else 0
    words, width = data.total(), maps.words_per_neuron(bins)
    hidden: list[HiddenLayer] = []
    attention: list[AttentionLayer] = []
    for site, part in layout.spans():
        block = np.bitwise_count(words[part.start * width : part.stop * width])
        counts = block.reshape(site.groups, site.rows, site.columns, width).sum(axis=3) / bins
        if site.kind == "hidden":
            positions = counts[0, :length].mean(axis=1)
            share = float(positions.mean()) if length else 0.0
            hidden.append(HiddenLayer(site.layer, share, positions.tolist()))
        else:
            cut = counts[:, :length, :length]
            heads = [_head(k, cut[k], layout.causal) for k in range(site.groups)]
            attention.append(AttentionLayer(site.layer, heads))
    return hidden, attention


def _head(number: int, counts: NDArray[np.float64], causal: bool) -> Head:
    """Return one head; in a causal model the neurons that look ahead do not exist."""
    real = np.tril(np.ones_like(counts)) if causal else np.ones_like(counts)
    share = float((counts * real).sum() / real.sum()) if real.size else 0.0
    return Head(number, share, _coarse(counts).round(3).tolist())


def _coarse(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a map of at most `CELLS` by `CELLS`: means of equal blocks."""
    n = len(counts)
    if n <= CELLS:
        return counts
    edges = np.linspace(0, n, CELLS + 1).astype(int)
    rows = np.add.reduceat(counts, edges[:-1], axis=0)
    both = np.add.reduceat(rows, edges[:-1], axis=1)
    sizes = np.diff(edges)
    means: NDArray[np.float64] = both / (sizes[:, None] * sizes[None, :])
    return means
