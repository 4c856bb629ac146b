"""The first page: totals, a table of tests, and where in the model coverage is. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.identity import MaskSummary
from mncover.data.results import ContextResult, Result
from mncover.data.store import CoverageData
from mncover.report.columns import Column, coverage_columns, shown
from mncover.report.describe import by_capability, counts, important
from mncover.report.html_tests import TestPage
from mncover.types import __version__, display_percent

STRIP = 128  # positions shown of a layer at most
CELLS = 32  # of a head's map at most, in each direction

Pages = Sequence[tuple[str, TestPage]]  # with their addresses


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: what is shown, what it is sorted by, and decoration."""

    text: str
    value: Any = None
    href: str = ""
    left: bool = False
    bar: float | None = None
    tag: str = ""
    tag_class: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A number with its name."""

    label: str
    value: str


def overview(
    data: CoverageData, result: Result, file: Path, pages: Pages, earlier: Result | None, since: str
) -> dict[str, Any]:
    """Return what the template of the first page needs.

    `earlier` has the numbers of an earlier run to compare with, whose file is called `since`.
    """
    identity, settings = result.identity, result.identity.settings
    hidden, attention = heatmaps(data)
    about = (
        f"{result.texts:,} texts, {settings.bins} bins, up to {settings.max_length} tokens, "
        f"calibrated on {identity.calibration_texts:,} texts"
    )
    return {
        "model": Path(identity.model).name or identity.model,
        "about": about,
        "file": str(file),
        "redundant_at": f"{100 * result.redundant_at:g}",
        "cards": _cards(result, pages),
        "notes": _notes(result, earlier, since),
        "columns": _titles(result),
        "rows": _rows(result, pages, earlier),
        "capabilities": _capabilities(result),
        "hidden": [{**asdict(layer), "shown": _thinned(layer.positions)} for layer in hidden],
        "attention": attention,
        "maps": _maps(hidden, attention),
        "masks": None if identity.masks is None else _masks(identity.masks),
        "version": __version__,
    }


def _cards(result: Result, pages: Pages) -> list[Card]:
    main, *others = result.criteria.values()
    cards = [Card(f"{main.title}, % of all bins", display_percent(main.tally.share))]
    cards += [Card(f"{one.title}, %", display_percent(one.tally.share)) for one in others]
    reachable = display_percent(main.tally.share_of_reachable)
    cards.append(Card("of the reachable bins, %", reachable))
    judged = sum(page.judged for _, page in pages)
    if judged:
        failing = sum(page.failing for _, page in pages)
        cards.append(Card(f"of {judged:,} judged cases fail", f"{failing:,}"))
        cards.append(Card("failing, %", display_percent(failing / judged)))
    redundant = [page.redundant for _, page in pages]
    if redundant and None not in redundant:
        total = sum(page.cases for _, page in pages)
        count = sum(number or 0 for number in redundant)
        cards.append(Card(f"of {total:,} cases are redundant", f"{count:,}"))
    return cards


def _notes(result: Result, earlier: Result | None, since: str) -> list[str]:
    notes = [f"interrupted: {name}" for name in result.interrupted]
    if earlier is None:
        return notes
    notes.append(f"compared with {since}")
    if not _comparable(result, earlier):
        return [*notes, "coverage not compared: another model, calibration or setting"]
    change = 100 * (result.main.tally.share - earlier.main.tally.share)
    return [*notes, f"{result.main.title} {change:+.2f} points"]


def _comparable(result: Result, earlier: Result | None) -> bool:
    """Return whether coverage of both runs is of the same bins."""
    if earlier is None or result.main.name != earlier.main.name:
        return False
    now, then = result.identity, earlier.identity
    return (now.ranges_fingerprint, now.settings, now.layout) == (
        then.ranges_fingerprint,
        then.settings,
        then.layout,
    )


# The table of tests.


def _titles(result: Result) -> list[dict[str, Any]]:
    coverage = [column.title for column in coverage_columns(result)]
    names = ["Test", "Failing %", "Cases", *coverage, "Redundant %"]
    titles = [{"name": name, "left": False} for name in names]
    return [*titles, {"name": "Capability", "left": True}] if result.outcomes else titles


def _rows(result: Result, pages: Pages, earlier: Result | None) -> list[list[Cell]]:
    contexts = {context.name: context for context in result.contexts}
    before = {}
    if earlier is not None and _comparable(result, earlier):
        before = {context.name: context for context in earlier.contexts}
    rows = []
    for href, page in pages:
        name, columns = page.name, coverage_columns(result)
        cells = [Cell(name, href=href), _failing(page), Cell(f"{page.cases:,}", page.cases)]
        cells += [_coverage(c, contexts.get(name), before.get(name), result) for c in columns]
        cells.append(_redundant(page))
        rows.append([*cells, Cell(page.capability, left=True)] if result.outcomes else cells)
    return rows


def _coverage(
    column: Column, context: ContextResult | None, before: ContextResult | None, result: Result
) -> Cell:
    if context is None:
        return Cell("-", "")
    change, value = 0.0, column.value(context)
    if before is not None and column.key == result.main.name:
        change = 100 * (context.main.tally.share - before.main.tally.share)
    return Cell(shown(value), value, tag=f"{change:+.2f}" if abs(change) >= 0.005 else "")


def _failing(page: TestPage) -> Cell:
    if not page.judged:
        return Cell("-", "")
    rate = page.failing / page.judged
    tag, tag_class = "", ""
    worse, better = page.changed
    if worse or better:
        tag = f"{worse:,} new, {better:,} fixed"
        tag_class = "worse" if worse > better else "better" if better > worse else ""
    return Cell(
        display_percent(rate, 1), rate, bar=round(100 * rate, 1), tag=tag, tag_class=tag_class
    )


def _redundant(page: TestPage) -> Cell:
    if page.redundant is None or not page.cases:
        return Cell("-", "")
    part = page.redundant / page.cases
    return Cell(display_percent(part, 1), part)


def _capabilities(result: Result) -> list[list[str]]:
    rows = [[name, *counts(mine)] for name, mine in by_capability(result.outcomes).items()]
    return rows if len(rows) > 1 else []


def _masks(summary: MaskSummary) -> dict[str, Any]:
    about = (
        f"Of what training saw, {summary.words_kept:,} of {summary.words:,} words and "
        f"{summary.pairs_kept:,} of {summary.pairs:,} pairs of words count."
    )
    if summary.fidelity is not None:
        share = f"{100 * summary.fidelity:.2f} %"
        about += f" With them alone the model's prediction stays the same for {share} of the texts."
    lists = [
        {"name": title.capitalize(), "words": words} for title, words in important(summary) if words
    ]
    return {"about": about, "lists": lists}


# Where in the model coverage is: by layer and position, by layer and head.


@dataclass(frozen=True, slots=True)
class HiddenLayer:
    """One layer's hidden states: the covered share of all bins at each position."""

    layer: int
    share: float
    positions: list[float]


@dataclass(frozen=True, slots=True)
class Head:
    """One attention head: its covered share, and a coarse map [queries, keys] of it."""

    number: int
    share: float
    cells: list[list[float]]


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """One layer's heads."""

    layer: int
    heads: list[Head]


def heatmaps(data: CoverageData) -> tuple[list[HiddenLayer], list[AttentionLayer]]:
    """Return what all texts together cover by the main criterion, up to the longest text."""
    layout, cells = data.identity.layout, data.identity.main.cells
    length = int(data.table["length"].max()) if len(data.table) else 0
    bits, width = data.total(), maps.ints_per_neuron(cells)
    hidden: list[HiddenLayer] = []
    attention: list[AttentionLayer] = []
    for site, part in layout.spans():
        block = np.bitwise_count(bits[part.start * width : part.stop * width])
        counts = block.reshape(site.groups, site.rows, site.columns, width).sum(axis=3) / cells
        if site.kind == "hidden":
            positions = counts[0, :length].mean(axis=1)
            share = float(positions.mean()) if length else 0.0
            hidden.append(HiddenLayer(site.layer, share, positions.tolist()))
        else:
            cut = counts[:, :length, :length]
            heads = [_head(k, cut[k], layout.causal) for k in range(site.groups)]
            attention.append(AttentionLayer(site.layer, heads))
    return hidden, attention


def _head(number: int, counts: NDArray[np.float64], causal: bool) -> Head:
    """Return one head; in a causal model there are no neurons that look ahead."""
    real = np.tril(np.ones_like(counts)) if causal else np.ones_like(counts)
    share = float((counts * real).sum() / real.sum()) if real.size else 0.0
    return Head(number, share, _coarse(counts).round(3).tolist())


def _coarse(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a map of at most `CELLS` by `CELLS`: means of equal blocks."""
    n = len(counts)
    if n <= CELLS:
        return counts
    edges = np.linspace(0, n, CELLS + 1).astype(int)
    rows = np.add.reduceat(counts, edges[:-1], axis=0)
    both = np.add.reduceat(rows, edges[:-1], axis=1)
    sizes = np.diff(edges)
    means: NDArray[np.float64] = both / (sizes[:, None] * sizes[None, :])
    return means


def _thinned(shares: Sequence[float]) -> list[float]:
    step = -(-len(shares) // STRIP) if shares else 1
    return [float(np.mean(shares[i : i + step])) for i in range(0, len(shares), step)]


def _maps(hidden: Sequence[HiddenLayer], attention: Sequence[AttentionLayer]) -> dict[str, Any]:
    """Return what the page's script draws when a layer or a head is selected."""
    return {
        "hidden": [
            {"layer": h.layer, "share": h.share, "positions": [round(p, 3) for p in h.positions]}
            for h in hidden
        ],
        "attention": [
            [{"layer": a.layer, "share": head.share, "cells": head.cells} for head in a.heads]
            for a in attention
        ],
    }
