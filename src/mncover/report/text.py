"""The report that people read on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from mncover.criteria import CRITERIA
from mncover.data.counts import Count
from mncover.data.results import ContextResult, CriterionResult, Result, SiteResult
from mncover.report.columns import NAME, View, columns_of, shown, sorted_contexts
from mncover.report.describe import capability_table, describe_masks, print_failures
from mncover.report.failures import changes_in_words, listed_failures
from mncover.report.notes import (
    cells_of,
    column_notes,
    footnotes,
    headline,
    of_all,
    warnings_of,
)
from mncover.report.plans import estimate_notes, estimate_table
from mncover.report.tables import plain_table
from mncover.types import counted, display_percent, visible

BAR_WIDTH = 12
MOST_BESIDE = 2  # criteria that fit into one table; the others get tables of their own
ALONE = "\nHidden states alone: no attention was measured"


def show(view: View, console: Console) -> None:
    """Print the report and the failing cases that were asked for."""
    print_report(view.result, console, view.sort, view.heads)
    if view.failures:
        print_failures(view.data, view.failures, console)
    if view.changes is not None:
        for line in (changes_in_words(view.changes), *listed_failures(view.changes)):
            console.print(Text(line), soft_wrap=True)


def print_report(
    result: Result, console: Console, sort: str = "suite", heads: bool = False
) -> None:
    """Print tests, layers and totals; `heads` adds a grid of attention heads."""
    apart = len(result.criteria) > MOST_BESIDE
    beside = replace(result, criteria={result.main.name: result.main}) if apart else result
    parts: list[RenderableType] = [_heading(result), _tests(beside, sorted_contexts(result, sort))]
    if apart:
        parts.append(_other_shares(result, sort))
    if len({outcome.test.capability for outcome in result.outcomes}) > 1:
        parts.append(capability_table(result.outcomes))
    if result.estimates:
        parts += [Text(note) for note in estimate_notes(result.estimates)]
        parts.append(estimate_table(result.estimates))
    parts.append(_layers(beside, console.options.ascii_only))
    if apart:
        parts.append(_other_layers(result))
    if heads and any(site.heads for site in result.sites):
        parts.append(Text("Attention heads: covered percent of the reachable bins"))
        parts.append(_heads(result))
    parts.append(_totals(result))
    if result.identity.masks is not None:
        parts.append(describe_masks(result.identity.masks))
    parts += [Text(f"Warning: {one}", style="yellow") for one in warnings_of(result)]
    parts += [Text(one, style="dim") for one in footnotes(result)]
    parts.append(Text(" ".join(column_notes(result)), style="dim"))
    for part in parts:
        console.print(part)
        console.print()


def _heading(result: Result) -> Text:
    identity, settings = result.identity, result.identity.settings
    path = Path(identity.model)
    model = path.name if path.is_absolute() else identity.model  # a hub name as it is
    calibrated = f"calibrated on {counted(identity.calibration_texts, 'text')}"
    shared = {"any": ", any position", "mean": ", mean over positions"}
    measured = f"{settings.bins} bins, up to {settings.max_length} tokens"
    measured += f"{shared.get(settings.positions, '')}, {calibrated}"
    if asked := identity.prompting.in_words():
        measured += f"\n{visible(asked)}"
    by = f" by {counted(result.n_texts, 'text')}\n"
    parts = "".join(f"\nPart of {part}" for part in result.parts)
    alone = "" if any(site.heads for site in result.sites) else ALONE
    return Text.assemble("Coverage of ", (model, "bold"), by, (measured, "dim"), alone, parts)


def _narrow(result: Result) -> bool:
    """Return whether tables need narrow columns: with two criteria they still fit into 80."""
    return len(result.criteria) > 1


def _tests(result: Result, contexts: Iterable[ContextResult]) -> Table:
    columns = columns_of(result)
    titles = [
        column.short if _narrow(result) and column.short else column.title for column in columns
    ]
    table = plain_table(*titles, width=12, narrow=True)
    for context in contexts:
        # Text: brackets in a name are not markup.
        table.add_row(*(Text(shown(column.value(context))) for column in columns))
    table.add_section()
    table.add_row(*(shown(column.total(result)) for column in columns), style="bold")
    return table


def _other_shares(result: Result, sort: str) -> Table:
    """Return what each test covers by all criteria but the main one."""
    _, *others = result.criteria.values()
    table = plain_table("Test", *(f"{one.title} %" for one in others), width=12)
    for context in sorted_contexts(result, sort):
        shares = [display_percent(context.share_of_reachable(one.name)) for one in others]
        table.add_row(Text(shown(NAME.value(context))), *shares)
    table.add_section()
    totals = [display_percent(one.tally.share_of_reachable) for one in others]
    table.add_row("Total", *totals, style="bold")
    return table


def _other_layers(result: Result) -> Table:
    """Return what is covered of the words of each layer by all criteria but the main one."""
    _, *others = result.criteria.values()
    table = plain_table("Layer", *(f"{one.title} %" for one in others))
    table.columns[0].justify = "right"
    found: dict[int, dict[str, str]] = {}
    for one in others:
        for site in one.sites:
            if site.kind == "hidden":
                share = display_percent(site.count.share_of_reachable)
                found.setdefault(site.layer, {})[one.name] = share
    for layer, shares in sorted(found.items()):
        table.add_row(str(layer), *(shares.get(one.name, "") for one in others))
    return table


def _layers(result: Result, plain: bool) -> Table:
    """Return a row for each layer; a kind of site has columns for the criteria that look at it."""
    table = plain_table(narrow=_narrow(result))
    table.add_column("Layer", justify="right", min_width=5)
    by: list[dict[int, list[SiteResult]]] = []
    for name, kind in (("Words %", "hidden"), ("Attention %", "attention")):
        mine = [c for c in result.criteria.values() if any(s.kind == kind for s in c.sites)]
        if not mine:
            continue
        by.append(_by_layer(mine, kind))
        first = name if mine[0] is result.main else f"{name} {mine[0].title}"
        for column in (first, *(one.title for one in mine[1:])):
            table.add_column(column, justify="right", no_wrap=True)
        table.add_column("", no_wrap=True)
    for layer in sorted({layer for sites in by for layer in sites}):
        cells: list[RenderableType] = [str(layer)]
        for sites in by:
            empty = [""] * (1 + max(map(len, sites.values())))
            cells += _site_cells(sites[layer], plain) if layer in sites else empty
        table.add_row(*cells)
    return table


def _by_layer(criteria: Sequence[CriterionResult], kind: str) -> dict[int, list[SiteResult]]:
    """Return the sites of a kind by layer, one for each criterion."""
    found: dict[int, list[SiteResult]] = {}
    for site in (site for one in criteria for site in one.sites if site.kind == kind):
        found.setdefault(site.layer, []).append(site)
    return found


def _site_cells(sites: list[SiteResult], plain: bool) -> list[RenderableType]:
    """Return the cells of a site by every criterion that looks at it, the main one first."""
    width = BAR_WIDTH // 2 if len(sites) > 1 else BAR_WIDTH
    shares = [display_percent(site.count.share_of_reachable) for site in sites]
    return [*shares, _bar(sites[0].count, plain, width)]


def _bar(count: Count, plain: bool, width: int) -> Text:
    share = count.share_of_reachable
    filled = round(share * width)
    full, rest = ("#", ".") if plain else ("█", "░")
    return Text(full * filled, style="green").append(rest * (width - filled), style="dim")


def _heads(result: Result) -> Table:
    """Return, for each layer, the covered share of each head's reachable bins, in percent."""
    sites = [site for site in result.sites if site.heads]
    heads = range(max(len(site.heads) for site in sites))
    table = plain_table("Layer", *(str(head + 1) for head in heads), left=0)
    for site in sites:
        shares = [f"{head.share_of_reachable * 100:.0f}" for head in site.heads]
        table.add_row(str(site.layer), *shares)
    return table


def _totals(result: Result) -> Text:
    text = Text()
    for criterion in result.criteria.values():
        tally = criterion.tally
        known = CRITERIA.get(criterion.name.partition(":")[0])
        shown, compared = headline(result, criterion)
        text.append(shown, style="bold").append(f"{compared}\n  {of_all(criterion)}")
        if criterion is not result.main and known is not None:
            text.append(f": {known.summary}")
        for name, count in (("words", tally.word), ("attention", tally.attention)):
            if count.total:
                reachable = f"{count.reachable:>15,} reachable {cells_of(criterion)}"
                bins = f"{count.covered:>15,} of {reachable}"
                text.append(f"\n  {name:<10}{bins}, {count.total:,} in all", style="dim")
        text.append("\n")
    text.rstrip()
    return text
