"""The page of what judging has found: what it shows, and its chart. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil, floor
from pathlib import Path
from typing import Any

from mncover.data.writing import replacing
from mncover.report import findings as words
from mncover.report.findings import Found
from mncover.report.html import environment, render
from mncover.report.html_tests import ShownCase, ShownText, pieces
from mncover.selection.chance import random_interval
from mncover.selection.finder import Item
from mncover.selection.findings import Findings
from mncover.selection.found_groups import Group
from mncover.types import Text, __version__, visible

MOST_TEXTS = 6  # of one case
STEPS = 24  # of the band of chance
LEFT, TOP, RIGHT, BOTTOM = 40, 10, 390, 200  # of the chart's area

Point = tuple[float, float]


def write_page(found: Found, path: Path) -> None:
    """Write the page, as one file that needs no other."""
    with replacing(path) as temporary:
        temporary.write_bytes(render(environment(), "findings.html", o=page(found)))


def page(found: Found) -> dict[str, Any]:
    """Return what the template needs."""
    about = found.findings
    return {
        "model": visible(found.model),
        "file": found.file.name,
        "part": visible(found.part),
        "version": __version__,
        "about": about,
        "nothing": "" if about.judged else words.nothing_yet(about),
        "sentences": [words.compared(about), words.left(about)],
        "rests": words.rests_on(about),
        "cards": _cards(about),
        "chart": chart(about, found.fails) if about.judged else None,
        "area": (LEFT, TOP, RIGHT, BOTTOM),
        "groups": [(words.grouped(one), *_cases(one)) for one in found.groups],
        "rest": words.beside(found.rest) if found.rest.size else "",
        "expected": words.EXPECTED,
        "rounded": words.rounded,
    }


def _cards(about: Findings) -> list[tuple[str, str]]:
    """Return the headline figures, each with what it counts."""
    cards = [(f"of {about.judged:,} judged cases fail", f"{about.failing:,}")]
    for estimate, label in ((about.chance, "expected by chance"), (about.left, "failures left")):
        if estimate is not None:
            cards.append((f"{label} (95\N{NO-BREAK SPACE}% interval)", words.interval(estimate)))
    unjudged = ("cases without a verdict", f"{about.cases - about.judged:,}")
    return [*cards, unjudged]


def _cases(group: Group) -> tuple[list[Any], list[Any]]:
    """Return the typical and all failing cases of a group, each with how it was chosen."""
    typical, failing = (
        [(item.verdict, words.chosen(item), _shown(item)) for item in items]
        for items in (group.typical, group.failing)
    )
    return typical, failing


def _shown(item: Item) -> ShownCase:
    texts, alone = [_visible(text) for text in item.texts], len(item.texts) == 1
    shown = [
        ShownText(
            pieces(text, texts[0] if at else None),
            visible(item.answers[at]),
            100 * item.confidences[at],
            False if alone else None,  # of several texts a verdict does not say which is wrong
        )
        for at, text in enumerate(texts[:MOST_TEXTS])
    ]
    return ShownCase(item.case, shown, left_out=len(texts) - len(shown))


def _visible(text: Text) -> Text:
    return visible(text) if isinstance(text, str) else (visible(text[0]), visible(text[1]))


# The chart: failures against judged cases.


@dataclass(frozen=True, slots=True)
class Chart:
    """Paths in the coordinates of the drawing, and ticks with their places.

    `chance` and `band` are empty without an estimate. `batches` are where batches end.
    """

    found: str
    chance: str
    band: str
    across: list[tuple[float, int]]
    up: list[tuple[float, int]]
    batches: list[float]
    label: str


def chart(about: Findings, fails: Sequence[bool]) -> Chart:
    """Draw how many failures were found after each judged case, and what chance would find."""
    found = list(enumerate(accumulate(fails, initial=0)))
    middle, low, high = chance_band(about)
    most = max(y for line in (found, middle, high) for _, y in line)
    width, height = _round_up(len(fails)), _round_up(most)

    def place(point: Point) -> Point:
        x, y = point[0] / len(fails), point[1] / height[-1]
        return LEFT + x * (RIGHT - LEFT), BOTTOM - y * (BOTTOM - TOP)

    def drawn(points: Sequence[Point]) -> str:
        return "".join(f"{'L' if i else 'M'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points))

    *ends, judged = accumulate((batch.judged for batch in about.batches), initial=0)
    ends = ends[1:] if judged == len(fails) else []  # cases that no batch had came in between
    label = f"{about.failing:,} failures after {about.judged:,} judged cases"
    return Chart(
        found=drawn([place(point) for point in found]),
        chance=drawn([place(point) for point in middle]),
        band=drawn([place(point) for point in (*low, *reversed(high))]),
        across=[(place((n, 0))[0], n) for n in width if n <= len(fails)],
        up=[(place((0, n))[1], n) for n in height],
        batches=[place((n, 0))[0] for n in ends],
        label=label,
    )


def chance_band(about: Findings) -> tuple[list[Point], list[Point], list[Point]]:
    """Return what chance finds after some numbers of cases: expectation, low and high end.

    The band is as wide as draws vary and as the number of all failures is uncertain.
    """
    if about.chance is None or about.left is None:
        return [], [], []
    least, most = floor(about.failing + about.left.low), ceil(about.failing + about.left.high)
    steps = sorted({round(about.judged * step / STEPS) for step in range(STEPS)})
    low: list[Point] = [(n, random_interval(about.cases, least, n)[0]) for n in steps]
    high: list[Point] = [(n, random_interval(about.cases, most, n)[1]) for n in steps]
    n, chance = about.judged, about.chance
    return [(0, 0), (n, chance.value)], [*low, (n, chance.low)], [*high, (n, chance.high)]


def _round_up(most: float) -> list[int]:
    """Return at most six round numbers from 0 to at least `most`, equally far apart."""
    steps = (digit * 10**power for power in range(12) for digit in (1, 2, 5))
    step = next(step for step in steps if step * 5 >= most)
    return [step * i for i in range(max(1, ceil(most / step)) + 1)]
