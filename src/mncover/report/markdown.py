"""The report as Markdown, for pull requests and job summaries. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.console import Console

from mncover.data.harmless import as_code, in_markdown
from mncover.data.results import Result
from mncover.report import columns
from mncover.report.columns import LITTLE, NAME, OUTSIDE, TEXTS, View, shown
from mncover.report.describe import print_failures
from mncover.report.failures import MOST_LISTED, MOST_TEXTS, changes_in_words, newly_failing
from mncover.report.notes import headline, little_words, of_all, warnings_of
from mncover.report.plans import ESTIMATE_TITLES, estimate_cells, estimate_notes, shown_estimates
from mncover.report.screen import Screen, print_verbatim
from mncover.types import counted, display_percent, shorten

WIDTH = 100  # of failing cases


def show(view: View, console: Console, folded: bool = False) -> None:
    """Print the report, and below it gates, changes and the failing cases that were asked for."""
    print_verbatim(to_markdown(view.result, view.sort, folded), console)
    print_verbatim("".join(f"{line}\n" for line in _gates(view)), console)
    if view.failures:
        print_verbatim(as_code(_failures(view)), console)


def _failures(view: View) -> str:
    """Return the failing cases as lines."""
    file = StringIO()
    print_failures(view.data, view.failures, Screen(file=file, width=WIDTH))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def to_markdown(result: Result, sort: str = "suite", folded: bool = False) -> str:
    """Return totals and a table of tests; `folded` puts the table into a fold, as GitHub has."""
    table = "\n".join(_table(result, sort))
    if folded:
        summary = f"<summary>{counted(len(result.contexts), 'test')}</summary>"
        table = f"<details>{summary}\n\n{table}\n\n</details>"
    model = in_markdown(result.identity.model.rstrip("/").split("/")[-1])
    totals = "\n".join(f"- {line}" for line in _totals(result))
    estimated = "".join(f"\n{line}\n" for line in _estimates(result))
    return f"## Coverage of {model}\n\n{totals}\n{estimated}\n{table}\n"


def _gates(view: View) -> Iterator[str]:
    """Yield what gates say, and the cases that fail newly as a table."""
    words = {True: "passed", False: "**FAILED**", None: "not checked"}
    for check in view.checks:
        yield f"- {words[check.holds]}: {in_markdown(check.says)}"
    if view.changes is None:
        return
    yield f"\n{in_markdown(changes_in_words(view.changes))}"
    found = newly_failing(view.changes)
    if found:
        yield "\n| Test | Case | Texts | Expected | Got |\n|---|---|---|---|---|"
    for one in found[:MOST_LISTED]:
        texts = " / ".join(shorten(text) for text in one.texts[:MOST_TEXTS])
        cells = (one.test, one.case, texts, one.expected, one.got)
        yield f"| {' | '.join(map(in_markdown, cells))} |"
    if len(found) > MOST_LISTED:
        yield f"\nand {counted(len(found) - MOST_LISTED, 'case')} more"


def _totals(result: Result) -> list[str]:
    lines = []
    for criterion in result.criteria.values():
        shown, compared = headline(result, criterion)
        lines.append(f"**{shown}**{compared}; {of_all(criterion)}")
    lines[0] += f"; {counted(result.n_texts, 'text')}"
    lines += [f"part of {in_markdown(part)}" for part in result.parts]
    if result.judged:
        share = display_percent(result.failing / result.judged)
        lines.append(f"**{result.failing:,} of {result.judged:,} cases fail** ({share} %)")
    little = little_words(result)
    lines += [little] if little else []
    lines += [f"interrupted: {in_markdown(name)}" for name in result.interrupted]
    return [*lines, *(f"Warning: {one}" for one in warnings_of(result))]


def _estimates(result: Result) -> list[str]:
    """Return what is estimated for whole tests: a paragraph, and a table."""
    if not result.estimates:
        return []
    lines = [
        f"| {' | '.join(ESTIMATE_TITLES)} |",
        "|---" + "|---:" * (len(ESTIMATE_TITLES) - 1) + "|",
    ]
    for one in shown_estimates(result.estimates):
        name, *cells = estimate_cells(one)
        lines.append(f"| {' | '.join([in_markdown(name), *cells])} |")
    return [*map(in_markdown, estimate_notes(result.estimates)), "\n".join(lines)]


def _table(result: Result, sort: str) -> list[str]:
    shares = [TEXTS, *columns.coverage_columns(result), OUTSIDE, LITTLE]
    shares = [column for column in shares if column.applies(result)]
    names = ["Test", *(c.title for c in shares), "Failing"]
    lines = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for context in columns.sorted_contexts(result, sort):
        part, failing = columns.failing_part(context), "-"
        if part.share is not None:
            failing = f"{part.number:,} ({display_percent(part.share, 1)} %)"
        name = in_markdown(shown(NAME.value(context)))
        cells = [name, *(shown(column.value(context)) for column in shares), failing]
        lines.append(f"| {' | '.join(cells)} |")
    return lines
