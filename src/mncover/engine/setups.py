"""The criteria of a measurement: each with its view of the sites, kernels, and ranges."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.criteria.base import ALL, Criterion, Group, View, grouped, reachable_rows
from mncover.data.gains import gain_share
from mncover.data.identity import Measured
from mncover.data.layout import Layout
from mncover.data.maps import check_size
from mncover.data.places import Room
from mncover.engine.kernels import kernels_for
from mncover.engine.kernels.base import Array, Bounds, Kernels, code_type
from mncover.engine.masking import Keep
from mncover.engine.ranges import Ranges
from mncover.engine.readers import Setup
from mncover.engine.sites import Ends, SiteView
from mncover.engine.views import needs_references, view_of
from mncover.errors import NotCalibratedError, SettingsError
from mncover.types import Settings


class Setups:
    """What every criterion is measured with; the first is the main one.

    `layout` is that of all sites that are read. Criteria that look at the same neurons share
    kernels.
    """

    def __init__(self, criteria: Sequence[Criterion], settings: Settings, layout: Layout) -> None:
        self.settings, self.layout = settings, layout
        self.criteria = {criterion.name: criterion for criterion in criteria}
        self.groups = grouped(criteria, settings)
        self._group_of = {name: group for group in self.groups for name in group.names}
        views = dict.fromkeys([ALL, *(group.view for group in self.groups)])
        self.views: dict[View, SiteView] = {view: view_of(view, layout, settings) for view in views}
        for group in self.groups:  # what is measured must be readable
            check_size(self.layout_of(group.plain), group.cells)
        self._kernels: dict[View, Kernels] = {}
        self._ends: dict[View, Ends] = {}
        self._bounds: dict[View, Bounds] = {}
        self.keep: Keep | None = None
        self.ranges: Ranges | None = None

    def run_on(self, device: torch.device, kernels: str) -> None:
        """Make the kernels of every view."""
        self._kernels = {
            view: kernels_for(one.layout, device, kernels) for view, one in self.views.items()
        }

    def use_ranges(self, ranges: Ranges) -> None:
        """Cut bins by these ranges from now on."""
        self.ranges = ranges
        self.__dict__.pop("reachable", None)
        self._ends = {view: one.ends(ranges) for view, one in self.views.items()}
        self._bounds = {
            view: Bounds(*map(self._kernels[view].to_device, ends))
            for view, ends in self._ends.items()
        }

    @property
    def needs_references(self) -> bool:
        """Whether a view compares texts with calibration texts."""
        return any(map(needs_references, self.views))

    @property
    def main(self) -> str:
        """The name of the main criterion."""
        return self.groups[0].plain

    @property
    def kernels(self) -> Kernels:
        """The kernels over all sites."""
        return self._kernels[ALL]

    @property
    def bounds(self) -> Bounds:
        """Low and high of every neuron of all sites, on the subject's device."""
        self.require_ranges()
        return self._bounds[ALL]

    @property
    def each(self) -> list[Setup]:
        """What readers need: a setup for each view that a criterion has."""
        return [self._setup(view) for view in self.views if self._groups(view)]

    @property
    def widening(self) -> Setup:
        """What calibration needs: all sites, and no criterion."""
        return self._setup(ALL)._replace(groups=(), keep=None)

    def alone(self, criterion: str) -> list[Setup]:
        """Return what measures one criterion, and what shares its codes."""
        group = self.group(criterion)
        return [self._setup(group.view)._replace(groups=[group])]

    def _groups(self, view: View) -> list[Group]:
        return [group for group in self.groups if group.view == view]

    def _setup(self, view: View) -> Setup:
        groups = self._groups(view)
        masked = any(group.masked is not None or group.kept for group in groups)
        bounds = self._bounds.get(view, Bounds(None, None))
        given = self.views[view], self._kernels[view], bounds, groups
        return Setup(*given, self.keep if masked else None, self.settings.positions)

    def require_ranges(self) -> Ranges:
        """Return the ranges; refuse if there are none yet."""
        if self.ranges is None:
            raise NotCalibratedError("call calibrate() first: without ranges there are no bins.")
        return self.ranges

    # One criterion.

    def check(self, criterion: str) -> str:
        """Return the name of a criterion that is measured; refuse another."""
        if criterion not in self.criteria:
            hint = ", and there are no masks" if criterion == "mncover" else ""
            names = ", ".join(self.criteria)
            raise SettingsError(f"{criterion!r} is not measured{hint}; there is {names}.")
        return criterion

    def group(self, criterion: str) -> Group:
        """Return the group that a criterion is in."""
        return self._group_of[criterion]

    def layout_of(self, criterion: str) -> Layout:
        """Return where a criterion's neurons are."""
        return self.views[self.group(criterion).view].layout

    def kernels_of(self, criterion: str) -> Kernels:
        """Return the kernels that know a criterion's maps."""
        return self._kernels[self.group(criterion).view]

    @property
    def layouts(self) -> dict[str, Layout]:
        """The layout of each criterion."""
        return {name: self.layout_of(name) for name in self._group_of}

    def gain(self, criterion: str, hidden: object, attention: object) -> NDArray[np.float64]:
        """Return newly hit cells, numbers or arrays, as what they add to a criterion."""
        cells, layout = self.group(criterion).cells, self.layout_of(criterion)
        return np.asarray(gain_share(layout, self.settings, cells, hidden, attention))

    def new_bits(self, criterion: str) -> Array:
        """Return a criterion's map in which nothing was hit."""
        return self.kernels_of(criterion).new_bits(self.group(criterion).cells)

    def bits_to_numpy(self, bits: Array, criterion: str) -> Array:
        """Return a criterion's map as NumPy's unsigned integers."""
        return self.kernels_of(criterion).bits_to_numpy(bits, self.group(criterion).cells)

    # All criteria.

    @cached_property
    def room(self) -> Room:
        """An estimate of what measuring takes."""
        cells = [(self.layout_of(name), self.group(name).cells) for name in self.criteria]
        return Room.of(self.layout, cells)

    @cached_property
    def reachable(self) -> dict[str, list[NDArray[np.int64]]]:
        """How many cells of each criterion can be reached, by site: [groups, rows]."""
        self.require_ranges()
        return {
            name: reachable_rows(
                one, self.layout_of(name), *self._ends[one.view], one.cells(self.settings)
            )
            for name, one in self.criteria.items()
        }

    def measured(self) -> tuple[Measured, ...]:
        """Return the criteria as a measurement knows them."""
        found = []
        for name, criterion in self.criteria.items():
            rows = self.reachable[name]
            reachable = tuple(tuple(one.sum(axis=1).tolist()) for one in rows)
            about = name, criterion.title, criterion.cells(self.settings), reachable
            found.append(Measured(*about, self.layout_of(name)))
        return tuple(found)

    def code_bytes(self, length: int, waiting: bool = True) -> int:
        """Return how many bytes the codes of a text take, while they wait or when they are used."""
        total = 0
        for group in self.groups:
            planes = min(length, group.cells) if self.settings.positions == "any" else 1
            codes = planes * self.layout_of(group.plain).touched(length)
            kernels = self.kernels_of(group.plain)
            on_disk = kernels.disk_bytes(codes, group.cells) if waiting else 0
            total += on_disk or codes * code_type(group.cells).itemsize
        return total
