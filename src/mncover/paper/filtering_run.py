"""Make Tables 1, 2 and 6: measure and judge each test, write text, CSV and JSON.

Every test has a data file of its own in the output folder. A file that an earlier call wrote for
the same model, ranges and cases is read instead of measuring again. docs/commands/reproduce.md
describes every field of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.coverage import Coverage
from mncover.data.display import display_percent
from mncover.data.resume import Say, silent
from mncover.errors import MismatchError, ModelError, SettingsError
from mncover.paper.filtering import (
    PAPER_REDUCTIONS,
    TABLES,
    Judged,
    Row,
    beyond_chance,
    mean,
    reached_tests,
    same_choices,
    significant,
    table_row,
)
from mncover.report.tables import plain_table, write_csv, write_json, write_text
from mncover.selection.cases import cases_of
from mncover.selection.chance import Verdicts
from mncover.suites.formats.tables import TextFile
from mncover.suites.judging import How, in_suite_classes, judge_suite
from mncover.suites.model import Suite
from mncover.types import Text as GivenText

if TYPE_CHECKING:
    from mncover.engine.subject import Subject

WIDTH = 110  # of the table as text

Parts = dict[str, TextFile]  # each test by name, as a suite of its own


def reproduce_filtering(
    table: str,
    cov: Coverage,
    suite_path: Path,
    suite: Suite,
    train: Sequence[GivenText],
    output: Path,
    *,
    judge: str | None = None,
    texts: int | None = None,
    classes: How = "auto",
    say: Say = silent,
    console: Console | None = None,
) -> list[Row]:
    """Make one of the tables in a folder and print it to a console, if one is given.

    `train` calibrates `cov`. `judge` is a second model that judges the cases too, or the folder
    of that model's own table. `texts` is how many texts of each test the paper's protocol uses;
    the default is the paper's number.
    """
    subject = _classifier(cov.engine.subject)
    chosen, missing = _tests(suite, table)
    for name in missing:
        say(f"{suite_path}: no test {name!r}, so it is left out.")
    alone = [replace(chosen, tests=(test,)) for test in chosen.tests]
    parts = {one.tests[0].name: TextFile.of_suite(suite_path, one) for one in alone}
    cov.calibrate(train)
    data = []
    for path, (name, part) in zip(_data_files(output), parts.items(), strict=False):
        say(f"{len(data) + 1} of {len(parts)}: {name} ({len(chosen[name].cases):,} cases)")
        data.append(cov.run(part, path, classes=classes, say=say, reuse=True).data)
    judged_by, verdicts = _judge(judge, cov, chosen, parts, classes)
    first_texts = texts or TABLES[table][1]
    rows = [
        table_row(name, cases_of(mine), first_texts, verdicts.get(name))
        for name, mine in zip(parts, data, strict=True)
    ]
    sizes = (first_texts, subject.n_labels)
    titles = {one.name: one.title for one in data[0].identity.criteria}
    model = Path(subject.name).name
    about = About(table, model, judged_by, suite_path.name, *sizes, missing, titles)
    write_tables(rows, about, output)
    if console is not None:
        print_tables(rows, about, console)
        console.print(f"Text, CSV and JSON are in {output}.", markup=False, soft_wrap=True)
    return rows


def _classifier(subject: Subject) -> Subject:
    if subject.n_labels < 2:
        raise ModelError(f"{subject.name} has no classes, so its answers cannot be judged.")
    return subject


def _tests(suite: Suite, table: str) -> tuple[Suite, list[str]]:
    """Return the table's tests in its order, and the names of those that the suite lacks."""
    wanted = TABLES[table][0]
    have = {test.name: test for test in suite.tests}
    found = tuple(have[name] for name in wanted if name in have)
    if not found:
        raise SettingsError(f"the suite has none of the tests of {table}.")
    return replace(suite, tests=found), [name for name in wanted if name not in have]


def _data_files(folder: Path) -> Iterator[Path]:
    return (folder / "data" / f"{number:02d}.mncover" for number in count(1))


def _judge(
    judge: str | None, cov: Coverage, suite: Suite, parts: Parts, classes: How
) -> tuple[str | None, dict[str, Verdicts]]:
    """Return the second model's name and its verdicts on the cases of each test."""
    if judge is None:
        return None, {}
    if next(_data_files(Path(judge))).is_file():
        return _judged_before(Path(judge), parts)
    from mncover.engine.loading import load_subject
    from mncover.engine.measure import class_probabilities

    engine = cov.engine
    subject = _classifier(load_subject(judge, device=str(engine.subject.device)))
    texts = list(suite.each_text())
    encodings = subject.encode(texts, engine.settings.max_length)
    with engine.bar("Judging", len(texts)) as advance:
        found = class_probabilities(subject, encodings, engine.batch_size, advance)
    answers = in_suite_classes(found, subject.labels, suite.labels, classes)
    outcomes = judge_suite(suite, answers)
    return Path(judge).name, {outcome.test.name: outcome.verdicts for outcome in outcomes}


def _judged_before(folder: Path, parts: Parts) -> tuple[str | None, dict[str, Verdicts]]:
    """Return the same from the folder of the second model's own table."""
    model, verdicts = None, {}
    for path, (name, part) in zip(_data_files(folder), parts.items(), strict=False):
        data = Coverage.load(path).data
        if [run.suite_fingerprint for run in data.runs] != [part.fingerprint] or data.incomplete:
            raise MismatchError(
                f"{path} is not a complete run of the test {name!r}: make that model's table again."
            )
        model, verdicts[name] = Path(data.identity.model).name, cases_of(data).verdicts
    return model, verdicts


# Files.


@dataclass(frozen=True, slots=True)
class About:
    """What a table is about, as its JSON says it; `titles` are those of the criteria."""

    table: str
    model: str
    judge: str | None
    suite: str
    first_texts: int
    classes: int
    missing: Sequence[str]
    titles: dict[str, str]


def write_tables(rows: Sequence[Row], about: About, output: Path) -> None:
    """Write the table as JSON, CSV and text to a folder."""
    records = [_record(row) for row in rows]
    content = _without_nan({**asdict(about), "rows": records, "average": _average(records)})
    del content["titles"]
    write_json(output / f"{about.table}.json", content)
    flat = [dict(_flat(record)) for record in (*content["rows"], content["average"])]
    write_csv(output / f"{about.table}.csv", flat)
    write_text(output / f"{about.table}.txt", partial(print_tables, rows, about), WIDTH)


def _record(row: Row) -> dict[str, Any]:
    record = {name: value for name, value in asdict(row).items() if value is not None}
    for name in {"own", "other"} & set(record):
        for outcome in record[name]["paper"].values():  # the paper's delta, in points
            outcome["delta"] = outcome["maximum"] - outcome["failure_rate"]
    return record


def _average(records: Sequence[Any]) -> Any:
    """Return the average of records, number by number, leaving out NaN."""
    first = records[0]
    if isinstance(first, dict):
        return {name: _average([record[name] for record in records]) for name in first}
    return "average" if isinstance(first, str) else mean(records)


def _flat(record: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        else:
            yield prefix + name, value


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


# Text.


def print_tables(rows: Sequence[Row], about: About, console: Console) -> None:
    """Print the paper's table, where its reduction comes from, and the clean protocol."""
    for heading, table, notes in _sections(rows, about):
        console.print(Text(f"\n{heading}", style="bold"))
        console.print(table)
        for note in notes:
            console.print(note, markup=False, highlight=False)


Section = tuple[str, Table, list[str]]  # heading, table, what it says in words


def _sections(rows: Sequence[Row], about: About) -> Iterator[Section]:
    own, theirs = [row.own for row in rows], [row.other for row in rows if row.other is not None]
    tests = [row.test for row in rows]
    title = f"{about.table}: {about.model} on {about.suite}"
    yield from _paper_sections(title, tests, own, about.titles)
    for criterion, name in about.titles.items():
        heading = f"Where the reduction by {name} comes from, % of all cases"
        yield heading, _reduction_table(rows, criterion), []
    yield from _clean_sections(f"The clean protocol, {about.model}", tests, own)
    if theirs:
        title = f"Chosen by {about.model}, judged by {about.judge}"
        yield from _paper_sections(title, tests, theirs, about.titles)
        yield from _clean_sections(title, tests, theirs)


def _table(columns: Sequence[str], tests: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
    """Return a table of the cells of each test; the last row is the average."""
    table = plain_table("Test", *columns, width=14, narrow=True)
    for test, row in zip(tests, cells, strict=False):
        table.add_row(Text(test), *row)
    table.add_section()
    table.add_row("average", *cells[-1], style="bold")
    return table


def _with_average(rows: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    return [*rows, [mean(column) for column in zip(*rows, strict=True)]]


def _show(value: float, how: str = ".2f") -> str:
    return "-" if math.isnan(value) else format(value, how)


def _percent(share: float, digits: int = 2) -> str:
    return "-" if math.isnan(share) else display_percent(share, digits)


def _paper_sections(
    title: str, tests: Sequence[str], judged: Sequence[Judged], titles: dict[str, str]
) -> Iterator[Section]:
    columns = ("D %", "max", "mean", "Δ", "null", "97.5 %", "p", "p mean")
    for criterion, name in titles.items():
        numbers = _with_average([_paper_numbers(row, criterion) for row in judged])
        cells = [
            [
                *(_percent(share) for share in row[:3]),
                _show(100 * row[3], "+.2f"),
                *(_percent(share) for share in row[4:6]),
                *(_show(p, ".3f") for p in row[6:]),
            ]
            for row in numbers
        ]
        heading = f"{title}: the paper's protocol, {name}"
        yield heading, _table(columns, tests, cells), [_paper_summary(judged, criterion)]


def _paper_numbers(row: Judged, criterion: str) -> list[float]:
    o = row.paper[criterion]
    delta = o.maximum - o.failure_rate
    shares = [row.failure_rate, o.maximum, o.mean, delta, o.null_mean, o.null_high]
    return [*shares, o.p_value, o.mean_p_value]


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


def _reduction_table(rows: Sequence[Row], criterion: str) -> Table:
    parts = ("reduction", "truncation", "redundancy", "cut")
    found = [[getattr(row.own.paper[criterion], part) for part in parts] for row in rows]
    sizes = [(f"{row.own.cases:,}", f"{row.candidates:,}") for row in rows]
    paper = [PAPER_REDUCTIONS.get(row.test, math.nan) for row in rows]
    cells = [
        [*size, *(f"{100 * share:.2f}" for share in shares), _show(theirs).strip("-")]
        for size, shares, theirs in zip(
            [*sizes, ("", "")], _with_average(found), [*paper, math.nan], strict=True
        )
    ]
    return _table(("Cases", "Visited", *parts, "paper"), [row.test for row in rows], cells)


def _clean_sections(
    title: str, tests: Sequence[str], judged: Sequence[Judged]
) -> Iterator[Section]:
    same = same_choices(judged)
    scores = [name for name in judged[0].apfd if name not in same]
    chances = [row.clean["20"]["random"] for row in judged]
    between = [f"{_percent(one.low, 1)}-{_percent(one.high, 1)}" for one in chances]
    rates = [
        [row.failure_rate, *(row.clean["20"][score].failure_rate for score in scores)]
        for row in judged
    ]
    cells = [
        [_percent(row[0], 1), chance, *(_percent(rate, 1) for rate in row[1:])]
        for row, chance in zip(_with_average(rates), [*between, ""], strict=True)
    ]
    table = _table(("D", "chance", *scores), tests, cells)
    yield f"{title}: failure rate in % of the best 20 %", table, []
    notes = [f"{score} chooses as {earlier} does." for score, earlier in same.items()]
    yield f"{title}: all tests", _summary_table(judged, [*scores, "random"]), notes


def _summary_table(judged: Sequence[Judged], scores: Sequence[str]) -> Table:
    """Return what each score is worth over all tests, at each budget."""
    columns = ("Failing", "Lift", "Found", "Reached", "Better", "Worse", "Error", "Adj.", "APFD")
    table = plain_table("Chosen by", "Budget", *columns, narrow=True)
    for budget in judged[0].clean:
        for score in scores:
            table.add_row(score, f"{budget} %", *_summary_cells(judged, budget, score))
        table.add_section()
    return table


def _summary_cells(judged: Sequence[Judged], budget: str, score: str) -> list[str]:
    outcomes = [row.clean[budget][score] for row in judged]
    counts, order = ["", "", ""], 0.5
    if score != "random":
        above, below, n = beyond_chance(judged, budget, score)
        reached, failing = reached_tests(judged, budget, score)
        counts = [f"{reached}/{failing}", f"{above}/{n}", f"{below}/{n}"]
        order = mean([row.apfd[score] for row in judged])
    return [
        _percent(mean([o.failure_rate for o in outcomes])),
        _show(mean([o.lift for o in outcomes])),
        _percent(mean([o.found for o in outcomes])),
        *counts,
        _show(100 * mean([abs(o.error) for o in outcomes])),
        _show(100 * mean([abs(o.adjusted_error) for o in outcomes])),
        _show(order, ".3f"),
    ]
