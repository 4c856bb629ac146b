"""Tables on the screen and in files: plain Rich tables, CSV, JSON and text.

A file is replaced in one step, so a reader never meets half of one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mncover.data.harmless import in_cell
from mncover.data.writing import replacing
from mncover.report.screen import Screen


def plain_table(*columns: str, left: int = 1, width: int = 0, narrow: bool = False) -> Table:
    """Return an empty table without lines: `left` columns of names, then columns of numbers.

    On a narrow screen names are folded, but to no less than `width` or their heading; numbers
    never are. A `narrow` table has a single space between its columns.
    """
    padding = (0, 1, 0, 0) if narrow else (0, 1)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=padding)
    for name in columns[:left]:
        heading = max(len(line) for line in name.split("\n"))
        table.add_column(name, overflow="fold", min_width=max(width, heading))
    for name in columns[left:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows that all have the fields of the first."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows({name: in_cell(value) for name, value in row.items()} for row in rows)


def write_json(path: Path, content: Any, end: str = "\n") -> None:
    """Write plain values as JSON."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + end, encoding="utf-8")


def write_text(path: Path, print_to: Callable[[Console], None], width: int) -> None:
    """Write what `print_to` prints on a console of the given width."""
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        print_to(Screen(file=file, width=width))
