"""The values of a site as neurons have them: one for each position, or one for all of a text.

What the taps read in a batch is checked and, where the tokens of a text share their neurons,
pooled, once for all who look at it.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from mncover.data.layout import Kind, Site
from mncover.engine.batches import Rows
from mncover.engine.kernels.base import Heads
from mncover.engine.masking import Kept
from mncover.engine.statistics import of_heads, of_weights
from mncover.errors import ModelError


class Batch(NamedTuple):
    """The texts that run together: their indices, how long they are, and what of them counts."""

    rows: Rows
    places: Tensor
    length: int
    kept: Kept | None


class Pooled(NamedTuple):
    """Values [rows, groups, n], the place of each row's text, and which rows count; None: all."""

    values: Tensor
    places: Tensor
    counts: Tensor | None = None


class Reading:
    """What a tap read at a site of a batch: a tensor, or the `Heads` that it is computed from.

    `positions` is that of the settings.
    """

    def __init__(
        self, batch: Batch, kind: Kind, layer: int, given: Tensor | Heads, positions: str
    ) -> None:
        self.batch, self.kind, self.layer = batch, kind, layer
        self.given, self.positions = given, positions

    def tensor(self, site: Site) -> Tensor:
        """Return what was read of the batch's own texts; refuse a tensor of another shape."""
        assert isinstance(self.given, Tensor)
        texts, length = len(self.batch.rows), self.batch.length
        mine = self.given if len(self.given) == texts else self.given[:texts]  # copies behind them
        wide = (site.groups, length, length) if self.kind == "attention" else (length, site.columns)
        if tuple(mine.shape[1:]) != wide:
            raise ModelError(
                f"{site.name} has shape {tuple(mine.shape)}, expected {(texts, *wide)}: "
                "its size changes from text to text, so it cannot be counted."
            )
        return mine

    def pooled(self, site: Site, kept: bool) -> Pooled:
        """Return the values where all positions share their neurons; with `kept`, by the masks."""
        states = self._by_token(site)
        counting = self._counting if kept else None
        if self.positions == "mean":
            if not kept:
                return Pooled(_mean(states), self.batch.places)
            assert counting is not None
            return Pooled(_mean(states, counting), self.batch.places, counting.any(1))
        counts = None if counting is None else counting.flatten()
        places = self.batch.places.repeat_interleave(self.batch.length)
        return Pooled(states.flatten(0, 1), places, counts)

    def means(self, site: Site) -> Tensor:
        """Return the mean state of each text: [texts, 1, n]."""
        return _mean(self.tensor(site)[:, :, None])

    @property
    def _counting(self) -> Tensor:
        """Which tokens [texts, T] the masks keep."""
        assert self.batch.kept is not None
        return self.batch.kept.tokens != 0

    def _by_token(self, site: Site) -> Tensor:
        """Return the values of every token: [texts, T, groups, n]."""
        if self.kind == "hidden":
            return self.tensor(site)[:, :, None]
        return self._statistics(site)

    def _statistics(self, site: Site) -> Tensor:
        if isinstance(self.given, Heads):
            return self._of_heads[: len(self.batch.rows)]
        return of_weights(self.tensor(site))

    @cached_property
    def _of_heads(self) -> Tensor:
        assert isinstance(self.given, Heads)  # which are computed once: output is filled, too
        return of_heads(self.given)


def _mean(states: Tensor, counting: Tensor | None = None) -> Tensor:
    """Return the mean over the tokens of each text, or over those that count.

    In double precision, so that it does not depend on the batch.
    """
    if counting is None:
        return states.mean(dim=1, dtype=torch.float64).float()
    weights = counting[:, :, None, None].double()
    total = (states * weights).sum(dim=1)
    return (total / weights.sum(dim=1).clamp(min=1)).float()
