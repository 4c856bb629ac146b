"""The report as Markdown, for pull requests and job summaries. No torch here."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.console import Console

from mncover.data.results import Result
from mncover.report import columns
from mncover.report.columns import NAME, REDUNDANT, TEXTS, View, print_verbatim, shown
from mncover.report.describe import print_failures
from mncover.report.failures import MOST_LISTED, MOST_TEXTS, changes_in_words, newly_failing
from mncover.types import counted, display_percent, shorten


def show(view: View, console: Console, folded: bool = False) -> None:
    """Print the report, and below it gates, changes and the failing cases that were asked for."""
    print_verbatim(to_markdown(view.result, view.sort, folded), console)
    print_verbatim("".join(f"{line}\n" for line in _gates(view)), console)
    if view.failures:
        print_failures(view.data, view.failures, console)


def to_markdown(result: Result, sort: str = "suite", folded: bool = False) -> str:
    """Return totals and a table of contexts; `folded` puts the table into a fold, as GitHub has."""
    table = "\n".join(_table(result, sort))
    if folded:
        summary = f"<summary>{counted(len(result.contexts), 'test')}</summary>"
        table = f"<details>{summary}\n\n{table}\n\n</details>"
    model = _escaped(result.identity.model.rstrip("/").split("/")[-1])
    totals = "\n".join(f"- {line}" for line in _totals(result))
    return f"## Coverage of {model}\n\n{totals}\n\n{table}\n"


def _gates(view: View) -> Iterator[str]:
    """Yield what gates say, and the cases that fail newly as a table."""
    words = {True: "passed", False: "**FAILED**", None: "not checked"}
    for check in view.checks:
        yield f"- {words[check.holds]}: {_escaped(check.says)}"
    if view.changes is None:
        return
    yield f"\n{_escaped(changes_in_words(view.changes))}"
    found = newly_failing(view.changes)
    if found:
        yield "\n| Test | Case | Texts | Expected | Got |\n|---|---|---|---|---|"
    for one in found[:MOST_LISTED]:
        texts = " / ".join(shorten(text) for text in one.texts[:MOST_TEXTS])
        cells = (one.test, one.case, texts, one.expected, one.got)
        yield f"| {' | '.join(map(_escaped, cells))} |"
    if len(found) > MOST_LISTED:
        yield f"\nand {counted(len(found) - MOST_LISTED, 'case')} more"


def _totals(result: Result) -> list[str]:
    shares = [f"{c.title} {display_percent(c.tally.share)} %" for c in result.criteria.values()]
    lines = [f"**{shares[0]}** of all bins, {counted(result.texts, 'text')}", *shares[1:]]
    lines += [f"part of {_escaped(part)}" for part in result.parts]
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
