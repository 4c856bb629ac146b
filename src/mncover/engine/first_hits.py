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

from mncover.criteria.base import Group
from mncover.data.table import NewCells
from mncover.engine.kernels.base import Array, Order, Target, WindowKernels, spare_bytes
from mncover.engine.readers import HitReader, Setup

Maps = dict[str, Array]


class FirstHits(NamedTuple):
    """Targets for texts with numbers from 0 on, each of which goes to one of several maps."""

    setup: Setup
    kernels: WindowKernels
    targets: dict[str, Target]

    @classmethod
    def over(cls, setup: Setup, kernels: WindowKernels, old: Maps, several: int = 1) -> FirstHits:
        """Return what is filled on top of old maps, by what `kernels_in_order` returned.

        `old` has the maps of all criteria of the setup's groups.
        """
        cells = {name: group.cells for group in setup.groups for name in group.names}
        targets = {
            name: Target(kernels.new_maps(several, n), old[name], kernels.new_first(n))
            for name, n in cells.items()
        }
        return cls(setup, kernels, targets)

    def reader(self, numbers: NDArray[np.int64], which: NDArray[np.int64]) -> HitReader:
        """Return a reader for texts with these numbers, which go to these maps."""
        order = Order(*(_numbers(one, self.kernels.device) for one in (numbers, which)))
        return HitReader(self.setup, self.targets, order)

    def new(self, criterion: str, n: int) -> NewCells:
        """Return how many cells each of the numbers below n was the first to hit: [2, n]."""
        first = self.targets[criterion].first
        return np.asarray(self.kernels.to_numpy(self.kernels.count_first(first, n)))


def most_maps(setup: Setup, kernels: WindowKernels) -> int:
    """Return how many maps of each criterion may be filled at a time."""
    cells = [group.cells for group in setup.groups for _ in group.names]
    size = sum(kernels.new_maps(1, n).nbytes for n in cells)
    return max(1, spare_bytes(kernels.device, MAPS_BYTES) // int(size))


MAPS_BYTES = 2**28  # where the device does not say what is free


def kernels_in_order(setup: Setup) -> WindowKernels | None:
    """Return kernels that keep the first text of each cell, if there is space for all criteria."""
    if not setup.kernels.orders:
        return None
    return setup.kernels.for_windows(sum(len(group.names) * group.cells for group in setup.groups))


def _numbers(values: NDArray[np.int64], device: torch.device) -> Array:
    return torch.from_numpy(values.astype(np.int32)).to(device)


def alone(setup: Setup, group: Group) -> Setup:
    """Return a setup that measures one group."""
    return setup._replace(groups=[group])


def cuts_at(contexts: Sequence[str], most_texts: int, most_contexts: int) -> list[slice]:
    """Return how to cut texts into pieces of at most so many texts and contexts.

    >>> cuts_at(["a", "a", "b", "c", "c", "c"], 4, 2)
    [slice(0, 3, None), slice(3, 6, None)]
    """
    cuts, start, inside = [], 0, 0
    for row, context in enumerate(contexts):
        changed = row == start or context != contexts[row - 1]
        if row - start == most_texts or inside + changed > most_contexts:
            cuts.append(slice(start, row))
            start, inside, changed = row, 0, True
        inside += changed
    return [*cuts, slice(start, len(contexts))] if contexts else []
