"""Views of the sites: how what is read in a batch becomes the values of a view's own neurons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.criteria.base import View
from mncover.data.layout import Kind, Layout, Site
from mncover.engine.kernels.base import Array, Block, Heads, Kernels, no_cell
from mncover.engine.reading import Pooled, Reading
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.engine.ranges import Ranges

Ends = tuple[NDArray[np.float32], NDArray[np.float32]]


class SiteView(Protocol):
    """The neurons of a view: where they are, their ranges, and their values in a batch."""

    layout: Layout

    def ends(self, ranges: Ranges) -> Ends:
        """Return low and high of each neuron, given the ranges of all sites."""

    def reads(self, kind: Kind) -> bool:
        """Return whether sites of a kind are looked at."""

    def block(self, kernels: Kernels, reading: Reading, kept: bool) -> Block:
        """Return the values at such a site; with `kept`, of what the masks keep."""


class AllSites:
    """Hidden states and attention as they are, or pooled."""

    def __init__(self, view: View, layout: Layout, settings: Settings) -> None:
        self.layout, self.settings = layout, settings

    def ends(self, ranges: Ranges) -> Ends:
        return ranges.low, ranges.high

    def reads(self, kind: Kind) -> bool:
        return True

    def block(self, kernels: Kernels, reading: Reading, kept: bool) -> Block:
        site = kernels.site(reading.kind, reading.layer)
        if self.settings.pooled:
            return _pooled_block(kernels, site, reading.pooled(site, kept))
        batch = reading.batch
        keep = None if batch.kept is None else batch.kept.at(site)
        if isinstance(reading.given, Heads):
            return Block(site, batch.length, reading.given, batch.places, keep)
        values = kernels.values(reading.tensor(site)).reshape(len(batch.rows), site.groups, -1)
        return Block(site, batch.length, values, batch.places, keep)


def _pooled_block(kernels: Kernels, site: Site, pooled: Pooled) -> Block:
    return Block(site, 1, kernels.values(pooled.values), pooled.places, None, pooled.counts)


class HiddenSites(AllSites):
    """Hidden states alone, which come first in the arrays of all sites."""

    def __init__(self, view: View, layout: Layout, settings: Settings) -> None:
        super().__init__(view, layout.of("hidden"), settings)

    def ends(self, ranges: Ranges) -> Ends:
        slots = self.layout.slots
        return ranges.low[:slots], ranges.high[:slots]

    def reads(self, kind: Kind) -> bool:
        return kind == "hidden"


class Unranged(HiddenSites):
    """Values that come from the hidden states of a text alone, whatever the ranges."""

    def ends(self, ranges: Ranges) -> Ends:
        slots = self.layout.slots
        return np.zeros(slots, dtype=np.float32), np.ones(slots, dtype=np.float32)


class Scaled(Unranged):
    """Hidden states, scaled to 0..1 between the least and the largest of the text's layer."""

    def block(self, kernels: Kernels, reading: Reading, kept: bool) -> Block:
        block = super().block(kernels, reading, kept)
        return block._replace(values=kernels.scaled(block.values, len(reading.batch.rows)))


class Top(Unranged):
    """1 for the k largest hidden states of a token's layer, and all as large; 0 for the others."""

    def __init__(self, view: View, layout: Layout, settings: Settings) -> None:
        super().__init__(view, layout, settings)
        self.k = int(view.number)

    def block(self, kernels: Kernels, reading: Reading, kept: bool) -> Block:
        block = super().block(kernels, reading, kept)
        return block._replace(values=kernels.top(block.values, block.site.columns, self.k))


def pooled_codes(kernels: Kernels, block: Block, texts: int, cells: int, codes: Array) -> Array:
    """Return codes of the rows that count, and where a text has several rows, each cell once."""
    found, none = torch.as_tensor(codes), no_cell(cells)
    if block.counts is not None:
        found[~block.counts] = none
    if len(found) > texts:
        found = distinct_codes(found, texts, cells, none)
    return kernels.as_array(found)


def distinct_codes(codes: Tensor, texts: int, cells: int, none: int) -> Tensor:
    """Return the cells that any token of a text hits, each once: [texts * planes, groups, n].

    `codes` are those of every token: [texts * T, groups, n]. A text has as many planes as it may
    hit cells of one neuron.
    """
    by_text = codes.view(texts, -1, *codes.shape[1:]).long()
    tokens = by_text.shape[1]
    planes = min(tokens, cells)
    hit = by_text.new_zeros((texts, cells + 1, *codes.shape[1:]), dtype=torch.bool)
    hit.scatter_(1, by_text.clamp(max=cells), True)
    hit = hit[:, :cells]
    plane = torch.where(hit, hit.cumsum(1) - 1, planes)  # those behind the last are thrown away
    found = torch.full((texts, planes + 1, *codes.shape[1:]), none, dtype=codes.dtype)
    cell = torch.arange(cells, device=codes.device, dtype=codes.dtype).view(1, -1, 1, 1)
    found = found.to(codes.device).scatter_(1, plane, cell.expand_as(plane))
    return found[:, :planes].flatten(0, 1)
