"""Which neurons of a batch of texts the masks let count, as the kernels want it."""

from __future__ import annotations

import torch
from torch import Tensor

from mncover.backend import Array, Backend
from mncover.lookup import MaskTable
from mncover.sites import Site


class Keep:
    """Looks the words and pairs of batches up."""

    def __init__(self, table: MaskTable, backend: Backend) -> None:
        self.table = table
        self.backend = backend

    def of(self, ids: Tensor) -> Kept:
        """Return what counts of a batch of tokens [n, T]."""
        words = self.table.words_of(ids).to(torch.uint8)
        return Kept(words, self.table.pairs_of(ids).to(torch.uint8), self.backend)


class Kept:
    """1 for the words [n, T] and pairs [n, T, T] of a batch that count, 0 for the others."""

    def __init__(self, words: Tensor, pairs: Tensor, backend: Backend) -> None:
        self.words = words
        self.pairs = pairs
        self.backend = backend
        self._parts: dict[tuple[str, int], Array] = {}

    def at(self, site: Site) -> Array:
        """Return 1 or 0 for each neuron that the batch touches in each group of a site: [n, m]."""
        key = (site.kind, site.columns)
        if key not in self._parts:
            part = self.pairs
            if site.kind == "hidden":
                part = self.words[..., None].expand(-1, -1, site.columns)
            self._parts[key] = self.backend.as_array(part.flatten(1))
        return self._parts[key]
