"""Take cases that do something new inside the model and that it is not sure of. No labels needed.

What is new is counted in cells, as coverage is: each dimension of a signature is a neuron whose
value is that of the whole text (positions `mean`), and its range over the calibration texts is cut
into bins. Two grids are counted together: the coarse one spreads the first cases out, the fine
one still tells cases apart when the coarse one is full.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.data.signatures import SignatureSpace

Floats = NDArray[np.float64]

GRIDS = (10, 100)
LITTLE = 1e-4  # what a case without new cells counts: then the more uncertain one comes first


@dataclass(frozen=True)
class Cells:
    """The cells that each case hits, [cases, dimensions * grids]; `nothing` stands for no cell."""

    hits: NDArray[np.int32]
    nothing: int

    def order(
        self, weights: Floats, n: int | None = None, before: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return cases in the order of taking: the most new cells times weight, again and again.

        `before` are cases that were taken already. Without `n` all others are returned. New cells
        only ever become fewer, so a case that is still the best when counted again is the best.
        """
        hit = np.zeros(self.nothing + 1, dtype=bool)
        hit[self.nothing] = True
        free = np.ones(len(self.hits), dtype=bool)
        if before is not None:
            free[before] = False
            hit[self.hits[before]] = True
        left = np.flatnonzero(free)
        scores = -((~hit[self.hits[left]]).sum(axis=1) + LITTLE) * weights[left]
        heap = list(zip(scores.tolist(), left.tolist(), strict=True))
        heapq.heapify(heap)
        taken: list[int] = []
        while heap and (n is None or len(taken) < n):
            _, case = heapq.heappop(heap)
            new = int((~hit[self.hits[case]]).sum())
            score = -(new + LITTLE) * float(weights[case])
            if heap and (score, case) > heap[0]:
                heapq.heappush(heap, (score, case))
                continue
            taken.append(case)
            hit[self.hits[case]] = True
        return np.array(taken, dtype=np.int64)


def cells_of(signatures: NDArray[np.floating], space: SignatureSpace) -> Cells:
    """Return the cells that each row hits.

    A value outside its range, or NaN, hits nothing, and so does a dimension of one value.
    """
    low, high, nothing = space.low, space.high, sum(GRIDS) * space.size
    values = signatures.astype(np.float32, copy=False)
    width = np.where(high > low, high - low, np.float32(1))
    outside = ~((values >= low) & (values <= high) & (high > low))
    share = np.where(outside, np.float32(0), values - low) / width
    found, start = [], 0
    for bins in GRIDS:
        cells = np.minimum((share * bins).astype(np.int32), bins - 1)
        cells += start + np.arange(space.size, dtype=np.int32) * bins
        cells[outside] = nothing
        found.append(cells)
        start += bins * space.size
    return Cells(np.concatenate(found, axis=1), nothing)
