"""Gains in order without a walk: for each cell the first text that hit it, kept while texts run.

A text's gain is the number of cells that it was the first to hit. The first is the one with the
smallest number, and a minimum does not care in which order batches come, nor how often.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.data.table import NewCells
from mncover.engine.kernels.base import Array, Order, Target, WindowKernels, spare_bytes
from mncover.engine.readers import HitReader, Setup

Maps = dict[str, Array]
InOrder = dict[str, WindowKernels]  # by criterion


class FirstHits(NamedTuple):
    """Targets for texts with numbers from 0 on, each of which goes to one of several maps."""

    setups: Sequence[Setup]
    kernels: InOrder
    targets: dict[str, Target]

    @classmethod
    def over(
        cls, setups: Sequence[Setup], kernels: InOrder, old: Maps, several: int = 1
    ) -> FirstHits:
        """Return what is filled on top of old maps, by what `kernels_in_order` returned.

        `old` has the maps of all criteria of the setups' groups.
        """
        targets = {
            name: Target(kernels[name].new_maps(several, n), old[name], kernels[name].new_first(n))
            for name, n in _cells(setups)
        }
        return cls(setups, kernels, targets)

    def reader(self, numbers: NDArray[np.int64], which: NDArray[np.int64]) -> HitReader:
        """Return a reader for texts with these numbers, which go to these maps."""
        device = self.setups[0].kernels.device
        order = Order(*(_numbers(one, device) for one in (numbers, which)))
        return HitReader(self.setups, self.targets, order)

    def new(self, criterion: str, n: int) -> NewCells:
        """Return how many cells each of the numbers below n was the first to hit: [2, n]."""
        first, kernels = self.targets[criterion].first, self.kernels[criterion]
        return np.asarray(kernels.to_numpy(kernels.count_first(first, n)))


def most_maps(setups: Sequence[Setup], kernels: InOrder) -> int:
    """Return how many maps of each criterion may be filled at a time."""
    size = sum(kernels[name].new_maps(1, n).nbytes for name, n in _cells(setups))
    return max(1, spare_bytes(setups[0].kernels.device, MAPS_BYTES) // int(size))


MAPS_BYTES = 2**28  # where the device does not say what is free


def _cells(setups: Sequence[Setup]) -> list[tuple[str, int]]:
    """Return every criterion of some setups with its cells per neuron."""
    groups = [group for setup in setups for group in setup.groups]
    return [(name, group.cells) for group in groups for name in group.names]


def kernels_in_order(setups: Sequence[Setup]) -> InOrder | None:
    """Return kernels that keep the first text of each cell, if there is space for all criteria."""
    found: InOrder = {}
    for setup in setups:
        cells = sum(len(group.names) * group.cells for group in setup.groups)
        kernels = setup.kernels.for_windows(cells) if setup.kernels.orders else None
        if kernels is None:
            return None
        found |= {name: kernels for group in setup.groups for name in group.names}
    return found


def _numbers(values: NDArray[np.int64], device: torch.device) -> Array:
    return torch.from_numpy(values.astype(np.int32)).to(device)


def cuts_at(contexts: Sequence[str], most_texts: int, most_contexts: int) -> list[slice]:
    """Return how to cut texts into pieces of at most so many texts and contexts.

    >>> cuts_at(["a", "a", "b", "c", "c", "c"], 4, 2)
    [slice(0, 3, None), slice(3, 6, None)]
    """
    cuts, start, inside, before = [], 0, 0, ""
    for row, context in enumerate(contexts):
        changed, before = row == start or context != before, context
        if row - start == most_texts or inside + changed > most_contexts:
            cuts.append(slice(start, row))
            start, inside, changed = row, 0, True
        inside += changed
    return [*cuts, slice(start, len(contexts))] if contexts else []
