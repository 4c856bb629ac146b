"""Curves, sets side by side, and choices of cases: tables, files, words. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from mncover.report.columns import criterion_title
from mncover.report.tables import plain_table, write_csv
from mncover.selection.cases import Cases
from mncover.selection.chance import Found
from mncover.selection.sets import Comparison, Curve, Spread
from mncover.suites.judging import FAILS
from mncover.types import display_percent, percent

# Saturation curves.


class Reduction(NamedTuple):
    """How many texts of a list a threshold leaves out, and what coverage is left.

    `shuffled` is the mean over shuffled orders, or None if there are none.
    """

    name: str
    criterion: str
    threshold: float
    texts: int
    kept: int
    reduction: float
    shuffled: float | None
    cover: float
    cover_unfiltered: float


def reductions(curves: Sequence[Curve]) -> list[Reduction]:
    """Return the reduction of every list, criterion and threshold, in the given order of texts."""
    found = []
    for curve in curves:
        if curve.seed is not None or curve.threshold is None:
            continue
        alike = [c for c in curves if (c.name, c.criterion) == (curve.name, curve.criterion)]
        others = [c for c in alike if c.seed is not None and c.threshold == curve.threshold]
        (whole,) = (c for c in alike if c.seed is None and c.threshold is None)
        about = (curve.name, curve.criterion, curve.threshold, curve.visited)
        shuffled = _mean([c.reduction for c in others])
        shares = (curve.reduction, shuffled, curve.share, whole.share)
        found.append(Reduction(*about, curve.kept, *shares))
    return found


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def averages(rows: Sequence[Reduction], criterion: str) -> dict[float, tuple[float, float | None]]:
    """Return the mean reduction over the lists by threshold, in order and shuffled."""
    found: dict[float, tuple[float, float | None]] = {}
    for threshold in dict.fromkeys(row.threshold for row in rows):
        mine = [row for row in rows if (row.threshold, row.criterion) == (threshold, criterion)]
        shuffled = _mean([row.shuffled for row in mine if row.shuffled is not None])
        found[threshold] = (float(np.mean([row.reduction for row in mine])), shuffled)
    return found


def write_curves(curves: Sequence[Curve], folder: Path) -> None:
    """Write curves.csv, a row for each point, and reductions.csv."""
    points = [
        {
            "name": curve.name,
            "criterion": curve.criterion,
            "order": "given" if curve.seed is None else f"shuffled {curve.seed}",
            "threshold": "" if curve.threshold is None else curve.threshold,
            "texts": n,
            "coverage": share,
        }
        for curve in curves
        for n, share in zip(curve.texts, curve.shares, strict=True)
    ]
    write_csv(folder / "curves.csv", points)
    write_csv(folder / "reductions.csv", [row._asdict() for row in reductions(curves)])


def reduction_table(curves: Sequence[Curve], paper: dict[float, float] | None = None) -> Table:
    """Return what each threshold leaves out, in percent of the texts, and the average.

    `paper` has the paper's averages by threshold, in percent.
    """
    rows = reductions(curves)
    thresholds = list(dict.fromkeys(row.threshold for row in rows))
    titles = ("Left out, %", "Criterion", "Texts", "Cover %", *(f"> {t:g}" for t in thresholds))
    table = plain_table(*titles, width=20, narrow=True)
    criteria = list(dict.fromkeys(row.criterion for row in rows))
    for name in dict.fromkeys(row.name for row in rows):
        for criterion in criteria:
            mine = [row for row in rows if (row.name, row.criterion) == (name, criterion)]
            about = (f"{mine[0].texts:,}", display_percent(mine[0].cover_unfiltered))
            cells = [display_percent(row.reduction) for row in mine]
            table.add_row(Text(name), criterion_title(criterion), *about, *cells)
    table.add_section()
    for criterion in criteria:
        given, shuffled = zip(*averages(rows, criterion).values(), strict=True)
        title = criterion_title(criterion)
        table.add_row("average", title, "", "", *map(percent, given), style="bold")
        if None not in shuffled:
            table.add_row("average, shuffled", title, "", "", *map(percent, shuffled))
    if paper:
        known = [f"{paper[t]:.2f}" if t in paper else "" for t in thresholds]
        table.add_row("the paper's average", "mnCover", "", "", *known, style="italic")
    return table


# Sets of texts side by side.


def set_table(found: Comparison) -> Table:
    """Return what each set covers alone, with those before it, and what only it covers."""
    titles = ("Set", "Texts", f"{found.title} %", "With those above", "Only here")
    table = plain_table(*titles, width=12)
    for i, label in enumerate(found.names):
        spreads = (found.alone[i], found.union[i], found.only[i])
        cells = [_spread(spread, "\n") for spread in spreads]  # two lines: 80 columns are enough
        table.add_row(Text(label), f"{found.sizes[i]:,}", *cells)
    return table


def overlap_table(found: Comparison) -> Table:
    """Return how much each two sets have in common of what they cover together, in percent."""
    table = plain_table("Sets", "In common, %", width=12)
    for i, name in enumerate(found.names):
        for j, other in enumerate(found.names[:i]):
            table.add_row(Text(f"{other}, {name}"), _spread(found.overlap[i][j], " "))
    return table


def _spread(spread: Spread, between: str) -> str:
    mean = display_percent(spread.mean)
    if spread.low == spread.high:
        return mean
    return f"{mean}{between}({display_percent(spread.low)} to {display_percent(spread.high)})"


def to_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return the comparisons as plain values, by criterion."""
    return {found.criterion: asdict(found) for found in comparisons}


# A choice of cases compared with other ways to choose.


def comparison_table(cases: Cases, mine: Found, others: Sequence[Found]) -> Table:
    """Return how many failing cases each way of choosing the same number of cases finds."""
    failing, judged = _failing(cases), cases.judged
    table = plain_table("Chosen by", "Cases", "Failing", "95 % of draws", "Of all failing %")
    for row in [mine, *(other for other in others if other.method != mine.method)]:
        chance = row.method == "random" and row is not mine
        table.add_row(
            row.method,
            f"{row.cases:,}",
            f"{row.failing:,.1f}" if chance else f"{row.failing:,.0f}",
            f"{row.low:,.0f} to {row.high:,.0f}" if chance else "",
            display_percent(row.failing / failing) if failing else "-",
            style="bold" if row is mine else None,
        )
    table.add_section()
    table.add_row("all cases", f"{len(cases):,}", f"{failing:,}", "", "", style="italic")
    if judged < len(cases):
        table.add_row("judged cases", f"{judged:,}", "", "", "", style="italic")
    return table


def conclusions(cases: Cases, mine: Found, others: Sequence[Found]) -> list[str]:
    """Say what the numbers mean, even if they do not favour the choice."""
    failing = _failing(cases)
    if not cases.judged:
        return [
            f"'{mine.method}' takes {mine.cases:,} of {len(cases):,} cases. None is judged, so "
            "nothing can be said about failures; `mncover next` helps to find them."
        ]
    if not failing:
        return ["No case fails, so nothing can be said about finding failures."]
    left = failing - round(mine.failing)
    dropped = f"Left out: {len(cases) - mine.cases:,} cases, {left:,} of which fail."
    chance = others[-1]
    between = f"{chance.low:,.0f} to {chance.high:,.0f}"
    finds = "no more and no fewer"
    if not chance.low <= mine.failing <= chance.high:
        finds = f"{'more' if mine.failing > chance.high else 'fewer'} failing cases"
    lines = [dropped, f"'{mine.method}' finds {finds} than chance would ({between})."]
    if mine.method == "failing":
        lines[1] = "'failing' takes known failures first, then the most uncertain cases."
    rivals = [row for row in others[:-1] if row.method != mine.method]  # as in the table
    better = max(rivals, key=lambda row: row.failing, default=mine)
    if better.failing > mine.failing or mine.method == "failing":
        known = " without knowing them" if mine.method == "failing" else ""
        lines.append(f"'{better.method}' finds the most{known}: {better.failing:,.0f}.")
    lines.append(
        "These are failures of the model that was run. What a choice is worth shows on the next "
        "model: run the reduced suite there."
    )
    return lines


def comparison_to_json(cases: Cases, mine: Found, others: Sequence[Found]) -> dict[str, Any]:
    """Return the comparison as plain values; failures are not known where nothing is judged."""
    counts = {"cases": len(cases), "judged": cases.judged, "failing": _failing(cases)}
    chosen: dict[str, Any] = asdict(mine)
    if not cases.judged:
        chosen |= dict.fromkeys(("failing", "low", "high", "tests"))
    left = {"cases": len(cases) - mine.cases, "failing": None}
    if cases.judged:
        left["failing"] = _failing(cases) - round(mine.failing)
    rivals = [asdict(other) for other in others]
    return {**counts, "chosen": chosen, "left_out": left, "others": rivals}


def _failing(cases: Cases) -> int:
    return int((cases.verdicts == FAILS).sum())
