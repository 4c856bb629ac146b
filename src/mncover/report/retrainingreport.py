"""The table of retraining: what each augmented set brought. No torch here."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.experiments.retraining import (
    FIELDS,
    PAPER,
    PAPER_TEXTS,
    Arm,
    Difference,
    Estimate,
    Row,
    record,
    rows_of,
)
from mncover.files import replacing
from mncover.percent import display_percent

WIDTH = 110


def write_retraining(
    task: str, arms: Sequence[Arm], settings: Mapping[str, Any], folder: Path, quiet: bool = False
) -> list[Row]:
    """Write the table as text, CSV and JSON to a folder, print it, and return its lines.

    `settings` are those of the training, as plain values.
    """
    rows = rows_of(task, arms)
    write_json(rows, settings, folder / "retraining.json")
    write_csv(rows, folder / "retraining.csv")
    with (
        replacing(folder / "retraining.txt") as path,
        path.open("w", encoding="utf-8") as file,
    ):
        print_retraining(rows, settings, Console(file=file, width=WIDTH))
    console = Console(quiet=quiet)
    console.width = max(console.width, WIDTH)  # a narrow terminal had better wrap than crop
    print_retraining(rows, settings, console)
    return rows


def print_retraining(rows: Sequence[Row], settings: Mapping[str, Any], console: Console) -> None:
    """Print the table, and below it how to read it."""
    console.print(retraining_table(rows))
    console.print()
    for line in notes(rows, settings):
        console.print(line, markup=False, highlight=False)


def retraining_table(rows: Sequence[Row]) -> Table:
    """Return the arms side by side, all in percent; intervals stand below their differences."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("trained\nwith", overflow="fold", min_width=7)
    for name in (
        "texts\nadded",
        "test\naccuracy",
        "difference\nto none",
        "difference\nto random",
        "perturbed\naccuracy",
        "difference\nto none",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            Text(row.arm.name),
            f"{row.arm.texts:,}",
            _mean(row.accuracy),
            _difference(row.to_none),
            _difference(row.to_random),
            _mean(row.perturbed),
            _difference(row.perturbed_to_none),
        )
    return table


def _mean(found: Estimate | None) -> Text:
    if found is None:
        return Text("-")
    half = "" if found.half is None else f" ± {100 * found.half:.2f}"
    return Text(display_percent(found.mean) + half)


def _difference(found: Difference | None) -> Text:
    if found is None:
        return Text("-")
    return Text(f"{_points(found.mean)}\n[{_points(found.low)}, {_points(found.high)}]")


def _points(value: float) -> str:
    """Return a difference in percentage points with its sign, which 0 has not."""
    shown = f"{100 * value:+.2f}"
    return "0.00" if shown in ("+0.00", "-0.00") else shown


def notes(rows: Sequence[Row], settings: Mapping[str, Any]) -> list[str]:
    """Return what a reader of the table must know."""
    arm, task = rows[0].arm, rows[0].task
    seeds, texts = arm.correct.shape
    lines = [
        f"{task}: {seeds} seeds, {texts:,} test texts, {arm.perturbed.shape[1]:,} perturbed texts. "
        "± is the 95 % interval over seeds; in brackets are 95 % intervals of the paired "
        "difference, by bootstrap over seeds and texts.",
        _length(settings),
    ]
    if task in PAPER_TEXTS:
        without, *with_them = PAPER[task]
        lines.append(
            f"The paper, with another model: {without:.2f} % without and "
            f"{' and '.join(f'{value:.2f} %' for value in with_them)} with "
            f"{PAPER_TEXTS[task]:,} texts more."
        )
    return lines


def _length(settings: Mapping[str, Any]) -> str:
    """Say whether arms with more texts were also trained longer."""
    if settings.get("steps") is not None or settings.get("equal_steps"):
        return "All were trained for equally many steps."
    return "All were trained for equally many epochs, so those with more texts for more steps."


def to_json(rows: Sequence[Row], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table as plain values, what its fields mean, and the accuracies seed by seed."""
    return {
        "settings": dict(settings),
        "fields": {name: meaning for name, meaning in FIELDS.items() if meaning},
        "rows": [record(row) for row in rows],
        "by_seed": {
            row.arm.name: {
                "accuracy": row.arm.correct.mean(axis=1).tolist(),
                "perturbed_accuracy": row.arm.perturbed.mean(axis=1).tolist()
                if row.arm.perturbed.size
                else None,
            }
            for row in rows
        },
    }


def write_json(rows: Sequence[Row], settings: Mapping[str, Any], path: Path) -> None:
    """Write the table as JSON."""
    with replacing(path) as temporary:
        content = json.dumps(to_json(rows, settings), indent=1)
        temporary.write_text(content + "\n", encoding="utf-8")


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write the table as CSV, with the fields of `FIELDS`."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(FIELDS))
        writer.writeheader()
        writer.writerows(record(row) for row in rows)
