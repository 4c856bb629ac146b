"""The page of gaps: a map of tests and traffic, and tables. No torch here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mncover.data.writing import replacing
from mncover.report import gaps as words
from mncover.report.html import environment, render
from mncover.selection.gap_groups import Flagged, Gaps
from mncover.types import __version__, counted, display_percent, shorten, visible

LONGEST, ON_MAP = 300, 160  # characters of a text
KINDS = ("test", "within", "beyond", "flagged")
GRID = 10_000  # places across the map
MOST_SHOWN = 50  # flagged texts of a group


def write_page(found: Gaps, path: Path) -> None:
    """Write the page, as one file that needs no other."""
    with replacing(path) as temporary:
        temporary.write_bytes(render(environment(), "gaps.html", o=page(found)))


def page(found: Gaps) -> dict[str, Any]:
    """Return what the template needs."""
    within, beyond = found.within, found.flagged_lines / found.drawn
    low, high = (display_percent(share, 1) for share in (within.low, within.high))
    space = "\N{NO-BREAK SPACE}"
    cards = [
        (f"within reach (95{space}% interval {low} to {high})", display_percent(within.value, 1)),
        ("of the traffic flagged", display_percent(beyond, 1)),
        ("texts flagged", f"{len(found.flagged):,}"),
        ("tests without traffic", f"{len(found.unvisited):,} of {len(found.tests):,}"),
    ]
    percent = [(label, f"{value}{space}%") for label, value in cards[:2]]
    return {
        "model": visible(Path(found.model).name or found.model),
        "version": __version__,
        "sentences": [words.looked_at(found), words.headline(found), words.flagged_words(found)],
        "cards": [*percent, *cards[2:]],
        "groups": [
            (words.group_words(number, group), *_texts(found, number - 1))
            for number, group in enumerate(found.groups, start=1)
        ],
        "tests": [(visible(test.name), test) for test in found.tests],
        "map": embedded(found),
    }


def _texts(found: Gaps, group: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Return the typical texts of a group, the strangest ones, and how many are left out."""
    mine = [one for one in found.flagged if one.group == group]
    typical = [_shown(one) for one in found.groups[group].typical]
    return typical, [_shown(one) for one in mine[:MOST_SHOWN]], max(0, len(mine) - MOST_SHOWN)


def _shown(one: Flagged) -> dict[str, Any]:
    return {
        "text": visible(shorten(one.text, LONGEST)),
        "answer": f"{visible(one.answer)} {100 * one.confidence:.0f} %" if one.answer else "",
        "about": f"{counted(one.count, 'line')}, ratio {one.ratio:.2f}, p {one.p_value:.2g}",
        "near": visible(shorten(one.near, LONGEST)),
        "test": visible(one.test),
    }


def embedded(found: Gaps) -> str:
    """Return the map as JSON that may stand inside a script element: no `<` ends it early.

    Places are whole numbers on a grid, so that 50,000 texts make a page of a few megabytes.
    """
    xs, ys = _scaled([s.x for s in found.spots]), _scaled([s.y for s in found.spots])
    content = {
        "x": xs,
        "y": ys,
        "kind": [KINDS.index(spot.kind) for spot in found.spots],
        "group": [spot.group for spot in found.spots],
        "text": [visible(shorten(spot.text, ON_MAP)) for spot in found.spots],
    }
    plain = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
    return plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _scaled(values: list[float]) -> list[int]:
    low, high = min(values, default=0.0), max(values, default=1.0)
    return [round(GRID * (value - low) / ((high - low) or 1.0)) for value in values]
