"""Saturation curves as CSV, as a table of reductions, and as numbers to print. No torch here."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from mncover.experiments.curvedata import Curve
from mncover.files import replacing
from mncover.metrics import METRICS, NAMES, Metric
from mncover.percent import display_percent


class Reduction(NamedTuple):
    """How many texts of a list a threshold leaves out, and what coverage is left.

    `shuffled` is the mean over shuffled orders, or None if there are none.
    """

    name: str
    metric: Metric
    threshold: float
    texts: int
    kept: int
    reduction: float
    shuffled: float | None
    cover: float
    cover_unfiltered: float


def reductions(curves: Sequence[Curve]) -> list[Reduction]:
    """Return the reductions of every list, metric and threshold, in the given order of texts."""
    found = []
    for curve in curves:
        if curve.seed is not None or curve.threshold is None:
            continue
        alike = [c for c in curves if (c.name, c.metric) == (curve.name, curve.metric)]
        others = [
            c.reduction for c in alike if c.seed is not None and c.threshold == curve.threshold
        ]
        (whole,) = (c for c in alike if c.seed is None and c.threshold is None)
        found.append(
            Reduction(
                curve.name,
                curve.metric,
                curve.threshold,
                curve.visited,
                curve.kept,
                curve.reduction,
                float(np.mean(others)) if others else None,
                curve.share,
                whole.share,
            )
        )
    return found


def averages(rows: Sequence[Reduction], metric: Metric) -> dict[float, tuple[float, float | None]]:
    """Return the mean reduction over the lists by threshold, in order and shuffled."""
    found: dict[float, tuple[float, float | None]] = {}
    for threshold in dict.fromkeys(row.threshold for row in rows):
        mine = [row for row in rows if (row.threshold, row.metric) == (threshold, metric)]
        shuffled = [row.shuffled for row in mine if row.shuffled is not None]
        found[threshold] = (
            float(np.mean([row.reduction for row in mine])),
            float(np.mean(shuffled)) if shuffled else None,
        )
    return found


def write_curves(curves: Sequence[Curve], folder: Path) -> None:
    """Write curves.csv, a row for each point, and reductions.csv."""
    points = (
        {
            "name": curve.name,
            "metric": curve.metric,
            "order": "given" if curve.seed is None else f"shuffled {curve.seed}",
            "threshold": "" if curve.threshold is None else curve.threshold,
            "texts": n,
            "coverage": share,
        }
        for curve in curves
        for n, share in zip(curve.texts, curve.shares, strict=True)
    )
    _write_csv(
        ("name", "metric", "order", "threshold", "texts", "coverage"), points, folder / "curves.csv"
    )
    rows = (row._asdict() for row in reductions(curves))
    _write_csv(Reduction._fields, rows, folder / "reductions.csv")


def _write_csv(names: Sequence[str], rows: Iterable[dict[str, Any]], path: Path) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def reduction_table(curves: Sequence[Curve], paper: dict[float, float] | None = None) -> Table:
    """Return what each threshold leaves out, in percent of the texts, and the average.

    `paper` has the paper's averages by threshold, in percent.
    """
    rows = reductions(curves)
    thresholds = list(dict.fromkeys(row.threshold for row in rows))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("Left out, %", overflow="fold", min_width=20)
    for name in ("Metric", "Texts", "Cover %"):
        table.add_column(name, justify="right", no_wrap=True)
    for threshold in thresholds:
        table.add_column(f"> {threshold:g}", justify="right", no_wrap=True)
    metrics = [m for m in METRICS if any(row.metric == m for row in rows)]
    for name in dict.fromkeys(row.name for row in rows):
        for metric in metrics:
            mine = [row for row in rows if (row.name, row.metric) == (name, metric)]
            cells = [display_percent(row.reduction) for row in mine]
            about = (NAMES[metric], f"{mine[0].texts:,}", display_percent(mine[0].cover_unfiltered))
            table.add_row(Text(name), *about, *cells)
    table.add_section()
    for metric in metrics:
        means = averages(rows, metric)
        table.add_row(
            "average",
            NAMES[metric],
            "",
            "",
            *(display_percent(m) for m, _ in means.values()),
            style="bold",
        )
        if all(shuffled is not None for _, shuffled in means.values()):
            cells = [display_percent(shuffled or 0.0) for _, shuffled in means.values()]
            table.add_row("average, shuffled", NAMES[metric], "", "", *cells)
    if paper:
        known = [f"{paper[t]:.2f}" if t in paper else "" for t in thresholds]
        table.add_row("the paper's average", "mnCover", "", "", *known, style="italic")
    return table
