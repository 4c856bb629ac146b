"""The report as Markdown, for pull requests and job summaries. No torch here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mncover.data.display import display_percent
from mncover.data.results import ContextResult, Result
from mncover.report.text import sorted_contexts

FORMATS = ("text", "markdown", "github")


def to_markdown(result: Result, sort: str = "suite", folded: bool = False) -> str:
    """Return totals and a table of contexts; `folded` puts the table into a fold, as GitHub has."""
    table = "\n".join(_table(result, sorted_contexts(result, sort)))
    parts = [f"## Coverage of {_escaped(result.identity.model.rstrip('/').split('/')[-1])}", ""]
    parts += [f"- {line}" for line in _totals(result)]
    parts.append("")
    if folded:
        n = len(result.contexts)
        parts += [f"<details><summary>{n:,} tests</summary>", "", table, "", "</details>"]
    else:
        parts.append(table)
    return "\n".join(parts) + "\n"


def _totals(result: Result) -> list[str]:
    lines = [f"**Cover {display_percent(result.cover)} %** of all bins, {result.texts:,} texts"]
    if result.mncover is not None:
        lines.append(f"mnCover {display_percent(result.mncover)} %")
    judged = sum(outcome.judged for outcome in result.outcomes)
    if judged:
        failing = sum(outcome.failing for outcome in result.outcomes)
        share = display_percent(failing / judged)
        lines.append(f"**{failing:,} of {judged:,} cases fail** ({share} %)")
    labelled = sum(context.labelled for context in result.contexts)
    if labelled:
        wrong = sum(context.wrong for context in result.contexts)
        lines.append(f"{wrong:,} of {labelled:,} labelled texts are classified wrongly")
    return [*lines, *(f"interrupted: {_escaped(name)}" for name in result.interrupted)]


def _table(result: Result, contexts: Sequence[ContextResult]) -> list[str]:
    names = ["Test", "Texts", "Cover %"]
    names += ["mnCover %"] if result.masked is not None else []
    names += ["Adds %", "Only here %", "Redundant", "Failing"]
    lines = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for context in contexts:
        cells = [_escaped(context.name), f"{context.texts:,}", display_percent(context.cover)]
        if result.masked is not None:
            cells.append(display_percent(context.mncover or 0.0))
        cells += [display_percent(context.adds), display_percent(context.only_here)]
        cells += ["-" if context.redundant is None else f"{context.redundant:,}"]
        cells.append(_failing(context))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _failing(context: ContextResult) -> str:
    part, whole = context.failing, context.judged
    if not whole:
        part, whole = context.wrong, context.labelled
    return f"{part:,} ({display_percent(part / whole, 1)} %)" if whole else "-"


def _escaped(text: str) -> str:
    """Return a text that Markdown and HTML leave as it is, on one line."""
    flat = " ".join(text.split())
    flat = flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]()#+!|~-])", r"\\\1", flat)
