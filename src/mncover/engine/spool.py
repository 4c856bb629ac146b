"""The codes of a window of texts, kept until they are walked in order.

Batches go by length, but gains are defined in the order of the texts. So the codes, one per
touched neuron, wait until the window is complete: in a temporary file, or on a GPU in its memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from mncover.criteria.base import Group
from mncover.data.layout import Site
from mncover.engine.kernels.base import Array, Kernels
from mncover.engine.masking import Kept


@dataclass(slots=True)
class _Batch:
    """One batch: how long its texts are, what of them counts, where each site's codes are."""

    length: int
    keep_tokens: Array = None  # [texts, T], if there are masks
    keep_pairs: Array = None  # [texts, T, T]
    places: dict[tuple[str, str], Any] = field(default_factory=dict)  # by criterion and site


class Spool:
    """Takes codes batch by batch and site by site; gives them back text by text."""

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self._store = kernels.new_store()
        self._where: dict[int, tuple[_Batch, int]] = {}
        sites = kernels.layout.sites
        self._names = [site.name for site in sites]
        self._sizes = cache(lambda length: np.array([site.touched(length) for site in sites]))

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.close()

    def clear(self) -> None:
        """Forget all codes."""
        self._where.clear()
        self._store.clear()

    def begin(self, rows: list[int], length: int, kept: Kept | None = None) -> None:
        """Start a batch of texts, named by their index; others may be under way."""
        batch = _Batch(length)
        if kept is not None:
            batch.keep_tokens = self.kernels.as_array(kept.tokens)
            batch.keep_pairs = self.kernels.as_array(kept.pairs)
        self._where.update({text: (batch, row) for row, text in enumerate(rows)})

    def write(self, text: int, site: Site, group: Group, codes: Array) -> None:
        """Take a group's codes [texts, groups, n] at one site of the batch that `text` is in."""
        place = self._store.put(codes, group.cells)
        self._where[text][0].places[group.plain, site.name] = place

    def read(self, text: int, group: Group) -> Array:
        """Return one text's codes for all sites, flat, in the order of the layout."""
        batch, row = self._where[text]
        places = [batch.places[group.plain, name] for name in self._names]
        return self._store.get(places, self._sizes(batch.length), row, group.cells)

    def masked(self, text: int, group: Group, codes: Array) -> Array:
        """Return one text's codes with "no cell" for everything that the masks leave out."""
        batch, row = self._where[text]
        keep = (batch.keep_tokens[row], batch.keep_pairs[row])
        return self.kernels.mask_codes(codes, batch.length, group.cells, *keep)
