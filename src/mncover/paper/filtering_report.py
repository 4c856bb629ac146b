"""Tables 1, 2 and 6 as text, CSV and JSON; docs/commands/reproduce.md describes every field."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.report.tables import plain_table, write_csv, write_json, write_text
from mncover.types import display_percent

if TYPE_CHECKING:
    from mncover.paper.filtering import Filtering, Judged, Row

AVERAGE = "average"
PARTS = ("reduction", "truncation", "redundancy", "cut")
# The tests of the paper's tables in its order, and those of its reductions, in percent, that need
# no model: they depend only on the number of texts used and on the first quantile.
PAPER = json.loads((resources.files("mncover.paper") / "filtering.json").read_text("utf-8"))
PAPER_REDUCTIONS: dict[str, float] = PAPER["reductions"]

Record = dict[str, Any]  # a row as plain values
Records = Sequence[Record]  # of which the last is the average
Parts = Iterator[Text | Table]


def write_tables(found: Filtering, output: Path) -> None:
    """Write the table as JSON, CSV and text to a folder."""
    plain = json.dumps(_records(found.rows))
    records = json.loads(plain, parse_constant=lambda name: None)  # NaN
    content = {**asdict(found), "rows": records[:-1], "average": records[-1]}
    del content["titles"]
    write_json(output / f"{found.table}.json", content)
    write_csv(output / f"{found.table}.csv", [dict(_flat(record)) for record in records])
    write_text(output / f"{found.table}.txt", partial(print_tables, found), width=110)


def _records(rows: Sequence[Row]) -> Records:
    records = []
    for row in rows:
        record = {name: value for name, value in asdict(row).items() if value is not None}
        for who in {"own", "other"} & set(record):
            for outcome in record[who]["paper"].values():
                outcome["delta"] = outcome["maximum"] - outcome["failure_rate"]  # the paper's
        records.append(record)
    return [*records, _average(records)]


def _average(records: Sequence[Any]) -> Any:
    """Return the average of records, number by number, leaving out NaN."""
    first = records[0]
    if isinstance(first, dict):
        return {name: _average([record[name] for record in records]) for name in first}
    return AVERAGE if isinstance(first, str) else mean(records)


def _flat(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        else:
            yield prefix + name, value


def mean(values: Sequence[float]) -> float:
    """Return the mean of the numbers that are not NaN; NaN if all are."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def beyond_chance(judged: Sequence[Judged], budget: str, score: str) -> tuple[int, int, int]:
    """Return in how many tests a score is above chance's interval, below it, and of how many.

    Tests in which no case or every case fails are not counted.
    """
    rows = [row.clean[budget][score] for row in judged if 0 < row.failing < row.judged]
    above = sum(row.failure_rate > row.high + 1e-12 for row in rows)
    below = sum(row.failure_rate < row.low - 1e-12 for row in rows)
    return above, below, len(rows)


def reached_tests(judged: Sequence[Judged], budget: str, score: str) -> tuple[int, int]:
    """Return in how many of the tests with failures a score finds one, and of how many."""
    rows = [row.clean[budget][score] for row in judged if row.failing]
    return sum(row.found > 0 for row in rows), len(rows)


def significant(judged: Sequence[Judged], criterion: str, of: str = "p_value") -> tuple[int, int]:
    """Return in how many tests a p-value of the paper's protocol is below 5 %, and of how many."""
    values = [getattr(row.paper[criterion], of) for row in judged if 0 < row.failing < row.judged]
    return sum(value < 0.05 for value in values), len(values)


def same_choices(judged: Sequence[Judged]) -> dict[str, str]:
    """Return the scores that choose as an earlier one does in every test, with the earlier one."""
    found: dict[str, str] = {}
    first: dict[str, str] = {}
    for score in judged[0].apfd:
        chosen = [(row.apfd[score], [of[score] for of in row.clean.values()]) for row in judged]
        earlier = first.setdefault(repr(chosen), score)  # as text, NaN equals NaN
        if earlier != score:
            found[score] = earlier
    return found


def print_tables(found: Filtering, console: Console) -> None:
    """Print the paper's table, where its reduction comes from, and the clean protocol."""
    for part in _parts(found, _records(found.rows)):
        console.print(part)


def _parts(found: Filtering, records: Records) -> Parts:
    title = f"{found.table}: {found.model} on {found.suite}"
    yield from _paper_parts(found, records, "own", title)
    for criterion, name in found.titles.items():
        heading = f"Where the reduction by {name} comes from, % of all cases"
        columns = ("Cases", "Visited", *PARTS, "paper")
        yield from _table(heading, columns, records, partial(_reduction_cells, criterion))
    yield from _clean_parts(found, records, "own", f"The clean protocol, {found.model}")
    if found.judge is not None:
        title = f"Chosen by {found.model}, judged by {found.judge}"
        yield from _paper_parts(found, records, "other", title)
        yield from _clean_parts(found, records, "other", title)


def _table(
    heading: str, columns: Sequence[str], records: Records, cells: Callable[[Any], list[str]]
) -> Parts:
    yield Text(f"\n{heading}", style="bold")
    table = plain_table("Test", *columns, width=14, narrow=True)
    for record in records[:-1]:
        table.add_row(Text(record["test"]), *cells(record))
    table.add_section()
    table.add_row(AVERAGE, *cells(records[-1]), style="bold")
    yield table


def _show(value: float, how: str = ".2f") -> str:
    return "-" if math.isnan(value) else format(value, how)


def _percent(share: float, digits: int = 2) -> str:
    return "-" if math.isnan(share) else display_percent(share, digits)


def _paper_parts(found: Filtering, records: Records, who: str, title: str) -> Parts:
    columns = ("D %", "max", "mean", "Δ", "null", "97.5 %", "p", "p mean")
    judged = [getattr(row, who) for row in found.rows]
    for criterion, name in found.titles.items():
        heading = f"{title}: the paper's protocol, {name}"
        yield from _table(heading, columns, records, partial(_paper_cells, criterion, who))
        yield Text(_paper_summary(judged, criterion))


def _paper_cells(criterion: str, who: str, record: Record) -> list[str]:
    o = record[who]["paper"][criterion]
    rates = [_percent(o[name]) for name in ("failure_rate", "maximum", "mean")]
    nulls = [_percent(o[name]) for name in ("null_mean", "null_high")]
    p_values = [_show(o[name], ".3f") for name in ("p_value", "mean_p_value")]
    return [*rates, _show(100 * o["delta"], "+.2f"), *nulls, *p_values]


def _paper_summary(judged: Sequence[Judged], criterion: str) -> str:
    above, n = significant(judged, criterion)
    by_mean, _ = significant(judged, criterion, "mean_p_value")
    delta = mean([row.paper[criterion].maximum - row.failure_rate for row in judged])
    null = mean([row.paper[criterion].null_mean - row.failure_rate for row in judged])
    return (
        f"The maximum is {100 * delta:+.2f} points over D on average; gains dealt at random give "
        f"{100 * null:+.2f}. Beyond chance (p < 0.05): the maximum in {above}, the mean in "
        f"{by_mean} of {n} tests; expected by chance alone: {0.05 * n:.1f}."
    )


def _reduction_cells(criterion: str, record: Record) -> list[str]:
    own, test = record["own"], record["test"]
    sizes = ["", ""] if test == AVERAGE else [f"{own['cases']:,}", f"{record['candidates']:,}"]
    shares = [f"{100 * own['paper'][criterion][part]:.2f}" for part in PARTS]
    return [*sizes, *shares, f"{PAPER_REDUCTIONS[test]:.2f}" if test in PAPER_REDUCTIONS else ""]


def _clean_parts(found: Filtering, records: Records, who: str, title: str) -> Parts:
    judged = [getattr(row, who) for row in found.rows]
    same = same_choices(judged)
    scores = [name for name in judged[0].apfd if name not in same]
    heading, columns = f"{title}: failure rate in % of the best 20 %", ("D", "chance", *scores)
    yield from _table(heading, columns, records, partial(_clean_cells, who, scores))
    yield Text(f"\n{title}: all tests", style="bold")
    numbers = ("Failing", "Lift", "Found", "Reached", "Better", "Worse", "Error", "Adj.", "APFD")
    table = plain_table("Chosen by", "Budget", *numbers, narrow=True)
    for budget in judged[0].clean:
        for score in (*scores, "random"):
            table.add_row(score, f"{budget} %", *_summary_cells(judged, budget, score))
        table.add_section()
    yield table
    yield from (Text(f"{score} chooses as {earlier} does.") for score, earlier in same.items())


def _clean_cells(who: str, scores: Sequence[str], record: Record) -> list[str]:
    outcomes = record[who]["clean"]["20"]
    chance = "-".join(_percent(outcomes["random"][end], 1) for end in ("low", "high"))
    rates = [_percent(outcomes[score]["failure_rate"], 1) for score in scores]
    base = _percent(record[who]["failure_rate"], 1)
    return [base, "" if record["test"] == AVERAGE else chance, *rates]


def _summary_cells(judged: Sequence[Judged], budget: str, score: str) -> list[str]:
    """Return what a score is worth over all tests at a budget."""
    outcomes = [row.clean[budget][score] for row in judged]
    rate, lift = mean([o.failure_rate for o in outcomes]), mean([o.lift for o in outcomes])
    share = mean([o.found for o in outcomes])
    errors = [mean([abs(getattr(o, of)) for o in outcomes]) for of in ("error", "adjusted_error")]
    counts, order = ["", "", ""], 0.5
    if score != "random":
        above, below, n = beyond_chance(judged, budget, score)
        reached, failing = reached_tests(judged, budget, score)
        counts = [f"{reached}/{failing}", f"{above}/{n}", f"{below}/{n}"]
        order = mean([row.apfd[score] for row in judged])
    shown = [_show(100 * error) for error in errors]
    return [_percent(rate), _show(lift), _percent(share), *counts, *shown, _show(order, ".3f")]
