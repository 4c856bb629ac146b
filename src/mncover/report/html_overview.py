"""The first page: totals, a table of tests, and where in the model coverage is. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.results import Result
from mncover.data.store import CoverageData
from mncover.report.columns import coverage_columns, shown
from mncover.report.describe import by_capability, counts, important
from mncover.report.html_tests import TestPage
from mncover.report.notes import column_notes, headline, little_words, of_all, warnings_of
from mncover.report.plans import ESTIMATE_TITLES, estimate_cells, estimate_notes, shown_estimates
from mncover.selection.missing import reachable_rows
from mncover.types import __version__

STRIP = 128  # positions shown of a layer at most
CELLS = 32  # of a head's map at most, in each direction

Pages = Sequence[tuple[str, TestPage]]  # with their addresses
Cell = tuple[str, Any, str]  # what is shown, what it is sorted by, and how it has changed


def overview(
    data: CoverageData, result: Result, pages: Pages, earlier: Result | None, since: str
) -> dict[str, Any]:
    """Return what the templates need.

    `earlier` has the numbers of an earlier run to compare with, whose file is called `since`.
    """
    identity, before = result.identity, earlier
    if earlier is not None and not _comparable(result, earlier):
        before = None
    hidden, attention = heatmaps(data, result)
    capabilities = by_capability(result.outcomes)
    estimates = shown_estimates(result.estimates)
    return {
        "result": result,
        "model": Path(identity.model).name or identity.model,
        "headlines": [headline(result, one) for one in result.criteria.values()],
        "of_all": [of_all(one) for one in result.criteria.values()],
        "little": little_words(result),
        "warnings": warnings_of(result),
        "columns": column_notes(result),
        "adds_little_at": f"{100 * result.adds_little_at:g}",
        "since": since,
        "notes": _notes(result, before, since),
        "pages": pages,
        "titles": [column.title for column in coverage_columns(result)],
        "coverage": _coverage(result, pages, before),
        "capabilities": [[name, *counts(mine)] for name, mine in capabilities.items()],
        "estimates": [(one.change, estimate_cells(one)) for one in estimates],
        "estimate_titles": ESTIMATE_TITLES,
        "estimate_notes": estimate_notes(result.estimates),
        "by_position": identity.main.layout.sites[0].rows > 1,
        "hidden": hidden,
        "attention": attention,
        "maps": _maps(hidden, attention),
        "words": [] if identity.masks is None else important(identity.masks),
        "meetings": data.meetings,
        "version": __version__,
    }


def _comparable(result: Result, earlier: Result) -> bool:
    """Return whether coverage of both runs is of the same bins."""
    names = ("ranges_fingerprint", "settings", "layout")
    now, then = result.identity, earlier.identity
    same = all(getattr(now, name) == getattr(then, name) for name in names)
    return same and result.main.name == earlier.main.name


def _notes(result: Result, before: Result | None, since: str) -> list[str]:
    notes = [f"interrupted: {name}" for name in result.interrupted]
    notes += [f"part of {part}" for part in result.parts]
    if not since:
        return notes
    change = "coverage not compared: another model, calibration or setting"
    if before is not None:
        now, then = (one.main.tally.share_of_reachable for one in (result, before))
        change = f"{result.main.title} {100 * (now - then):+.2f} points"
    return [*notes, f"compared with {since}", change]


def _coverage(result: Result, pages: Pages, before: Result | None) -> list[list[Cell]]:
    """Return the cells of coverage of each page; a change is that of the main criterion."""
    columns, main = coverage_columns(result), result.main.name
    now, then = ({c.name: c for c in one.contexts} if one else {} for one in (result, before))
    rows = []
    for _, page in pages:
        context, old, change = now.get(page.test.name), then.get(page.test.name), ""
        if context is not None and old is not None:
            was, is_now = (one.main.tally.share_of_reachable for one in (old, context))
            points = 100 * (is_now - was)
            change = f"{points:+.2f}" if abs(points) >= 0.005 else ""
        cells: list[Cell] = []
        for column in columns:
            value = "" if context is None else column.value(context)
            cells.append((shown(value) or "-", value, change if column.key == main else ""))
        rows.append(cells)
    return rows


# Where in the model coverage is: by layer and position, by layer and head.


class HiddenLayer(NamedTuple):
    """One layer's hidden states: the covered share of the reachable bins, all and by position."""

    layer: int
    share: float
    positions: list[float]

    @property
    def shown(self) -> list[float]:
        """At most `STRIP` shares: means of equally many positions."""
        step = -(-len(self.positions) // STRIP) or 1
        places = range(0, len(self.positions), step)
        return [float(np.mean(self.positions[i : i + step])) for i in places]


class Head(NamedTuple):
    """One attention head: the covered share of its reachable bins, and a coarse map of all bins.

    The map is [queries, keys].
    """

    number: int
    share: float
    cells: list[list[float]]


class AttentionLayer(NamedTuple):
    """One layer's heads."""

    layer: int
    heads: list[Head]


def heatmaps(data: CoverageData, result: Result) -> tuple[list[HiddenLayer], list[AttentionLayer]]:
    """Return what all texts together cover by the main criterion, up to the longest text."""
    length = int(data.table["length"].max()) if len(data.table) else 0
    main = data.identity.main
    layout, cells = main.layout.cropped(data.longest), main.cells
    bits, width = data.total(length=data.longest), maps.ints_per_neuron(cells)
    hidden: list[HiddenLayer] = []
    attention: list[AttentionLayer] = []
    reachable = iter(reachable_rows(data, data.identity.main))
    for (site, part), found in zip(layout.spans(), result.sites, strict=True):
        block = np.bitwise_count(bits[part.start * width : part.stop * width])
        counts = block.reshape(site.groups, site.rows, site.columns, width).sum(axis=3)
        rows = next(reachable)[0, :length]
        if site.kind == "hidden":
            positions = counts[0, :length].sum(axis=1) / np.maximum(rows, 1)
            share = found.count.share_of_reachable
            hidden.append(HiddenLayer(site.layer, share, positions.tolist()))
        else:
            cut = counts[:, :length, : site.touched_columns(length)] / cells
            heads = [
                Head(k, one.share_of_reachable, _coarse(cut[k]).round(3).tolist())
                for k, one in enumerate(found.heads)
            ]
            attention.append(AttentionLayer(site.layer, heads))
    return hidden, attention


def _coarse(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a map of at most `CELLS` by `CELLS`: means of equal blocks."""
    if len(counts) <= CELLS:
        return counts
    edges = np.linspace(0, len(counts), CELLS + 1).astype(int)
    rows = np.add.reduceat(counts, edges[:-1], axis=0)
    sizes = np.diff(edges)
    means: NDArray[np.float64] = np.add.reduceat(rows, edges[:-1], axis=1) / np.outer(sizes, sizes)
    return means


def _maps(hidden: Sequence[HiddenLayer], attention: Sequence[AttentionLayer]) -> dict[str, Any]:
    """Return what the page's script draws when a layer or a head is selected."""
    return {
        "length": len(hidden[0].positions) if hidden else 0,
        "hidden": [
            {"layer": h.layer, "share": h.share, "positions": [round(p, 3) for p in h.positions]}
            for h in hidden
        ],
        "attention": [
            [{"layer": a.layer, "share": head.share, "cells": head.cells} for head in a.heads]
            for a in attention
        ],
    }
