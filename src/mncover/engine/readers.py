"""What is done with a site's values while the model runs: one small class each.

A reader is told which batch comes (`begin`) and answers with a function that takes every site's
tensor of that batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from mncover.criteria.base import Group
from mncover.data.layout import Kind, Site
from mncover.engine import batches
from mncover.engine.kernels.base import Block, Bounds, Heads, Kernels, Order, Target
from mncover.engine.masking import Keep
from mncover.engine.reading import Batch, Reading
from mncover.engine.sites import SiteView, pooled_codes
from mncover.engine.spool import Spool
from mncover.engine.taps import Read
from mncover.types import POSITIONS

Targets = Mapping[str, Target]  # where the hits of each criterion go


class NotFiniteError(Exception):
    """A site held NaN or infinity; the caller knows the text of a row."""

    def __init__(self, site: Site, row: int) -> None:
        super().__init__(site.name)
        self.site, self.row = site, row


class Reader(Protocol):
    """Takes the sites of batches, also of several batches at a time."""

    def begin(self, texts: batches.Batch) -> Read:
        """Take a batch; return who reads it."""

    def end(self) -> None:
        """Finish when the last batch of a call was read."""


class Setup(NamedTuple):
    """What criteria that share a view are measured with."""

    view: SiteView
    kernels: Kernels
    bounds: Bounds
    groups: Sequence[Group]
    keep: Keep | None
    positions: str = POSITIONS[0]


class _SiteReader:
    """Looks at what is read in the way of every setup; the rest is the subclass's.

    It refuses values that are not finite.
    """

    def __init__(self, setups: Sequence[Setup]) -> None:
        self.setups, self.positions = setups, setups[0].positions
        self.keep = next((one.keep for one in setups if one.keep is not None), None)
        for one in setups:
            one.kernels.fault()  # what a call that failed has left

    def begin(self, texts: batches.Batch) -> Read:
        return partial(self.read, self.batch(texts))

    def end(self) -> None:
        faults = [one.kernels.fault() for one in self.setups]
        for fault in faults:
            if fault is not None:
                raise NotFiniteError(*fault)

    def batch(self, texts: batches.Batch) -> Batch:
        """Look up what of a batch counts."""
        pairs = self.positions == POSITIONS[0]
        kept = None if self.keep is None else self.keep.of(texts.ids, pairs)
        return Batch(texts.rows, texts.places, texts.ids.shape[1], kept)

    def read(self, batch: Batch, kind: Kind, layer: int, values: Tensor | Heads) -> None:
        """Take one site's values, or the heads that they are computed from."""
        reading = Reading(batch, kind, layer, values, self.positions)
        if isinstance(values, Heads) and not any(setup.view.reads(kind) for setup in self.setups):
            values.fill()  # whoever reads heads computes their output, and nobody does
        for setup in self.setups:
            for kept in dict.fromkeys([group.kept for group in setup.groups] or [False]):
                if not setup.view.reads(kind):
                    continue
                block = setup.view.block(setup.kernels, reading, kept)
                groups = [group for group in setup.groups if group.kept is kept]
                if not self.reduce(setup, groups, batch, block):
                    finite = np.isfinite(block.values).reshape(len(batch.rows), -1).all(axis=1)
                    raise NotFiniteError(block.site, batch.rows[int(np.argmin(finite))])

    def reduce(self, setup: Setup, groups: Sequence[Group], batch: Batch, block: Block) -> bool:
        """Use the values of a site; return False if one is known not to be finite."""
        raise NotImplementedError


class WidenReader(_SiteReader):
    """Stretches ranges so that they hold everything seen."""

    def reduce(self, setup: Setup, groups: Sequence[Group], batch: Batch, block: Block) -> bool:
        return setup.kernels.widen(block, setup.bounds)


class HitReader(_SiteReader):
    """Adds everything seen to the maps of some criteria.

    With an order, which some kernels take, it also keeps the first text that hit each cell.
    """

    def __init__(
        self, setups: Sequence[Setup], targets: Targets, order: Order | None = None
    ) -> None:
        super().__init__(setups)
        self.order = order
        groups = [group for setup in setups for group in setup.groups]
        self.targets = {one.plain: [targets[name] for name in one.names] for one in groups}

    def reduce(self, setup: Setup, groups: Sequence[Group], batch: Batch, block: Block) -> bool:
        finite, counting = True, setup.kernels.counting(block)
        for group in groups if len(counting.rows) else ():
            mine = self.targets[group.plain]
            finite &= setup.kernels.hit(group, counting, setup.bounds, mine, self.order)
        return finite


class EncodeReader(_SiteReader):
    """Keeps every text's codes in a spool, to be walked in order afterwards."""

    def __init__(self, setups: Sequence[Setup], spool: Spool) -> None:
        super().__init__(setups)
        self.spool = spool

    def begin(self, texts: batches.Batch) -> Read:
        batch = self.batch(texts)
        kept = batch.kept if self.positions == POSITIONS[0] else None
        self.spool.begin(batch.rows, batch.length, kept)
        return partial(self.read, batch)

    def reduce(self, setup: Setup, groups: Sequence[Group], batch: Batch, block: Block) -> bool:
        kernels, finite, texts = setup.kernels, True, len(batch.rows)
        for group in groups:
            codes = kernels.new_codes(len(block.rows), block.site, block.length, group.cells)
            finite &= kernels.encode(group, block, setup.bounds, codes)
            if self.positions != POSITIONS[0]:
                codes = pooled_codes(kernels, block, texts, group.cells, codes)
            self.spool.write(int(batch.rows[0]), block.site, group, codes)
        return finite
