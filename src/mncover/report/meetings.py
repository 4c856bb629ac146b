"""Pairs of words with their scores, and which words of a text may meet, for people to read."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mncover.data.identity import Scored
from mncover.data.meetings import APART, MEETS, UNSEEN, Meeting

MARKS = {MEETS: "●", UNSEEN: "○", APART: "·"}
LEGEND = {
    MEETS: "they may meet",
    UNSEEN: "they may, unseen in training",
    APART: "they may not",
}


def pair_lists(both: tuple[Sequence[tuple[str, float, int]], ...]) -> Table:
    """Return the pairs with the highest scores, beside those with the lowest."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("most important pairs", "least important pairs"):
        table.add_column(title, overflow="fold")
        table.add_column("score", justify="right", no_wrap=True)
        table.add_column("seen", justify="right", no_wrap=True)
    for row in zip(*both, strict=True):
        cells = [(Text(name), f"{score:.3f}", f"{seen:,}") for name, score, seen in row]
        table.add_row(*(cell for side in cells for cell in side))
    return table


def draw_meeting(meeting: Meeting, scored: Sequence[Scored] = ()) -> RenderableType:
    """Return a triangle: each word stands at the end of a line of marks for the words before it.

    The mark under a word, in the line of another, is for the two of them.
    """
    drawing = Text(no_wrap=True, overflow="ignore")
    for word, kept, line in meeting.rows():
        drawing.append("  " + "".join(f"{MARKS[one]} " for one in line))
        drawing.append(f"{word}\n" if kept else f"({word})\n", "bold" if kept else "dim")
    used = set("".join(meeting.pairs))
    legend = [f"{MARKS[kind]} {LEGEND[kind]}" for kind in LEGEND if kind in used]
    if "0" in meeting.kept:
        legend.append("(word) is dropped by the word mask")
    parts: list[RenderableType] = [drawing, Text("; ".join(legend), style="dim")]
    if scored:
        lists = ", ".join(f"{name} {score:.3f}" for name, score in scored)
        parts.append(Text(f"Highest scores: {lists}", style="dim"))
    return Group(*parts)
