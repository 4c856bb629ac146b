"""Tables 1, 2 and 6 as text, CSV and JSON; docs/commands/reproduce.md names every field."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.experiments.filtering import (
    PAPER_REDUCTIONS,
    Judged,
    Row,
    beyond_chance,
    mean,
    reached_tests,
    significant,
)
from mncover.files import replacing
from mncover.metrics import METRICS, NAMES, Metric
from mncover.percent import display_percent

WIDTH = 140


@dataclass(frozen=True, slots=True)
class About:
    """What the tables are of."""

    table: str
    model: str
    judge: str | None
    suite: str
    first_texts: int
    classes: int
    missing: Sequence[str]


def write_tables(rows: Sequence[Row], about: About, output: Path) -> None:
    """Write NAME.json, NAME.csv and NAME.txt to a folder."""
    records = [_record(row) for row in rows]
    content = {**asdict(about), "rows": records, "average": _average(records)}
    with replacing(output / f"{about.table}.json") as path:
        path.write_text(json.dumps(_without_nan(content), indent=1) + "\n", encoding="utf-8")
    flat = [dict(_flattened(record)) for record in (*records, content["average"])]
    with (
        replacing(output / f"{about.table}.csv") as path,
        path.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)
    with (
        replacing(output / f"{about.table}.txt") as path,
        path.open("w", encoding="utf-8") as file,
    ):
        print_tables(rows, about, Console(file=file, width=WIDTH))


def _record(row: Row) -> dict[str, Any]:
    record = asdict(row)
    for name in ("own", "other"):
        if record[name] is None:
            del record[name]
            continue
        for outcome in record[name]["paper"].values():  # the paper's delta, in points
            outcome["delta"] = outcome["maximum"] - outcome["failure_rate"]
    return record


def _average(records: Sequence[Any]) -> Any:
    """Return records averaged number by number, without those that are not known."""
    first = records[0]
    if isinstance(first, dict):
        return {name: _average([record[name] for record in records]) for name in first}
    return "average" if isinstance(first, str) else mean(records)


def _flattened(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flattened(value, f"{prefix}{name}_")
        else:
            unknown = isinstance(value, float) and math.isnan(value)
            yield prefix + name, "" if unknown else value


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def print_tables(rows: Sequence[Row], about: About, console: Console) -> None:
    """Print the paper's table, where its reduction comes from, and the clean protocol."""
    own = [row.own for row in rows]
    metrics = [metric for metric in METRICS if metric in own[0].paper]
    _heading(console, f"{about.table}: {about.model} on {about.suite}, the paper's protocol")
    console.print(_paper_table(rows, own, metrics))
    _say(console, _paper_reading(own, metrics))
    _heading(console, "Where the reduction comes from, % of all cases of a test")
    console.print(_reduction_table(rows, metrics))
    _heading(console, f"The clean protocol: failure rate in % at a budget, {about.model}")
    console.print(_clean_table(rows, own))
    _heading(console, "Over all tests")
    console.print(_summary_table(own))
    if about.judge is not None:
        theirs = [row.other for row in rows if row.other is not None]
        _heading(console, f"Chosen by {about.model}, judged by {about.judge}: the paper's protocol")
        console.print(_paper_table(rows, theirs, metrics))
        _say(console, _paper_reading(theirs, metrics))
        _heading(console, f"Chosen by {about.model}, judged by {about.judge}: failure rate in %")
        console.print(_clean_table(rows, theirs))
        _heading(console, f"Over all tests, judged by {about.judge}")
        console.print(_summary_table(theirs))


def _heading(console: Console, text: str) -> None:
    console.print(Text(f"\n{text}", style="bold"))


def _say(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False)


def _new_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(columns[0], overflow="fold", min_width=20)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else display_percent(share)


def _points(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:+.2f}"


Cells = Callable[[Judged], list[tuple[float, Callable[[float], str]]]]


def _add_rows(table: Table, rows: Sequence[Row], judged: Sequence[Judged], cells: Cells) -> None:
    """Add a row for each test and one of their averages."""
    found = [cells(row) for row in judged]
    for row, values in zip(rows, found, strict=True):
        shown = [show(value) for value, show in values]
        table.add_row(Text(row.test), str(row.own.cases), *shown)
    table.add_section()
    averages = [
        show(mean([values[i][0] for values in found])) for i, (_, show) in enumerate(found[0])
    ]
    table.add_row("average", "", *averages, style="bold")


def _paper_table(rows: Sequence[Row], judged: Sequence[Judged], metrics: Sequence[Metric]) -> Table:
    columns = ["max", "mean", "Δ", "null", "97.5 %", "p"]
    names = [f"{NAMES[m]} {columns[0]}" for m in METRICS if m in metrics]  # one block a metric
    header = [x for name in names for x in (name, *columns[1:])]
    table = _new_table("Test", "Cases", "D %", *header)

    def cells(row: Judged) -> list[tuple[float, Callable[[float], str]]]:
        found: list[tuple[float, Callable[[float], str]]] = [(row.failure_rate, _percent)]
        for metric in metrics:
            o = row.paper[metric]
            found += [(o.maximum, _percent), (o.mean, _percent)]
            found += [(o.maximum - o.failure_rate, _points)]
            found += [(o.null_mean, _percent), (o.null_high, _percent)]
            found += [(o.p_value, lambda p: "-" if math.isnan(p) else f"{p:.3f}")]
        return found

    _add_rows(table, rows, judged, cells)
    return table


def _paper_reading(judged: Sequence[Judged], metrics: Sequence[Metric]) -> list[str]:
    lines = []
    for metric in metrics:
        above, n = significant(judged, metric)
        delta = mean([row.paper[metric].maximum - row.failure_rate for row in judged])
        null = mean([row.paper[metric].null_mean - row.failure_rate for row in judged])
        lines.append(
            f"{NAMES[metric]}: the maximum is {100 * delta:+.2f} points over D on average; gains "
            f"dealt at random give {100 * null:+.2f}. Beyond chance (p < 0.05) in {above} of {n} "
            f"tests; chance alone is expected in {0.05 * n:.1f}."
        )
    return lines


def _reduction_table(rows: Sequence[Row], metrics: Sequence[Metric]) -> Table:
    parts = ("reduction", "truncation", "redundancy", "cut")
    header = [
        f"{NAMES[m]} {part}" if part == "reduction" else part
        for m in METRICS
        if m in metrics
        for part in parts
    ]
    table = _new_table("Test", "Cases", "Visited", *header, "Paper")
    for row in rows:
        values = [getattr(row.own.paper[m], part) for m in metrics for part in parts]
        paper = PAPER_REDUCTIONS.get(row.test)
        table.add_row(
            Text(row.test),
            str(row.own.cases),
            str(row.candidates),
            *(f"{100 * value:.2f}" for value in values),
            "" if paper is None else f"{paper:.2f}",
        )
    table.add_section()
    averages = [
        f"{100 * mean([getattr(row.own.paper[m], part) for row in rows]):.2f}"
        for m in metrics
        for part in parts
    ]
    table.add_row("average", "", "", *averages, "", style="bold")
    return table


def _clean_table(rows: Sequence[Row], judged: Sequence[Judged]) -> Table:
    methods = [name for name in judged[0].clean["20"] if name != "random"]
    table = _new_table("Test", "Cases", "D %", "at 20 %: chance", *methods)
    interval = {
        id(row): f"{_percent(row.clean['20']['random'].low)} to "
        f"{_percent(row.clean['20']['random'].high)}"
        for row in judged
    }

    def cells(row: Judged) -> list[tuple[float, Callable[[float], str]]]:
        found: list[tuple[float, Callable[[float], str]]] = [(row.failure_rate, _percent)]
        shown = interval[id(row)]
        found.append((row.failure_rate, lambda _: shown))
        found += [(row.clean["20"][m].failure_rate, _percent) for m in methods]
        return found

    _add_rows(table, rows, judged, cells)
    return table


def _summary_table(judged: Sequence[Judged]) -> Table:
    """Return what each method is worth over all tests, at each budget."""
    table = _new_table(
        "Chosen by",
        "Budget %",
        "Failing %",
        "Lift",
        "Found %",
        "Tests reached",
        "Better",
        "Worse",
        "Of",
        "Error",
        "Adjusted",
        "APFD",
    )
    for budget in judged[0].clean:
        for method in judged[0].clean[budget]:
            table.add_row(method, budget, *_summary_cells(judged, budget, method))
        table.add_section()
    return table


def _summary_cells(judged: Sequence[Judged], budget: str, method: str) -> list[str]:
    outcomes = [row.clean[budget][method] for row in judged]
    above, below, n = beyond_chance(judged, budget, method)
    reached, failing = reached_tests(judged, budget, method)
    chance = method == "random"
    lift = mean([o.lift for o in outcomes])
    order = 0.5 if chance else mean([row.apfd[method] for row in judged])
    return [
        _percent(mean([o.failure_rate for o in outcomes])),
        "-" if math.isnan(lift) else f"{lift:.2f}",
        _percent(mean([o.found for o in outcomes])),
        "" if chance else f"{reached} of {failing}",
        "" if chance else str(above),
        "" if chance else str(below),
        "" if chance else str(n),
        _unsigned(mean([abs(o.error) for o in outcomes])),
        _unsigned(mean([abs(o.adjusted_error) for o in outcomes])),
        "-" if math.isnan(order) else f"{order:.3f}",
    ]


def _unsigned(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.2f}"
