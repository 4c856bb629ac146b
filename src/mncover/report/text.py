"""The report that people read on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from mncover.data.display import display_percent
from mncover.data.results import ContextResult, Count, Result, SiteResult
from mncover.errors import SettingsError
from mncover.report.describe import capability_table, describe_masks

BAR_WIDTH = 12

SORTS: dict[str, Callable[[ContextResult], Any]] = {
    "suite": lambda c: 0,
    "name": lambda c: c.name.casefold(),
    "texts": lambda c: c.texts,
    "cover": lambda c: c.cover,
    "mncover": lambda c: c.mncover or 0.0,
    "adds": lambda c: c.adds,
    "only": lambda c: c.only_here,
    "redundant": lambda c: -1 if c.redundant is None else c.redundant,
    "wrong": lambda c: c.wrong,
    "failing": lambda c: c.failure_rate or 0.0,
}


def print_report(
    result: Result, console: Console, sort: str = "suite", heads: bool = False
) -> None:
    """Print contexts, layers and totals; `heads` adds a grid of attention heads."""
    plain = console.options.ascii_only
    parts: list[RenderableType] = [_heading(result), _contexts(result, sort)]
    if len({outcome.test.capability for outcome in result.outcomes}) > 1:
        parts.append(capability_table(result.outcomes))
    parts.append(_layers(result, plain))
    if heads:
        parts.append(Text("Attention heads: covered percent of what is reachable"))
        parts.append(_heads(result))
    parts.append(_totals(result))
    if result.identity.masks is not None:
        parts.append(describe_masks(result.identity.masks))
    parts += _notes(result)
    for part in parts:
        console.print(part)
        console.print()


def _heading(result: Result) -> Text:
    identity, settings = result.identity, result.identity.settings
    text = Text()
    text.append("Coverage of ").append(_short_name(identity.model), style="bold")
    text.append(f" by {result.texts:,} texts\n")
    text.append(
        f"{settings.bins} bins, up to {settings.max_length} tokens, "
        f"calibrated on {identity.calibration_texts:,} texts",
        style="dim",
    )
    return text


def _short_name(model: str) -> str:
    """Return a hub name as it is, and of a folder's path only the last part."""
    return Path(model).name if Path(model).is_absolute() else model


def sorted_contexts(result: Result, sort: str) -> list[ContextResult]:
    """Return the contexts in the asked order; a minus in front turns it round."""
    name = sort.removeprefix("-")
    if name not in SORTS:
        raise SettingsError(f"cannot sort by {sort!r}; known are {', '.join(SORTS)}.")
    contexts = sorted(result.contexts, key=SORTS[name])
    return contexts[::-1] if sort.startswith("-") else contexts


def _contexts(result: Result, sort: str) -> Table:
    names = ["Texts", "Cover %", "Adds %", "Only here %", "Redundant"]
    if result.masked is not None:  # one column more, and it should fit into 80
        names = ["Texts", "Cover %", "mnCover", "Adds %", "Only %", "Redundant"]
    table = _table(narrow=result.masked is not None)
    table.add_column("Context", overflow="fold", min_width=12)
    for name in (*names, *(extra.name for extra in _extras(result))):
        table.add_column(name, justify="right", no_wrap=True)
    for context in sorted_contexts(result, sort):
        cells = [_of(*extra.parts(context)) for extra in _extras(result)]
        table.add_row(*_context_cells(context), *cells)
    table.add_section()
    table.add_row(*_total_cells(result), style="bold")
    return table


class _Extra(NamedTuple):
    """A column that only some suites have: a part, None if not known, of a whole."""

    name: str
    parts: Callable[[ContextResult], tuple[int | None, int]]


WRONG = _Extra("Wrong", lambda c: (c.wrong if c.labelled else None, c.labelled))
FAILING = _Extra("Failing", lambda c: (c.failing if c.judged else None, c.judged))


def _extras(result: Result) -> list[_Extra]:
    labelled = any(context.labelled for context in result.contexts)
    return [*([WRONG] if labelled else []), *([FAILING] if result.outcomes else [])]


def _total_cells(result: Result) -> list[str]:
    redundant = [c.redundant for c in result.contexts]
    known = None if None in redundant else sum(n for n in redundant if n is not None)
    covers = [display_percent(result.cover), *_percent(result.mncover)]
    cells = ["Total", f"{result.texts:,}", *covers, "", "", _of(known, result.texts)]
    for extra in _extras(result):
        counts = [extra.parts(context) for context in result.contexts]
        cells.append(_of(sum(part or 0 for part, _ in counts), sum(n for _, n in counts)))
    return cells


def _context_cells(context: ContextResult) -> list[str | Text]:
    return [
        Text(context.name or "(none)"),  # Text: brackets in a name are no markup
        f"{context.texts:,}",
        display_percent(context.cover),
        *_percent(context.mncover),
        display_percent(context.adds),
        display_percent(context.only_here),
        _of(context.redundant, context.texts),
    ]


def _percent(share: float | None) -> list[str]:
    """Return a cell for a share, or no cell if there is none."""
    return [] if share is None else [display_percent(share)]


def _of(part: int | None, whole: int) -> str:
    """Return a count with its percentage, or a dash if it is not known."""
    if part is None:
        return "-"
    return f"{part:,} ({display_percent(part / whole, 0):>3} %)" if whole else f"{part:,}"


def _layers(result: Result, plain: bool) -> Table:
    masked = ["masked"] if result.masked is not None else []
    table = _table(narrow=bool(masked))
    table.add_column("Layer", justify="right", min_width=5)
    for name in ("Words %", "Attention %"):
        for column in (name, *masked):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("of reachable", no_wrap=True)
    found = {(site.kind, site.layer): site for site in result.sites}
    for layer in sorted({site.layer for site in result.sites}):
        cells: list[RenderableType] = [str(layer)]
        for kind in ("hidden", "attention"):
            site = found.get((kind, layer))
            cells += [""] * (2 + len(masked)) if site is None else _site_cells(site, plain)
        table.add_row(*cells)
    return table


def _site_cells(site: SiteResult, plain: bool) -> list[RenderableType]:
    masked = _percent(None if site.masked is None else site.masked.share)
    width = BAR_WIDTH // 2 if masked else BAR_WIDTH
    return [display_percent(site.count.share), *masked, _bar(site.count, plain, width)]


def _bar(count: Count, plain: bool, width: int) -> Text:
    share = count.share_of_reachable
    filled = round(share * width)
    full, rest = ("#", ".") if plain else ("█", "░")
    bar = Text(full * filled, style="green")
    bar.append(rest * (width - filled), style="dim")
    return bar.append(f" {display_percent(share, 1)} %")


def _heads(result: Result) -> Table:
    """Show, for each layer, the covered share of each head's reachable bins, in percent."""
    sites = [site for site in result.sites if site.heads]
    table = _table()
    table.add_column("Layer", justify="right")
    for head in range(max(len(site.heads) for site in sites)):
        table.add_column(str(head + 1), justify="right")
    for site in sites:
        shares = [f"{head.share_of_reachable * 100:.0f}" for head in site.heads]
        table.add_row(str(site.layer), *shares)
    return table


def _totals(result: Result) -> Text:
    text = Text()
    text.append(f"Cover {display_percent(result.cover)} %", style="bold")
    text.append(f" of all bins, {display_percent(result.tally.cover_of_reachable)} % of those")
    text.append(" that the calibration texts show to be reachable\n")
    for name, count in (("words", result.word), ("attention", result.attention)):
        text.append(
            f"  {name:<10}{count.covered:>15,} of {count.total:>15,} bins, "
            f"{count.reachable:,} reachable\n",
            style="dim",
        )
    if result.masked is not None:
        text.append(f"mnCover {display_percent(result.masked.cover)} %", style="bold")
        text.append(" of all bins: hits of the words and pairs that the masks let count\n")
        for name, count in (("words", result.masked.word), ("attention", result.masked.attention)):
            text.append(f"  {name:<10}{count.covered:>15,}\n", style="dim")
    text.rstrip()
    return text


def _notes(result: Result) -> list[Text]:
    notes = []
    truncated = sum(context.truncated for context in result.contexts)
    empty = sum(context.empty for context in result.contexts)
    if truncated:
        length = result.identity.settings.max_length
        notes.append(f"{truncated:,} texts were cut to {length} tokens (--max-length).")
    if empty:
        notes.append(f"{empty:,} texts have no token at all: they cover nothing.")
    notes += [f"The run of {s} was interrupted: texts are missing." for s in result.interrupted]
    if result.outcomes:
        notes.append("Failing: cases that break their test's expectation, of those it applies to.")
    notes.append(
        "Adds: new over the contexts before it. Only here: no other context has it. "
        "Redundant: texts that hit a new bin in at most "
        f"{result.redundant_at * 100:g} % of the neurons they touch (--redundant)."
    )
    return [Text(note, style="dim") for note in notes]


def _table(narrow: bool = False) -> Table:
    """Return an empty table; a narrow one has a single space between its columns."""
    padding = (0, 1, 0, 0) if narrow else (0, 1)
    return Table(box=None, pad_edge=False, header_style="bold", padding=padding)
