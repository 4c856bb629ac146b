"""The report as Markdown, for pull requests and job summaries. No torch here."""

from __future__ import annotations

import re

from rich.console import Console

from mncover.data.results import Result
from mncover.report import columns
from mncover.report.columns import NAME, REDUNDANT, TEXTS, View, print_verbatim, shown
from mncover.report.describe import print_failures
from mncover.report.plans import ESTIMATE_TITLES, estimate_cells, estimate_notes
from mncover.types import display_percent


def show(view: View, console: Console, folded: bool = False) -> None:
    """Print the report, and below it the failing cases that were asked for."""
    print_verbatim(to_markdown(view.result, view.sort, folded), console)
    if view.failures:
        print_failures(view.data, view.failures, console)


def to_markdown(result: Result, sort: str = "suite", folded: bool = False) -> str:
    """Return totals and a table of contexts; `folded` puts the table into a fold, as GitHub has."""
    table = "\n".join(_table(result, sort))
    if folded:
        summary = f"<summary>{len(result.contexts):,} tests</summary>"
        table = f"<details>{summary}\n\n{table}\n\n</details>"
    model = _escaped(result.identity.model.rstrip("/").split("/")[-1])
    totals = "\n".join(f"- {line}" for line in _totals(result))
    estimated = "".join(f"\n{line}\n" for line in _estimates(result))
    return f"## Coverage of {model}\n\n{totals}\n{estimated}\n{table}\n"


def _totals(result: Result) -> list[str]:
    shares = [f"{c.title} {display_percent(c.tally.share)} %" for c in result.criteria.values()]
    lines = [f"**{shares[0]}** of all bins, {result.texts:,} texts", *shares[1:]]
    judged = sum(outcome.judged for outcome in result.outcomes)
    failing = sum(outcome.failing for outcome in result.outcomes)
    if judged:
        share = display_percent(failing / judged)
        lines.append(f"**{failing:,} of {judged:,} cases fail** ({share} %)")
    labelled = sum(context.labelled for context in result.contexts)
    wrong = sum(context.wrong for context in result.contexts)
    if labelled:
        lines.append(f"{wrong:,} of {labelled:,} labelled texts are classified wrongly")
    return [*lines, *(f"interrupted: {_escaped(name)}" for name in result.interrupted)]


def _estimates(result: Result) -> list[str]:
    """Return what is estimated for whole tests: a paragraph, and a table."""
    if not result.estimates:
        return []
    lines = [
        f"| {' | '.join(ESTIMATE_TITLES)} |",
        "|---" + "|---:" * (len(ESTIMATE_TITLES) - 1) + "|",
    ]
    for one in result.estimates:
        name, *cells = estimate_cells(one)
        lines.append(f"| {' | '.join([_escaped(name), *cells])} |")
    return [*map(_escaped, estimate_notes(result.estimates)), "\n".join(lines)]


def _table(result: Result, sort: str) -> list[str]:
    coverage = columns.coverage_columns(result)
    names = ["Test", TEXTS.title, *(c.title for c in coverage), REDUNDANT.title, "Failing"]
    lines = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for context in columns.sorted_contexts(result, sort):
        cells = [shown(column.value(context)) for column in (NAME, TEXTS, *coverage)]
        redundant = "-" if context.redundant is None else f"{context.redundant:,}"
        part, failing = columns.failing_or_wrong(context), "-"
        if part.share is not None:
            failing = f"{part.number:,} ({display_percent(part.share, 1)} %)"
        cells = [_escaped(cells[0]), *cells[1:], redundant, failing]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _escaped(text: str) -> str:
    """Return a text that Markdown and HTML leave as it is, on one line."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~-])", r"\\\1", flat)
