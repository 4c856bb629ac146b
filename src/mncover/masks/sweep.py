"""Learn masks for several values of one setting: what does sparsity cost in fidelity?"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mncover.data.display import display_percent
from mncover.data.files import replacing
from mncover.engine.subject import Subject
from mncover.errors import SettingsError
from mncover.masks.fidelity import fidelity_on
from mncover.masks.learning import learn_masks
from mncover.masks.settings import LearningSettings, parsed_setting
from mncover.report.plots import require_plotting, trade_off
from mncover.report.progress import bar
from mncover.selection.chance import wilson
from mncover.types import Text


@dataclass(frozen=True, slots=True)
class Point:
    """One value of the setting: what is kept, and how faithfully, with its 95 % interval."""

    value: Any
    kept_words: float
    kept_pairs: float
    fidelity: float
    low: float
    high: float


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    """Return the name and the values of a text such as `sparse_pairs=0.001,0.01`."""
    name, _, values = text.partition("=")
    parts = [part for part in values.split(",") if part.strip()]
    if not parts:
        raise SettingsError(f"a sweep is NAME=V1,V2,…, got {text!r}.")
    parsed = [parsed_setting(f"{name}={part}") for part in parts]
    return parsed[0][0], [value for _, value in parsed]


def run_sweep(
    subject: Subject,
    train: Sequence[Text],
    test: Sequence[Text],
    settings: LearningSettings,
    name: str,
    values: Sequence[Any],
    output: Path,
    plot: Path | None,
    console: Console,
) -> list[Point]:
    """Learn masks for each value; write them beside `output`, with a table and a curve.

    Fidelity is measured on `test`, or, without it, on the texts held out from learning.
    """
    if plot is not None:
        require_plotting(plot)
    points = []
    for value in values:
        chosen = replace(settings, **{name: value})
        count = chosen.steps_over(len(train))
        file = output.with_name(f"{output.stem}-{name}-{value}{output.suffix}")
        partial = file.with_name(f"{file.name}.partial")
        with bar(f"{name} = {value}", count, False if console.quiet else None) as advance:
            masks = learn_masks(subject, train, chosen, advance, partial)
        masks.save(file)
        partial.unlink(missing_ok=True)
        summary = masks.summary()
        n = len(test) or int(masks.facts["held out"])
        fidelity = (
            fidelity_on(subject, masks, test, chosen.max_length)
            if test
            else summary.fidelity or 0.0
        )
        words = summary.words_kept / max(summary.words, 1)
        pairs = summary.pairs_kept / max(summary.pairs, 1)
        points.append(Point(value, words, pairs, fidelity, *wilson(round(fidelity * n), n)))
    table = output.with_suffix(".csv")
    _write_csv(points, name, table)
    console.print(_table(points, name))
    console.print(f"The table is {table}.", markup=False, soft_wrap=True)
    if plot is not None:
        trade_off(points, name, plot)
        console.print(f"The curve is {plot}.", markup=False, soft_wrap=True)
    return points


def _write_csv(points: Sequence[Point], name: str, path: Path) -> None:
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        rows = [{name if k == "value" else k: v for k, v in asdict(p).items()} for p in points]
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _table(points: Sequence[Point], name: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in (name, "words kept %", "pairs kept %", "fidelity %", "95 % interval"):
        table.add_column(column, justify="right", no_wrap=True)
    for point in points:
        shares = (point.kept_words, point.kept_pairs, point.fidelity)
        interval = f"{display_percent(point.low)} to {display_percent(point.high)}"
        table.add_row(f"{point.value}", *(display_percent(share) for share in shares), interval)
    return table
