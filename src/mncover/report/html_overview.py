"""What the first page shows. No torch here.

Where in the model coverage lies: by layer and position, by layer and head. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.display import display_percent
from mncover.data.identity import MaskSummary
from mncover.data.results import ContextResult, Result
from mncover.data.store import CoverageData
from mncover.report.describe import by_capability
from mncover.report.html_tests import TestPage
from mncover.types import __version__

STRIP = 128  # positions shown of a layer at most


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of tests."""

    name: str
    left: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: what is shown, what it is sorted by, and decoration."""

    text: str
    value: float | str | None = None
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


@dataclass(frozen=True)
class Overview:
    """The first page, ready to be put into its template."""

    model: str
    about: str
    file: str
    redundant_at: str
    cards: list[Card]
    notes: list[str]
    columns: list[Column]
    rows: list[list[Cell]]
    capabilities: list[list[str]]
    hidden: list[dict[str, Any]]
    attention: list[AttentionLayer]
    maps: dict[str, Any]
    masks: dict[str, Any] | None
    version: str = field(default=__version__)


def make_overview(
    result: Result,
    file: Path,
    pages: Sequence[tuple[str, TestPage]],
    maps: tuple[list[HiddenLayer], list[AttentionLayer]],
    earlier: Result | None,
    since: str,
) -> Overview:
    """Put the first page together; `pages` are the tests with the addresses of their pages."""
    hidden, attention = maps
    settings, identity = result.identity.settings, result.identity
    about = (
        f"{result.texts:,} texts, {settings.bins} bins, up to {settings.max_length} tokens, "
        f"calibrated on {identity.calibration_texts:,} texts"
    )
    contexts = {context.name: context for context in result.contexts}
    before = {context.name: context for context in earlier.contexts} if earlier else {}
    comparable = earlier is not None and _comparable(result, earlier)
    rows = [
        _row(result, href, page, contexts.get(page.name), before.get(page.name), comparable)
        for href, page in pages
    ]
    return Overview(
        model=Path(identity.model).name or identity.model,
        about=about,
        file=str(file),
        redundant_at=f"{100 * result.redundant_at:g}",
        cards=_cards(result, pages),
        notes=_notes(result, earlier, comparable, since),
        columns=_columns(result),
        rows=rows,
        capabilities=_capabilities(result),
        hidden=[{**asdict(layer), "shown": _thinned(layer.positions)} for layer in hidden],
        attention=attention,
        maps=_maps(hidden, attention),
        masks=None if identity.masks is None else _masks(identity.masks),
    )


def _comparable(result: Result, earlier: Result) -> bool:
    """Return whether coverage of both runs is of the same bins."""
    now, then = result.identity, earlier.identity
    return (now.ranges_fingerprint, now.settings, now.layout) == (
        then.ranges_fingerprint,
        then.settings,
        then.layout,
    )


def _cards(result: Result, pages: Sequence[tuple[str, TestPage]]) -> list[Card]:
    cards = [Card("Cover, % of all bins", display_percent(result.cover))]
    if result.mncover is not None:
        cards.append(Card("mnCover, %", display_percent(result.mncover)))
    cards.append(Card("of what is reachable, %", display_percent(result.tally.cover_of_reachable)))
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


def _notes(result: Result, earlier: Result | None, comparable: bool, since: str) -> list[str]:
    notes = [f"interrupted: {name}" for name in result.interrupted]
    if earlier is not None:
        notes.append(f"compared with {since}")
        if comparable:
            change = 100 * (result.cover - earlier.cover)
            notes.append(f"Cover {change:+.2f} points")
        else:
            notes.append("coverage not compared: another model, calibration or setting")
    return notes


def _columns(result: Result) -> list[Column]:
    names = [Column("Test"), Column("Failing %"), Column("Cases"), Column("Cover %")]
    if result.masked is not None:
        names.append(Column("mnCover %"))
    names += [Column("Adds %"), Column("Only here %"), Column("Redundant %")]
    return [*names, Column("Capability", left=True)] if result.outcomes else names


def _row(
    result: Result,
    href: str,
    page: TestPage,
    context: ContextResult | None,
    before: ContextResult | None,
    comparable: bool,
) -> list[Cell]:
    cells = [Cell(page.name, href=href), _failing(page), Cell(f"{page.cases:,}", page.cases)]
    shares = [] if context is None else [context.cover]
    if result.masked is not None and context is not None:
        shares.append(context.mncover or 0.0)
    if context is not None:
        shares += [context.adds, context.only_here]
    cells += [Cell(display_percent(share), share) for share in shares]
    if comparable and context is not None and before is not None:
        change = 100 * (context.cover - before.cover)
        if abs(change) >= 0.005:
            cells[3] = Cell(cells[3].text, cells[3].value, tag=f"{change:+.2f}")
    part = None if page.redundant is None or not page.cases else page.redundant / page.cases
    cells.append(Cell("-", "") if part is None else Cell(display_percent(part, 1), part))
    return [*cells, Cell(page.capability, left=True)] if result.outcomes else cells


def _failing(page: TestPage) -> Cell:
    if not page.judged:
        return Cell("-", "")
    rate = page.failing / page.judged
    tag, tag_class = "", ""
    worse, better = page.changed
    if worse or better:
        tag = f"{worse:,} anew, {better:,} gone"
        tag_class = "worse" if worse > better else "better" if better > worse else ""
    return Cell(
        display_percent(rate, 1), rate, bar=round(100 * rate, 1), tag=tag, tag_class=tag_class
    )


def _capabilities(result: Result) -> list[list[str]]:
    rows = []
    for capability, mine in by_capability(result.outcomes).items():
        judged, failing = sum(o.judged for o in mine), sum(o.failing for o in mine)
        cases = sum(len(o.test.cases) for o in mine)
        rate = display_percent(failing / judged) if judged else "-"
        rows.append([capability, f"{cases:,}", f"{judged:,}", f"{failing:,}", rate])
    return rows if len(rows) > 1 else []


def _thinned(shares: Sequence[float]) -> list[float]:
    step = -(-len(shares) // STRIP) if shares else 1
    return [
        sum(shares[i : i + step]) / len(shares[i : i + step]) for i in range(0, len(shares), step)
    ]


def _maps(hidden: Sequence[HiddenLayer], attention: Sequence[AttentionLayer]) -> dict[str, Any]:
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


def _masks(summary: MaskSummary) -> dict[str, Any]:
    about = f"{summary.words_kept:,} of {summary.words:,} words and {summary.pairs_kept:,} of "
    about += f"{summary.pairs:,} pairs of words that training saw count."
    if summary.fidelity is not None:
        about += f" With them alone the model predicts the same for {100 * summary.fidelity:.2f} %."
    lists = [
        {"name": name, "words": words}
        for name, words in (
            ("Most important words", summary.top_words),
            ("Least important words", summary.low_words),
            ("Most important pairs", summary.top_pairs),
            ("Least important pairs", summary.low_pairs),
        )
        if words
    ]
    return {"about": about, "lists": lists}


CELLS = 32  # of a head's map at most, in each direction


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
    """Return the shares of bins that all texts together covered, up to the longest text."""
    layout, bins = data.identity.layout, data.identity.settings.bins
    length = int(data.table["length"].max()) if len(data.table) else 0
    words, width = data.total(), maps.words_per_neuron(bins)
    hidden: list[HiddenLayer] = []
    attention: list[AttentionLayer] = []
    for site, part in layout.spans():
        block = np.bitwise_count(words[part.start * width : part.stop * width])
        counts = block.reshape(site.groups, site.rows, site.columns, width).sum(axis=3) / bins
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
    """Return one head; in a causal model the neurons that look ahead do not exist."""
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
