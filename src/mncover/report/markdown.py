"""The report as Markdown, for pull requests and job summaries. No torch here."""

from __future__ import annotations

import re

from rich.console import Console

from mncover.data.results import Result
from mncover.report import columns
from mncover.report.columns import LITTLE, NAME, OUTSIDE, TEXTS, View, print_verbatim, shown
from mncover.report.describe import print_failures
from mncover.report.notes import headline, little_words, of_all, warnings_of
from mncover.types import display_percent


def show(view: View, console: Console, folded: bool = False) -> None:
    """Print the report, and below it the failing cases that were asked for."""
    print_verbatim(to_markdown(view.result, view.sort, folded), console)
    if view.failures:
        print_failures(view.data, view.failures, console)


def to_markdown(result: Result, sort: str = "suite", folded: bool = False) -> str:
    """Return totals and a table of tests; `folded` puts the table into a fold, as GitHub has."""
    table = "\n".join(_table(result, sort))
    if folded:
        summary = f"<summary>{len(result.contexts):,} tests</summary>"
        table = f"<details>{summary}\n\n{table}\n\n</details>"
    model = _escaped(result.identity.model.rstrip("/").split("/")[-1])
    totals = "\n".join(f"- {line}" for line in _totals(result))
    return f"## Coverage of {model}\n\n{totals}\n\n{table}\n"


def _totals(result: Result) -> list[str]:
    lines = []
    for criterion in result.criteria.values():
        shown, compared = headline(result, criterion)
        lines.append(f"**{shown}**{compared}; {of_all(criterion)}")
    lines[0] += f"; {result.texts:,} texts"
    if result.judged:
        share = display_percent(result.failing / result.judged)
        lines.append(f"**{result.failing:,} of {result.judged:,} cases fail** ({share} %)")
    little = little_words(result)
    lines += [little] if little else []
    lines += [f"interrupted: {_escaped(name)}" for name in result.interrupted]
    return [*lines, *(f"Warning: {one}" for one in warnings_of(result))]


def _table(result: Result, sort: str) -> list[str]:
    shares = [TEXTS, *columns.coverage_columns(result), OUTSIDE, LITTLE]
    shares = [column for column in shares if column.applies(result)]
    names = ["Test", *(c.title for c in shares), "Failing"]
    lines = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for context in columns.sorted_contexts(result, sort):
        part, failing = columns.failing_part(context), "-"
        if part.share is not None:
            failing = f"{part.number:,} ({display_percent(part.share, 1)} %)"
        name = _escaped(shown(NAME.value(context)))
        cells = [name, *(shown(column.value(context)) for column in shares), failing]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _escaped(text: str) -> str:
    """Return a text that Markdown and HTML leave as it is, on one line."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~-])", r"\\\1", flat)
