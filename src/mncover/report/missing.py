"""What no text reaches, for people to read. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from rich.console import Console
from rich.table import Table
from rich.text import Text as RichText

from mncover.data.calibration import to_reachable
from mncover.data.identity import Identity
from mncover.data.results import Result
from mncover.report.tables import plain_table
from mncover.selection.missing import Gap, Missing, Reaching
from mncover.types import Text, display_percent, shorten

WORST = 8  # of each kind that are named


def print_missing(missing: Missing, result: Result, console: Console) -> None:
    """Print what is missing in all, what nothing reaches, and where most is missing."""
    criterion = result.criteria[missing.criterion.name]
    share, kinds = 1 - criterion.tally.share_of_reachable, []
    for name, count in (("words", criterion.tally.word), ("attention", criterion.tally.attention)):
        if not count.total:
            continue
        kinds.append(f"{name} {display_percent(1 - count.share_of_reachable)} %")
    heading = RichText.assemble(("Missing", "bold"), f": {display_percent(share)} % of the ")
    heading.append(f"reachable bins of {criterion.title} are hit by no text ({', '.join(kinds)}).")
    for part in (heading, RichText("\n".join(unreached_words(missing))), "", _worst(missing), ""):
        console.print(part)


def unreached_words(missing: Missing) -> list[str]:
    """Name the layers, heads and positions that no text reaches."""
    found = missing.unreached
    positions = [gap.part or 0 for gap in found if gap.layer is None]
    parts = [_named(gap) for gap in found if gap.layer is not None]
    lines = [f"No text reaches {', '.join(parts)}."] if parts else []
    if positions and len(missing.positions) > 1:
        there = sum(gap.reachable for gap in found if gap.layer is None)
        left = sum(gap.missing for gap in missing.positions)
        lines.append(
            f"No text reaches {_spans(positions)}, which calibration texts reach: "
            f"{display_percent(there / left, 1)} % of the missing bins of words."
        )
    return lines or ["Every layer, head and position is reached by some text."]


def _named(gap: Gap) -> str:
    return f"layer {gap.layer}" + ("" if gap.part is None else f" head {gap.part + 1}")


def _spans(positions: Sequence[int]) -> str:
    """Return positions in words, neighbours together.

    >>> _spans([3, 7, 8, 9])
    'positions 3, 7 to 9'
    """
    spans: list[list[int]] = []
    for one in positions:
        if spans and one == spans[-1][1] + 1:
            spans[-1][1] = one
        else:
            spans.append([one, one])
    words = [str(a) if a == b else f"{a} to {b}" for a, b in spans]
    return f"position{'s' if len(positions) > 1 else ''} {', '.join(words)}"


def _worst(missing: Missing) -> Table:
    """Return the layers, heads and positions with the largest missing shares, side by side."""
    table = plain_table(left=0, narrow=False)
    columns: list[list[tuple[str, str]]] = []
    for title, gaps in (
        ("Words of", missing.layers),
        ("Attention of", missing.heads),
        ("Words at", missing.positions if len(missing.positions) > 1 else ()),
    ):
        table.add_column(title, no_wrap=True)
        table.add_column("missing %", justify="right", no_wrap=True)
        worst = sorted((gap for gap in gaps if gap.missing), key=lambda gap: -gap.share)[:WORST]
        names = [f"position {g.part}" if g.layer is None else _named(g) for g in worst]
        columns.append([(n, display_percent(g.share)) for n, g in zip(names, worst, strict=True)])
    for row in zip_longest(*columns, fillvalue=("", "")):
        table.add_row(*(cell for pair in row for cell in pair))
    return table


def print_reaching(
    found: Sequence[Reaching],
    texts: Sequence[Text],
    identity: Identity,
    criterion: str,
    console: Console,
) -> None:
    """Print the training texts that would reach most of what is missing."""
    if not found:
        console.print("No training text reaches anything that is missing.")
        return
    scale = to_reachable(identity, identity.criterion(criterion))
    table = plain_table("Would add %", "", left=0)
    table.columns[1].justify = "left"
    table.columns[1].no_wrap = False
    table.columns[1].header = f"Training text (all {len(found):,} together: "
    table.columns[1].header += f"{display_percent(scale * sum(one.adds for one in found))} %)"
    for one in found:
        text = RichText(shorten(texts[one.place], 200))
        table.add_row(display_percent(scale * one.adds), text)
    console.print(table)
