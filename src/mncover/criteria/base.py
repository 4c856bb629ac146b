"""What a criterion is: which cells a neuron has, and which of them a value falls into.

Everything else, from maps and gains to the data file and reports, works for any. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mncover.data.layout import Layout
from mncover.errors import SettingsError
from mncover.types import Settings


class Coding(Protocol):
    """Puts each value into one cell of its neuron, or into none."""

    def codes(self, xp: Any, values: Any, low: Any, high: Any, cells: int) -> Any:
        """Return the cell of every value, -1 for none.

        `xp` is numpy or torch, whichever the arrays are of: `values` [texts, groups, n] and the
        ranges `low` and `high` [groups, n]; a neuron without a range has low > high.
        """


@dataclass(frozen=True, slots=True)
class View:
    """What a criterion looks at, as `engine/views.py` knows it; the number is the view's own."""

    name: str
    number: float = 0.0


ALL, HIDDEN = View("all"), View("hidden")  # every site; hidden states alone


@dataclass(frozen=True, slots=True)
class Parameter:
    """The number behind a criterion's name, as in `tknc:3`: what it means, and what it may be."""

    meaning: str
    default: float
    low: float
    high: float
    make: Callable[[float, str], Criterion]
    whole: bool = False

    def at(self, name: str, number: str) -> Criterion:
        """Return a criterion with another number; refuse one that is none."""
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not self.low <= value <= self.high or (self.whole and value != int(value)):
            kind = "a whole number" if self.whole else "a number"
            raise SettingsError(
                f"the number of {name} must be {kind} from {self.low:g} to {self.high:g} "
                f"({self.meaning}), got {number!r}."
            )
        return self.make(value, name if value == self.default else f"{name}:{value:g}")


class Criterion(Protocol):
    """One way to say what is covered: a view of the sites, and a coding of its values.

    A `masked` criterion counts only the tokens and pairs that masks let count; it is measured
    beside the criterion without masks that has the same coding.
    """

    @property
    def name(self) -> str:
        """What the command line and files call it: a lower-case identifier."""

    @property
    def title(self) -> str:
        """What reports call it."""

    @property
    def summary(self) -> str:
        """What it counts, in a few words."""

    @property
    def source(self) -> str:
        """Where it comes from."""

    @property
    def parameter(self) -> Parameter | None:
        """What the number behind its name means, if it takes one."""

    @property
    def masked(self) -> bool:
        """Whether it needs masks."""

    @property
    def view(self) -> View:
        """What its neurons are."""

    @property
    def coding(self) -> Coding:
        """How values become cells."""

    def cells(self, settings: Settings) -> int:
        """Return how many cells each neuron has."""

    def reachable(
        self, low: NDArray[np.float32], high: NDArray[np.float32], cells: int
    ) -> NDArray[np.int64]:
        """Return how many cells of each neuron can be hit at all, given the ranges."""


@dataclass(frozen=True, slots=True)
class Group:
    """Criteria that need the codes of a value only once: one, and perhaps its masked companion.

    With `kept` the values themselves are made of those tokens alone that the masks keep.
    """

    coding: Coding
    cells: int
    plain: str
    masked: str | None = None
    view: View = ALL
    kept: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its criteria."""
        return (self.plain,) if self.masked is None else (self.plain, self.masked)


def grouped(criteria: Sequence[Criterion], settings: Settings) -> tuple[Group, ...]:
    """Put criteria together that share a coding.

    Where tokens share their neurons a masked criterion has values, and so codes, of its own.
    """
    own = settings.pooled
    masked = {(id(c.coding), c.view): c.name for c in criteria if c.masked and not own}
    return tuple(
        Group(
            c.coding,
            c.cells(settings),
            c.name,
            masked.pop((id(c.coding), c.view), None),
            c.view,
            c.masked,
        )
        for c in criteria
        if own or not c.masked
    )


def reachable_rows(
    criterion: Criterion,
    layout: Layout,
    low: NDArray[np.float32],
    high: NDArray[np.float32],
    cells: int,
) -> list[NDArray[np.int64]]:
    """Return, for each site, how many cells can be hit in each row of each group."""
    return [
        criterion.reachable(low[part], high[part], cells)
        .reshape(site.shape)
        .sum(axis=2, dtype=np.int64)
        for site, part in layout.spans()
    ]
