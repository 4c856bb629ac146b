"""Run Experiment 1: measure each test, judge it, write the table.

Every test has a data file of its own in the output folder; what is there already, from the same
model, ranges and cases, is not measured again.

Tables 1, 2 and 6 as text, CSV and JSON; docs/commands/reproduce.md names every field.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.criteria import METRICS, NAMES, Metric
from mncover.data import datafile
from mncover.data.display import display_percent
from mncover.data.files import replacing
from mncover.data.store import CoverageData
from mncover.engine.engine import Engine
from mncover.engine.loading import load_subject
from mncover.engine.measure import class_probabilities
from mncover.engine.running import Job, run_suite
from mncover.engine.subject import Subject
from mncover.errors import DataFileError, MismatchError, ModelError, SettingsError
from mncover.masks.masks import Masks
from mncover.paper.filtering import (
    PAPER_REDUCTIONS,
    TABLES,
    Judged,
    Row,
    alike,
    beyond_chance,
    mean,
    reached_tests,
    significant,
    table_row,
)
from mncover.paper.protocols import Verdicts
from mncover.report.progress import bar
from mncover.selection.cases import cases_of
from mncover.suites.formats import load_suite, read_texts
from mncover.suites.judging import in_suite_classes, judge_suite
from mncover.suites.model import How, Suite
from mncover.suites.rows import Rows
from mncover.types import Settings
from mncover.types import Text as GivenText

DATA_FOLDER = "data"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to make: which table, of which model, suite and training texts."""

    table: str
    model: str
    suite: Path
    train: Path
    output: Path
    masks: Path | None = None
    judge: str | None = None
    texts: int | None = None  # how many texts of each test the paper's protocol looks at
    classes: How = "auto"
    max_length: int = 128
    batch_size: int = 32
    device: str | None = None
    quiet: bool = False


def run_filtering(asked: Asked) -> list[Row]:
    """Make one of Tables 1, 2 and 6; write it as text, CSV and JSON to a folder."""
    say = partial(Console(stderr=True, quiet=asked.quiet).print, markup=False, soft_wrap=True)
    suite, missing = _tests(load_suite(asked.suite), asked.table)
    for name in missing:
        say(f"{asked.suite}: no test {name!r}, so it is left out.")
    data, labels = _measure(asked, suite, say)
    judge, others = _judge(asked, suite)
    texts = asked.texts or TABLES[asked.table][1]
    rows = [
        table_row(test.name, cases_of(mine), texts, None if others is None else others[test.name])
        for test, mine in zip(suite.tests, data, strict=True)
    ]
    about = About(
        asked.table,
        Path(asked.model).name,
        judge,
        asked.suite.name,
        texts,
        labels,
        missing,
    )
    write_tables(rows, about, asked.output)
    print_tables(rows, about, Console(quiet=asked.quiet))
    Console(quiet=asked.quiet).print(
        f"Text, CSV and JSON are in {asked.output}.", markup=False, soft_wrap=True
    )
    return rows


def _tests(suite: Suite, table: str) -> tuple[Suite, list[str]]:
    """Return the table's tests in its order, and the names of those that the suite lacks."""
    wanted = TABLES[table][0]
    have = {test.name: test for test in suite.tests}
    found = tuple(have[name] for name in wanted if name in have)
    if not found:
        raise SettingsError(f"the suite has none of the tests of {table}.")
    return replace(suite, tests=found), [name for name in wanted if name not in have]


def _measure(asked: Asked, suite: Suite, say: Say) -> tuple[list[CoverageData], int]:
    """Measure each test from nothing, in its order."""
    train = read_texts(asked.train).texts
    masks = None if asked.masks is None else Masks.load(asked.masks)
    subject = _classifier(asked.model, asked.device)
    show = False if asked.quiet else None
    engine = Engine(subject, Settings(10, asked.max_length, 1.0), asked.batch_size, show, masks)
    engine.use_ranges(engine.calibrate(train, cache=True))
    found = []
    for number, test in enumerate(suite.tests, start=1):
        say(f"{number} of {len(suite.tests)}: {test.name} ({len(test.cases):,} cases)")
        alone = Rows.of_suite(asked.suite, replace(suite, tests=(test,)))
        path = asked.output / DATA_FOLDER / f"{number:02d}.mncover"
        path.parent.mkdir(parents=True, exist_ok=True)
        job = Job(engine, alone, train, path, say, asked.classes)
        found.append(_finished(job) or run_suite(job))
    return found, subject.n_labels


def _finished(job: Job) -> CoverageData | None:
    """Return what an earlier call measured, if it is exactly this."""
    if not job.output.exists():
        return None
    try:
        data = datafile.read(job.output)
        data.identity.require_same(job.engine.identity())
    except (DataFileError, MismatchError):
        return None
    outlines = [data.outlines[run.id]["classes"] for run in data.runs if run.id in data.outlines]
    same = [run.suite_fingerprint for run in data.runs] == [job.suite.fingerprint]
    return data if same and outlines == [job.classes] and not data.incomplete else None


def _judge(asked: Asked, suite: Suite) -> tuple[str | None, dict[str, Verdicts] | None]:
    """Return another model's name, and its verdicts on every case."""
    if asked.judge is None:
        return None, None
    if (Path(asked.judge) / DATA_FOLDER).is_dir():
        return _judged_before(Path(asked.judge), asked, suite)
    subject = _classifier(asked.judge, asked.device)
    texts: list[GivenText] = list(suite.each_text())
    encodings = subject.encode(texts, asked.max_length)
    show = False if asked.quiet else None
    with bar("Judging", len(texts), show) as advance:
        found = class_probabilities(subject, encodings, asked.batch_size, advance)
    answers = in_suite_classes(found, subject.labels, suite.labels, asked.classes)
    verdicts = {outcome.test.name: outcome.verdicts for outcome in judge_suite(suite, answers)}
    return Path(asked.judge).name, verdicts


def _judged_before(
    folder: Path, asked: Asked, suite: Suite
) -> tuple[str | None, dict[str, Verdicts] | None]:
    """Return the verdicts in the folder that this experiment wrote for another model."""
    name, verdicts = None, {}
    for number, test in enumerate(suite.tests, start=1):
        path = folder / DATA_FOLDER / f"{number:02d}.mncover"
        data = datafile.read(path)
        alone = Rows.of_suite(asked.suite, replace(suite, tests=(test,)))
        if [run.suite_fingerprint for run in data.runs] != [alone.fingerprint] or data.incomplete:
            raise MismatchError(f"{path}: it holds something else than all of {test.name!r}.")
        name, verdicts[test.name] = Path(data.identity.model).name, cases_of(data).verdicts
    return name, verdicts


def _classifier(model: str, device: str | None) -> Subject:
    subject = load_subject(model, device=device)
    if subject.n_labels < 2:
        raise ModelError(f"{model} has no classes, so its failures cannot be told.")
    return subject


WIDTH = 110


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
    title = f"{about.table}: {about.model} on {about.suite}"
    _print_paper(rows, own, metrics, title, console)
    for metric in metrics:
        _heading(console, f"Where the reduction by {NAMES[metric]} comes from, % of all cases")
        console.print(_reduction_table(rows, metric))
    _print_clean(rows, own, f"The clean protocol, {about.model}", console)
    if about.judge is not None:
        theirs = [row.other for row in rows if row.other is not None]
        title = f"Chosen by {about.model}, judged by {about.judge}"
        _print_paper(rows, theirs, metrics, title, console)
        _print_clean(rows, theirs, title, console)


def _print_paper(
    rows: Sequence[Row],
    judged: Sequence[Judged],
    metrics: Sequence[Metric],
    title: str,
    console: Console,
) -> None:
    for metric in metrics:
        _heading(console, f"{title}: the paper's protocol, {NAMES[metric]}")
        console.print(_paper_table(rows, judged, metric))
        console.print(_paper_reading(judged, metric), markup=False, highlight=False)


def _print_clean(
    rows: Sequence[Row], judged: Sequence[Judged], title: str, console: Console
) -> None:
    same = alike(judged)
    _heading(console, f"{title}: failure rate in % of the best 20 %")
    console.print(_clean_table(rows, judged, same))
    _heading(console, f"{title}: all tests")
    console.print(_summary_table(judged, same))
    for method, earlier in same.items():
        console.print(f"{method} chooses as {earlier} does.", markup=False, highlight=False)


def _heading(console: Console, text: str) -> None:
    console.print(Text(f"\n{text}", style="bold"))


def _new_table(*columns: str, narrow: int = 14) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column(columns[0], overflow="fold", min_width=narrow)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _percent(share: float, digits: int = 2) -> str:
    return "-" if math.isnan(share) else display_percent(share, digits)


def _points(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:+.2f}"


def _chance(p: float) -> str:
    return "-" if math.isnan(p) else f"{p:.3f}"


def _paper_table(rows: Sequence[Row], judged: Sequence[Judged], metric: Metric) -> Table:
    table = _new_table("Test", "D %", "max", "mean", "Δ", "null", "97.5 %", "p", "p mean")
    found = [_paper_numbers(row, metric) for row in judged]
    for row, numbers in zip(rows, found, strict=True):
        table.add_row(Text(row.test), *_paper_cells(numbers))
    table.add_section()
    averages = [mean([numbers[i] for numbers in found]) for i in range(len(found[0]))]
    table.add_row("average", *_paper_cells(averages), style="bold")
    return table


def _paper_numbers(row: Judged, metric: Metric) -> list[float]:
    o = row.paper[metric]
    delta = o.maximum - o.failure_rate
    shares = [row.failure_rate, o.maximum, o.mean, delta, o.null_mean, o.null_high]
    return [*shares, o.p_value, o.mean_p_value]


def _paper_cells(numbers: Sequence[float]) -> list[str]:
    shows = [_percent, _percent, _percent, _points, _percent, _percent, _chance, _chance]
    return [show(number) for show, number in zip(shows, numbers, strict=True)]


def _paper_reading(judged: Sequence[Judged], metric: Metric) -> str:
    above, n = significant(judged, metric)
    by_mean, _ = significant(judged, metric, "mean_p_value")
    delta = mean([row.paper[metric].maximum - row.failure_rate for row in judged])
    null = mean([row.paper[metric].null_mean - row.failure_rate for row in judged])
    return (
        f"The maximum is {100 * delta:+.2f} points over D on average; gains dealt at random give "
        f"{100 * null:+.2f}. Beyond chance (p < 0.05): the maximum in {above}, the mean in "
        f"{by_mean} of {n} tests; expected by chance alone: {0.05 * n:.1f}."
    )


def _reduction_table(rows: Sequence[Row], metric: Metric) -> Table:
    parts = ("reduction", "truncation", "redundancy", "cut")
    table = _new_table("Test", "Cases", "Visited", *parts, "paper")
    shares = [[getattr(row.own.paper[metric], part) for part in parts] for row in rows]
    for row, mine in zip(rows, shares, strict=True):
        paper = PAPER_REDUCTIONS.get(row.test)
        table.add_row(
            Text(row.test),
            f"{row.own.cases:,}",
            f"{row.candidates:,}",
            *(f"{100 * share:.2f}" for share in mine),
            "" if paper is None else f"{paper:.2f}",
        )
    table.add_section()
    averages = [f"{100 * mean(column):.2f}" for column in zip(*shares, strict=True)]
    table.add_row("average", "", "", *averages, "", style="bold")
    return table


def _clean_table(rows: Sequence[Row], judged: Sequence[Judged], same: dict[str, str]) -> Table:
    methods = [name for name in judged[0].apfd if name not in same]
    table = _new_table("Test", "D", "chance", *methods)
    rates = [[row.clean["20"][m].failure_rate for m in methods] for row in judged]
    for row, mine, numbers in zip(rows, judged, rates, strict=True):
        chance = mine.clean["20"]["random"]
        table.add_row(
            Text(row.test),
            _percent(mine.failure_rate, 1),
            f"{_percent(chance.low, 1)}-{_percent(chance.high, 1)}",
            *(_percent(number, 1) for number in numbers),
        )
    table.add_section()
    averages = [_percent(mean(column), 1) for column in zip(*rates, strict=True)]
    base = _percent(mean([row.failure_rate for row in judged]), 1)
    table.add_row("average", base, "", *averages, style="bold")
    return table


def _summary_table(judged: Sequence[Judged], same: dict[str, str]) -> Table:
    """Return what each method is worth over all tests, at each budget."""
    columns = ("Failing", "Lift", "Found", "Reached", "Better", "Worse", "Error", "Adj.", "APFD")
    table = _new_table("Chosen by", "Budget", *columns, narrow=9)
    for budget in judged[0].clean:
        for method in judged[0].clean[budget]:
            if method not in same:
                cells = _summary_cells(judged, budget, method)
                table.add_row(method, f"{budget} %", *cells)
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
        "" if chance else f"{reached}/{failing}",
        "" if chance else f"{above}/{n}",
        "" if chance else f"{below}/{n}",
        _unsigned(mean([abs(o.error) for o in outcomes])),
        _unsigned(mean([abs(o.adjusted_error) for o in outcomes])),
        "-" if math.isnan(order) else f"{order:.3f}",
    ]


def _unsigned(share: float) -> str:
    return "-" if math.isnan(share) else f"{100 * share:.2f}"
