"""Sets of texts side by side: tables, and JSON. No torch here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from mncover.experiments.comparedata import Comparison, Spread
from mncover.files import replacing
from mncover.metrics import NAMES
from mncover.percent import display_percent


def _cell(spread: Spread) -> str:
    if spread.low == spread.high:
        return display_percent(spread.mean)
    ends = (display_percent(spread.low), display_percent(spread.high))
    return f"{display_percent(spread.mean)} ({' to '.join(ends)})"


def set_table(found: Comparison) -> Table:
    """Return what each set covers alone, with those before it, and alone of all."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Set", overflow="fold", min_width=12)
    name = NAMES[found.metric]
    for column in ("Texts", f"{name} %", "With those above", "Only here"):
        table.add_column(column, justify="right", no_wrap=True)
    for i, label in enumerate(found.names):
        spreads = (found.alone[i], found.union[i], found.only[i])
        table.add_row(Text(label), f"{found.sizes[i]:,}", *(_cell(spread) for spread in spreads))
    return table


def overlap_table(found: Comparison) -> Table:
    """Return how much each two sets have in common of what they cover together, in percent."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("In common, %", overflow="fold", min_width=12)
    for name in found.names:
        table.add_column(Text(name), justify="right", overflow="fold")
    for i, name in enumerate(found.names):
        cells = [_cell(found.overlap[i][j]) if j < i else "" for j in range(len(found.names))]
        table.add_row(Text(name), *cells)
    return table


def to_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return the comparisons as plain values, by metric."""
    return {found.metric: asdict(found) for found in comparisons}


def write_json(comparisons: Sequence[Comparison], path: Path) -> None:
    """Write the comparisons as JSON."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(to_json(comparisons), indent=1) + "\n", encoding="utf-8")
