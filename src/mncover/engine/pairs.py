"""Pairs of hidden neurons: on which side of the middle of its range each of them is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.criteria.base import View
from mncover.data.layout import Layout
from mncover.engine.kernels.base import Block, Kernels
from mncover.engine.reading import Reading
from mncover.engine.sites import Ends, HiddenSites
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.engine.ranges import Ranges


@cache
def sampled_pairs(layer: int, width: int, most: int) -> NDArray[np.int64]:
    """Return different pairs of a layer's dimensions, drawn by a fixed seed: [2, pairs]."""
    total = width * (width - 1) // 2
    rng = np.random.default_rng(layer)
    number = np.sort(rng.choice(total, min(most, total), replace=False, shuffle=False))
    # Pairs are counted (0, 1), (0, 2), … (1, 2), …; the first is found from where its row starts.
    starts = np.arange(width) * (2 * width - np.arange(width) - 1) // 2
    first = np.searchsorted(starts, number, side="right") - 1
    return np.stack([first, number - starts[first] + first + 1])


class Pairs(HiddenSites):
    """A neuron for each sampled pair of a layer, at each position or at all together.

    Its value is 2 if the first of the two is above the middle of its range, plus 1 if the second
    is; -1 if one of them has no range.
    """

    def __init__(self, view: View, layout: Layout, settings: Settings) -> None:
        super().__init__(view, layout, settings)
        self.pairs = {
            site.layer: sampled_pairs(site.layer, site.columns, int(view.number))
            for site in self.layout.sites
        }
        self._wide = dict(self.layout.spans())
        sites = [replace(one, columns=self.pairs[one.layer].shape[1]) for one in self.layout.sites]
        self.layout = replace(self.layout, sites=tuple(sites))
        self._middles: dict[int, Tensor] = {}

    def ends(self, ranges: Ranges) -> Ends:
        """Return 0 and 3 for pairs of neurons that have ranges, and keep the middles of these."""
        low = np.full(self.layout.slots, np.inf, dtype=np.float32)
        high = -low
        for (wide, part), (site, mine) in zip(self._wide.items(), self.layout.spans(), strict=True):
            ends = [
                one[part].reshape(wide.rows, -1).astype(np.float64)
                for one in (ranges.low, ranges.high)
            ]
            with np.errstate(invalid="ignore"):
                middle = (ends[0] + ends[1]) / 2
            chosen = self.pairs[site.layer]
            known = (ends[0] <= ends[1])[:, chosen].all(axis=1).ravel()
            low[mine][known], high[mine][known] = 0, 3
            middle[ends[0] > ends[1]] = np.nan
            self._middles[site.layer] = torch.from_numpy(middle[:, chosen])  # [rows, 2, pairs]
        return low, high

    def block(self, kernels: Kernels, reading: Reading, kept: bool) -> Block:
        wide = next(site for site in self._wide if site.layer == reading.layer)
        if self.settings.pooled:
            pooled = reading.pooled(wide, kept)
            states, places, counts, rows = pooled.values, pooled.places, pooled.counts, 1
        else:
            states, places = reading.tensor(wide)[:, :, None], reading.batch.places
            counts, rows = None, reading.batch.length
        values = self._sides(reading.layer, states.reshape(len(places), rows, -1))
        site = kernels.site("hidden", reading.layer)
        flat = kernels.values(values.reshape(len(places), 1, -1))
        return Block(site, rows, flat, places, None, counts)

    def _sides(self, layer: int, states: Tensor) -> Tensor:
        """Return the values of pairs [texts, rows, pairs] for states [texts, rows, width]."""
        middle = self._middles[layer] = self._middles[layer].to(states.device)
        middle = middle[: states.shape[1]]
        chosen = torch.from_numpy(self.pairs[layer]).to(states.device)
        both = states[:, :, chosen].double()
        above = (both > middle).float()
        sides = 2 * above[:, :, 0] + above[:, :, 1]
        sides = torch.where(middle.isnan().any(1), -1.0, sides)
        return torch.where(both.isfinite().all(2), sides, torch.nan)
