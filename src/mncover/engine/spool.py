"""Codes that wait until a window is complete, batch by batch, and come back text by text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.criteria.base import Group
from mncover.data.layout import Layout, Site
from mncover.engine.batches import Rows
from mncover.engine.kernels.base import Array, Kernels
from mncover.engine.masking import Kept
from mncover.engine.ordered import CodeBlock, Numbers, by_length


@dataclass(slots=True)
class _Batch:
    """One batch: how long its texts are, what of them counts, where each site's codes are."""

    length: int
    texts: int
    keep_tokens: Array = None  # [texts, T], if there are masks
    keep_pairs: Array = None  # [texts, T, T]
    places: dict[tuple[str, str], Any] = field(default_factory=dict)  # by criterion and site
    planes: dict[str, int] = field(default_factory=dict)  # rows of codes of a text, by criterion


class Spool:
    """Takes codes batch by batch and site by site; gives them back text by text.

    Batches go by length, but gains are defined in the order of the texts. So the codes, one per
    touched neuron, wait until the window is complete: in a temporary file, or on a GPU in memory.
    `layouts` are those of criteria whose neurons are not the kernels'.
    """

    def __init__(self, kernels: Kernels, layouts: Mapping[str, Layout] | None = None) -> None:
        self.kernels, self.layouts = kernels, layouts or {}
        self._store = kernels.new_store()
        self._where: dict[int, tuple[_Batch, int]] = {}
        self._blocks: dict[str, tuple[list[CodeBlock], Numbers]] = {}
        self._sizes = cache(self._sizes_of)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.close()

    def _sites(self, criterion: str) -> tuple[Site, ...]:
        return self.layouts.get(criterion, self.kernels.layout).sites

    def _sizes_of(self, criterion: str, length: int) -> NDArray[np.int64]:
        return np.array([site.touched(length) for site in self._sites(criterion)])

    def clear(self) -> None:
        """Forget everything."""
        self._where.clear()
        self._blocks.clear()
        self._store.clear()

    def begin(self, rows: Rows, length: int, kept: Kept | None = None) -> None:
        """Start a batch of texts, named by their index; others may be under way."""
        batch = _Batch(length, len(rows))
        if kept is not None:
            batch.keep_tokens = self.kernels.as_array(kept.tokens)
            batch.keep_pairs = self.kernels.as_array(kept.pairs)
        self._where.update({text: (batch, row) for row, text in enumerate(rows.tolist())})

    def write(self, text: int, site: Site, group: Group, codes: Array) -> None:
        """Take a group's codes [texts, groups, n] at one site of the batch that `text` is in.

        A text may have several rows of them, one after the other.
        """
        batch = self._where[text][0]
        batch.planes[group.plain] = len(codes) // batch.texts
        batch.places[group.plain, site.name] = self._store.put(codes, group.cells)

    def read(self, text: int, group: Group) -> Array:
        """Return one text's codes for all sites, flat, in the order of the layout.

        Of a text that has several rows of codes, all of them: [rows, codes].
        """
        batch, row = self._where[text]
        places = [batch.places[group.plain, site.name] for site in self._sites(group.plain)]
        sizes, planes = self._sizes(group.plain, batch.length), batch.planes[group.plain]
        rows = range(row * planes, (row + 1) * planes)
        found = [self._store.get(places, sizes, one, group.cells) for one in rows]
        return found[0] if planes == 1 else self.kernels.stacked(found)

    def masked(self, text: int, group: Group, codes: Array) -> Array:
        """Return one text's codes with "no cell" for everything that the masks leave out."""
        batch, row = self._where[text]
        keep = (batch.keep_tokens[row], batch.keep_pairs[row])
        return self.kernels.mask_codes(codes, batch.length, group.cells, *keep)

    def blocks(self, texts: int, group: Group) -> tuple[list[CodeBlock], Numbers]:
        """Return the codes of all texts by length, and the block and row of each: [2, texts].

        Only for kernels that keep codes in memory. A text without tokens has -1.
        """
        if group.plain not in self._blocks:
            batches: dict[int, tuple[_Batch, list[int]]] = {}
            for text, (batch, _) in self._where.items():
                batches.setdefault(id(batch), (batch, []))[1].append(text)
            blocks: list[CodeBlock] = []
            where = np.full((2, texts), -1)
            for some in by_length(batches.values(), lambda one: self._size(one[0], group)):
                rows = [text for _, mine in some for text in mine]
                where[0, rows], where[1, rows] = len(blocks), np.arange(len(rows))
                blocks.append(self._joined([batch for batch, _ in some], group))
            self._blocks[group.plain] = blocks, where
        return self._blocks[group.plain]

    def _size(self, batch: _Batch, group: Group) -> tuple[int, int]:
        """Return the length of a batch's texts and the bytes of its codes."""
        sites = self._sites(group.plain)
        return batch.length, sum(batch.places[group.plain, site.name].nbytes for site in sites)

    def _joined(self, batches: list[_Batch], group: Group) -> CodeBlock:
        """Put the codes of batches into one tensor, of which they keep views."""
        length, codes = batches[0].length, []
        for batch in batches:
            places = [batch.places[group.plain, site.name] for site in self._sites(group.plain)]
            codes.append(torch.cat([place.flatten(1) for place in places], 1))
        whole = torch.cat(codes)
        for batch, part in zip(batches, torch.split(whole, list(map(len, codes))), strict=True):
            parts = torch.split(part, self._sizes(group.plain, length).tolist(), 1)
            for site, one in zip(self._sites(group.plain), parts, strict=True):
                batch.places[group.plain, site.name] = one.view(len(one), site.groups, -1)
        if batches[0].keep_tokens is None:
            return CodeBlock(length, whole)
        tokens = torch.cat([batch.keep_tokens for batch in batches])
        return CodeBlock(length, whole, (tokens, torch.cat([one.keep_pairs for one in batches])))
