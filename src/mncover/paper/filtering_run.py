"""Make Tables 1, 2 and 6: measure and judge each test, write text, CSV and JSON.

Every test has a data file of its own in the output folder. A file that an earlier call wrote for
the same model, ranges and cases is read instead of measuring again. docs/commands/reproduce.md
describes every field of the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
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
AVERAGE = "average"
PARTS = ("reduction", "truncation", "redundancy", "cut")

Parts = dict[str, TextFile]  # each test by name, as a suite of its own
Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Filtering:
    """One of the tables: what it is about, the titles of the criteria, and its rows."""

    table: str
    model: str
    judge: str | None
    suite: str
    first_texts: int
    classes: int
    missing: list[str]
    titles: dict[str, str]
    rows: list[Row]


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
) -> Filtering:
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
    titles = {one.name: one.title for one in data[0].identity.criteria}
    about = (table, Path(subject.name).name, judged_by, suite_path.name)
    found = Filtering(*about, first_texts, subject.n_labels, missing, titles, rows)
    write_tables(found, output)
    if console is not None:
        print_tables(found, console)
        console.print(f"Text, CSV and JSON are in {output}.", markup=False, soft_wrap=True)
    return found


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


def write_tables(found: Filtering, output: Path) -> None:
    """Write the table as JSON, CSV and text to a folder."""
    records = _without_nan(_records(found.rows))
    content = {**asdict(found), "rows": records[:-1], "average": records[-1]}
    del content["titles"]
    write_json(output / f"{found.table}.json", content)
    write_csv(output / f"{found.table}.csv", [dict(_flat(record)) for record in records])
    write_text(output / f"{found.table}.txt", partial(print_tables, found), WIDTH)


def _records(rows: Sequence[Row]) -> list[Record]:
    """Return the rows as plain values, and their average as the last one."""
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


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nan(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _flat(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        else:
            yield prefix + name, value


def print_tables(found: Filtering, console: Console) -> None:
    """Print the paper's table, where its reduction comes from, and the clean protocol."""
    records = _records(found.rows)
    table = f"{found.table}: {found.model} on {found.suite}"
    _print_paper(found, records, "own", table, console)
    for criterion, title in found.titles.items():
        _print_heading(f"Where the reduction by {title} comes from, % of all cases", console)
        columns = ("Cases", "Visited", *PARTS, "paper")
        console.print(_table(columns, records, partial(_reduction_cells, criterion)))
    _print_clean(found, records, "own", f"The clean protocol, {found.model}", console)
    if found.judge is not None:
        title = f"Chosen by {found.model}, judged by {found.judge}"
        _print_paper(found, records, "other", title, console)
        _print_clean(found, records, "other", title, console)


def _print_heading(text: str, console: Console) -> None:
    console.print(Text(f"\n{text}", style="bold"))


def _table(
    columns: Sequence[str], records: Sequence[Record], cells: Callable[[Record], list[str]]
) -> Table:
    table = plain_table("Test", *columns, width=14, narrow=True)
    for record in records[:-1]:
        table.add_row(Text(record["test"]), *cells(record))
    table.add_section()
    table.add_row(AVERAGE, *cells(records[-1]), style="bold")
    return table


def _show(value: float, how: str = ".2f") -> str:
    return "-" if math.isnan(value) else format(value, how)


def _percent(share: float, digits: int = 2) -> str:
    return "-" if math.isnan(share) else display_percent(share, digits)


def _print_paper(
    found: Filtering, records: Sequence[Record], who: str, title: str, console: Console
) -> None:
    columns = ("D %", "max", "mean", "Δ", "null", "97.5 %", "p", "p mean")
    judged = [getattr(row, who) for row in found.rows]
    for criterion, name in found.titles.items():
        _print_heading(f"{title}: the paper's protocol, {name}", console)
        console.print(_table(columns, records, partial(_paper_cells, criterion, who)))
        console.print(_paper_summary(judged, criterion), markup=False, highlight=False)


def _paper_cells(criterion: str, who: str, record: Record) -> list[str]:
    o = record[who]["paper"][criterion]
    return [
        *(_percent(o[name]) for name in ("failure_rate", "maximum", "mean")),
        _show(100 * o["delta"], "+.2f"),
        *(_percent(o[name]) for name in ("null_mean", "null_high")),
        *(_show(o[name], ".3f") for name in ("p_value", "mean_p_value")),
    ]


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


def _print_clean(
    found: Filtering, records: Sequence[Record], who: str, title: str, console: Console
) -> None:
    judged = [getattr(row, who) for row in found.rows]
    same = same_choices(judged)
    scores = [name for name in judged[0].apfd if name not in same]
    _print_heading(f"{title}: failure rate in % of the best 20 %", console)
    console.print(_table(("D", "chance", *scores), records, partial(_clean_cells, scores, who)))
    _print_heading(f"{title}: all tests", console)
    columns = ("Failing", "Lift", "Found", "Reached", "Better", "Worse", "Error", "Adj.", "APFD")
    table = plain_table("Chosen by", "Budget", *columns, narrow=True)
    for budget in judged[0].clean:
        for score in (*scores, "random"):
            table.add_row(score, f"{budget} %", *_summary_cells(judged, budget, score))
        table.add_section()
    console.print(table)
    for score, earlier in same.items():
        console.print(f"{score} chooses as {earlier} does.", markup=False, highlight=False)


def _clean_cells(scores: Sequence[str], who: str, record: Record) -> list[str]:
    outcomes = record[who]["clean"]["20"]
    between = "-".join(_percent(outcomes["random"][end], 1) for end in ("low", "high"))
    rates = [_percent(outcomes[score]["failure_rate"], 1) for score in scores]
    chance = "" if record["test"] == AVERAGE else between
    return [_percent(record[who]["failure_rate"], 1), chance, *rates]


def _summary_cells(judged: Sequence[Judged], budget: str, score: str) -> list[str]:
    """Return what a score is worth over all tests at a budget."""
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
