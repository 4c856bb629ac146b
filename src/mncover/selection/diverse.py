"""Take cases that do something new inside the model and that it is not sure of. No labels needed.

What is new is counted in cells, as coverage is: each dimension of a signature is a neuron whose
value is that of the whole text (positions `mean`), and its range over the calibration texts is cut
into bins. Two grids are counted together: the coarse one spreads the first cases out, the fine
one still tells cases apart when the coarse one is full.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from mncover.data.signatures import SignatureSpace

Floats = NDArray[np.float64]

GRIDS = (10, 100)
LITTLE = 1e-4  # what a case without new cells counts: then the more uncertain one comes first


def cells_of(signatures: Floats, space: SignatureSpace) -> tuple[NDArray[np.int64], int]:
    """Return the cells that each row hits, [rows, dimensions * grids], and which is no cell.

    A value outside its range, or NaN, hits nothing, and so does a dimension of one value.
    """
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    nothing = sum(GRIDS) * space.size
    width = np.where(high > low, high - low, np.nan)
    found, start = [], 0
    for bins in GRIDS:
        inside = (signatures >= low) & (signatures <= high) & (high > low)
        share = np.where(inside, (signatures - low) / width, 0) * bins
        number = np.minimum(share.astype(np.int64), bins - 1)
        cells = start + np.arange(space.size) * bins + number
        found.append(np.where(inside, cells, nothing))
        start += bins * space.size
    return np.concatenate(found, axis=1), nothing


def diverse_order(cells: NDArray[np.int64], nothing: int, weights: Floats) -> NDArray[np.int64]:
    """Return the rows in the order of taking: the most new cells times weight, again and again.

    New cells only ever become fewer, so a row that is still best when counted again is the best.
    """
    hit = np.zeros(nothing + 1, dtype=bool)
    hit[nothing] = True
    first = -((cells != nothing).sum(axis=1) + LITTLE) * weights
    heap = [(score, row) for row, score in enumerate(first.tolist())]
    heapq.heapify(heap)
    order: list[int] = []
    while heap:
        _, row = heapq.heappop(heap)
        new = int((~hit[cells[row]]).sum())
        score = -(new + LITTLE) * float(weights[row])
        if heap and (score, row) > heap[0]:
            heapq.heappush(heap, (score, row))
            continue
        order.append(row)
        hit[cells[row]] = True
    return np.array(order, dtype=np.int64)
