"""What judging has found: on the terminal and as JSON. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.console import Group as Lines
from rich.table import Table
from rich.text import Text

from mncover.report.tables import plain_table
from mncover.selection.finder import Finder, Item
from mncover.selection.findings import MIN_DRAWN, Estimate, Findings
from mncover.selection.found_groups import Group, group_failures, judged_in_order
from mncover.types import __version__, display_percent, shorten, visible

FEW_DRAWN = 20  # random cases, below which the width of the interval is explained
FORMAT_VERSION = 1
LONGEST = 140  # characters of a text
MOST_TEXTS = 3  # of one case


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that a report of findings shows.

    `fails` says of every judged case whether it fails, in the order of asking; `rest` are the
    cases that are in no group. If only a part of a suite was run, `part` says which.
    """

    file: Path
    model: str
    findings: Findings
    groups: tuple[Group, ...]
    rest: Group
    fails: list[bool]
    part: str = ""


def found_by(finder: Finder, file: Path) -> Found:
    """Return what a finder has found in a data file."""
    groups, rest = group_failures(finder)
    model, order = finder.data.identity.model, judged_in_order(finder)
    part, name = finder.data.runs[0].part, Path(model).name or model
    return Found(file, name, finder.findings(), groups, rest, order, part)


# In words, for the terminal and the page.


def rounded(value: float) -> str:
    """Return a number of failures: whole from 10 on, else with one decimal unless it is 0.

    >>> rounded(3.14159), rounded(1234.5), rounded(0)
    ('3.1', '1,234', '0')
    """
    return f"{value:.1f}" if 0 < value < 10 else f"{value:,.0f}"


def interval(of: Estimate) -> str:
    """Return the whole numbers that an interval reaches.

    >>> interval(Estimate(2.5, 1.2, 4.0))
    '1 to 4'
    """
    return f"{math.floor(of.low):,} to {math.ceil(of.high):,}"


def nothing_yet(found: Findings) -> str:
    """Say that there is no verdict, and what to do."""
    if found.asked:
        return f"{found.asked:,} cases were chosen, and none has a verdict yet: judge some of them."
    return "No case has a verdict yet: `mncover next` chooses cases to judge."


def compared(found: Findings) -> str:
    """Say what chance would have found."""
    if found.chance is None:
        return ""
    says = "which is within that interval"
    if not found.chance.low <= found.failing <= found.chance.high:
        says = f"which is {'more' if found.failing > found.chance.high else 'fewer'} than by chance"
    return (
        f"As many cases drawn at random would hold about {rounded(found.chance.value)} failures "
        f"(95 % interval {interval(found.chance)}); judging found {found.failing:,}, {says}."
    )


def left(found: Findings) -> str:
    """Say how many failures are left, or why that cannot be estimated."""
    if found.left is None:
        return (
            "How many are left cannot be estimated yet: that takes verdicts on at least "
            f"{MIN_DRAWN} cases that were drawn at random, and there are {found.drawn}. Judge the "
            "rest of the last batch, or another one; every batch has some."
        )
    few = " It is wide because few cases were drawn at random; every batch adds some."
    return (
        f"{interval(found.left)} failures are left among the {found.cases - found.judged:,} cases "
        f"without a verdict (95 % interval; point estimate {rounded(found.left.value)})."
        + (few if found.drawn < FEW_DRAWN else "")
    )


def rests_on(found: Findings) -> str:
    """Say what the estimate rests on."""
    if found.left is None:
        return ""
    chosen = found.judged - found.drawn
    others = (
        f" The other {chosen:,} were not drawn at random, so the plain failure rate "
        f"({display_percent(found.failing / found.judged, 1)} %) would mislead."
    )
    return (
        f"The estimate rests on the {found.drawn:,} judged cases that were drawn at random with "
        "known chances, corrected by what was predicted." + (others if chosen else "")
    )


def grouped(group: Group) -> str:
    """Say how a group went."""
    more = "" if group.expected is None else f", {rounded(group.expected)} more failures expected"
    size = f"{group.size:,} {'case' if group.size == 1 else 'cases'} in the pool"
    return f"{len(group.failing):,} of {group.judged:,} judged fail; {size}{more}"


def beside(rest: Group) -> str:
    """Say how it is with the cases that are in no group."""
    more = "" if rest.expected is None else f", {rounded(rest.expected)} failures expected"
    return f"In no group: {rest.size:,} cases, {rest.judged:,} judged, none failing{more}."


def chosen(item: Item) -> str:
    """Say how a case came to be judged."""
    if item.why == "given":
        return "judged without being asked about"
    how = {
        "start": "to start with",
        "explore": "to explore",
        "likely": "likely to fail",
        "survey": "at random",
    }
    share = f" ({100 * item.expected:.0f} %)" if item.why == "likely" else ""
    return f"batch {item.batch}, {how[item.why]}{share}"


EXPECTED = (
    "Expected: what is predicted for the cases without a verdict. Predictions rest on cases "
    "that were not drawn at random, so these numbers need not add up to the estimate."
)


# On the terminal.


def print_found(found: Found, console: Console) -> None:
    """Print what was found, how each batch went, and the groups of failures."""
    for part in _parts(found):
        console.print(part)
        console.print()


def _parts(found: Found) -> Iterator[RenderableType]:
    about = found.findings
    file = visible(str(found.file))
    part = f"\nPart of a suite: {visible(found.part)}" if found.part else ""
    yield Text.assemble("Failures found of ", (visible(found.model), "bold"), f" in {file}{part}")
    if not about.judged:
        yield Text(nothing_yet(about))
        return
    yield _headline(about)
    if about.batches:
        yield _batches(about)
    for number, group in enumerate(found.groups, start=1):
        yield _group(number, group)
    if found.groups:
        if found.rest.size:
            yield Text(beside(found.rest))
        yield Text(EXPECTED, style="dim")


def _headline(found: Findings) -> Text:
    text = Text(f"{found.failing:,} of {found.judged:,} judged cases fail", style="bold")
    text.append(f"; there are {found.cases:,} cases.", style="not bold")
    for line in (compared(found), left(found)):
        text.append(f"\n{line}" if line else "", style="not bold")
    if found.left is not None:
        text.append(f"\n{rests_on(found)}", style="not bold dim")
    return text


def _batches(found: Findings) -> Table:
    table = plain_table("Batch", "Cases", "Judged", "Failing", "Expected")
    for one in found.batches:
        counts = (one.number, one.cases, one.judged, one.failing)
        table.add_row(
            *(f"{count:,}" for count in counts),
            "" if one.expected is None else rounded(one.expected),
        )
    return table


def _group(number: int, group: Group) -> Lines:
    title = Text.assemble((f"Group {number}: ", "bold"), grouped(group))
    return Lines(title, _typical(group))


def _typical(group: Group) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for item in group.typical:
        for at, text in enumerate(item.texts[:MOST_TEXTS]):
            place = "" if at else f"case {item.case}"
            table.add_row(place, Text(answered(item, at)), Text(visible(shorten(text, LONGEST))))
        if len(item.texts) > MOST_TEXTS:
            table.add_row("", "", f"and {len(item.texts) - MOST_TEXTS:,} more texts")
    return table


def answered(item: Item, at: int) -> str:
    """Return the answer to one of a case's texts, with its probability."""
    answer = visible(item.answers[at])
    return f"{answer} {100 * item.confidences[at]:.0f} %" if answer else "-"


# For programs.


def to_json(found: Found) -> dict[str, Any]:
    """Return everything as plain values; docs/commands/found.md explains every field."""
    about = found.findings
    names = ("cases", "asked", "judged", "failing", "drawn")
    return {
        "format": FORMAT_VERSION,
        "version": __version__,
        "model": found.model,
        "part": found.part or None,
        **{name: getattr(about, name) for name in names},
        "chance": None if about.chance is None else asdict(about.chance),
        "left": None if about.left is None else asdict(about.left),
        "batches": [asdict(batch) for batch in about.batches],
        "groups": [_group_to_json(group) for group in found.groups],
        "rest": {name: getattr(found.rest, name) for name in ("size", "judged", "expected")},
    }


def _group_to_json(group: Group) -> dict[str, Any]:
    return {
        "size": group.size,
        "judged": group.judged,
        "failing": len(group.failing),
        "expected": group.expected,
        "typical": [item.case for item in group.typical],
        "cases": [asdict(item) for item in group.failing],
    }
