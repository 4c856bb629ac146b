"""Which neurons of a batch of texts the masks let count, as the kernels want it."""

from __future__ import annotations

import torch
from torch import Tensor

from mncover.backend import Array, Backend
from mncover.lookup import MaskTable
from mncover.sites import Site


class Keep:
    """Looks a batch's words and pairs up once, for all sites."""

    def __init__(self, table: MaskTable, backend: Backend) -> None:
        self.table = table
        self.backend = backend
        self._parts: dict[tuple[str, int], Array] = {}
        self.words = self.pairs = torch.empty(0, dtype=torch.uint8)

    def begin(self, ids: Tensor) -> None:
        """Take the tokens [n, T] of the next batch."""
        self.words = self.table.words_of(ids).to(torch.uint8)
        self.pairs = self.table.pairs_of(ids).to(torch.uint8)
        self._parts.clear()

    def of(self, site: Site) -> Array:
        """Return 1 or 0 for each neuron that the batch touches in each group of a site: [n, m]."""
        key = (site.kind, site.columns)
        if key not in self._parts:
            part = self.pairs
            if site.kind == "hidden":
                part = self.words[..., None].expand(-1, -1, site.columns)
            self._parts[key] = self.backend.as_array(part.flatten(1))
        return self._parts[key]
