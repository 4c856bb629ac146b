"""Where activations are read, and how the neurons of all sites lie in one flat array.

A site is one layer's hidden states (`hidden.0` … `hidden.D`) or one layer's attention
(`attention.1` … `attention.D`). Both kinds are seen as a block [groups, rows, columns]:

    hidden      1 group           rows = position t    columns = dimension d
    attention   groups = heads k  rows = query i       columns = key j

A text of T tokens touches the rows below T, and in attention also only the columns below T.
Where all positions share their neurons there is one row, which every text touches, and the columns
of attention are statistics of a head (`STATISTICS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

from mncover.errors import DataFileError

Kind = Literal["hidden", "attention"]

# Of a row of a head's weights, where all positions share their neurons.
STATISTICS = ("entropy", "largest", "itself", "previous", "first", "distance")


@dataclass(frozen=True, slots=True)
class Site:
    """One place where activations are read."""

    kind: Kind
    layer: int
    groups: int
    rows: int
    columns: int

    @property
    def name(self) -> str:
        """The site's name in reports, such as `attention.3`."""
        return f"{self.kind}.{self.layer}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The block of neurons: groups, rows, columns."""
        return (self.groups, self.rows, self.columns)

    @property
    def slots(self) -> int:
        """How many places the block has, those of a causal model's future included."""
        return self.groups * self.rows * self.columns

    @property
    def square(self) -> bool:
        """Whether its columns are positions too: the attention of one position to another."""
        return self.kind == "attention" and self.rows == self.columns

    def touched_rows(self, length: int) -> int:
        """How many rows a text of `length` tokens touches."""
        return min(length, self.rows)

    def touched_columns(self, length: int) -> int:
        """How many columns a text of `length` tokens touches."""
        return length if self.square else self.columns

    def touched(self, length: int) -> int:
        """How many slots a text of `length` tokens touches."""
        return self.groups * self.touched_rows(length) * self.touched_columns(length)


@dataclass(frozen=True, slots=True)
class Layout:
    """All sites of a model and where each lies in a flat array of neurons.

    In a causal model the attention to later positions (column > row) is zero by construction.
    Those slots exist in the arrays, which keeps them rectangular, but they are no neurons:
    they have no range, are never hit and are not counted.
    """

    sites: tuple[Site, ...]
    causal: bool = False

    @property
    def slots(self) -> int:
        """The length of a flat array that holds every site."""
        return sum(site.slots for site in self.sites)

    def spans(self) -> Iterator[tuple[Site, slice]]:
        """Yield each site with its slice of the flat array."""
        start = 0
        for site in self.sites:
            yield site, slice(start, start + site.slots)
            start += site.slots

    def of(self, kind: Kind) -> Layout:
        """Return the layout of one kind of site."""
        return replace(self, sites=tuple(site for site in self.sites if site.kind == kind))

    def touched_rows(self, length: int) -> int:
        """How many rows of each site a text of `length` tokens touches."""
        return self.sites[0].touched_rows(length)

    def cropped(self, length: int) -> Layout:
        """Return the layout of what texts of at most `length` tokens touch."""
        sites = []
        for site in self.sites:
            rows = min(site.rows, length)
            sites.append(replace(site, rows=rows, columns=site.touched_columns(rows)))
        return replace(self, sites=tuple(sites))

    def neurons_per_group(self, site: Site) -> int:
        """How many neurons one group (head) of a site really has."""
        if site.square and self.causal:
            return site.rows * (site.rows + 1) // 2
        return site.rows * site.columns

    def neurons(self, site: Site) -> int:
        """How many neurons a site really has."""
        return site.groups * self.neurons_per_group(site)

    def touched(self, length: int) -> int:
        """How many slots a text of `length` tokens touches over all sites."""
        return sum(site.touched(length) for site in self.sites)

    def touched_neurons(self, kind: Kind, length: int) -> int:
        """How many real neurons of a kind a text of `length` tokens touches."""
        sites = [site for site in self.sites if site.kind == kind]
        return sum(
            site.groups * length * (length + 1) // 2
            if site.square and self.causal
            else site.touched(length)
            for site in sites
        )

    def to_json(self) -> dict[str, Any]:
        """Return the layout as plain lists and numbers."""
        rows = [[s.kind, s.layer, s.groups, s.rows, s.columns] for s in self.sites]
        return {"causal": self.causal, "sites": rows}

    @classmethod
    def from_json(cls, value: Any) -> Layout:
        """Make a layout from what `to_json` returned; the value may come from a stranger."""
        try:
            sites = tuple(_site_from_json(row) for row in value["sites"])
            causal = value["causal"]
        except (KeyError, TypeError, ValueError) as error:
            raise DataFileError(f"its list of sites cannot be read ({error!r})") from error
        if not isinstance(causal, bool) or not sites:
            raise DataFileError("its list of sites is empty or says nothing of causality")
        return cls(sites, causal)


def _site_from_json(row: Sequence[Any]) -> Site:
    kind, *numbers = row
    fits = kind in ("hidden", "attention") and len(numbers) == 4
    if not fits or any(type(n) is not int or n < 0 for n in numbers) or min(numbers[1:]) < 1:
        raise ValueError(f"not a site: {row}")
    return Site(cast(Kind, kind), *numbers)
