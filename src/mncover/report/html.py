"""The report as web pages in a folder. The one place that imports Jinja2. No torch here."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from mncover.data.results import REDUNDANT_AT, Result, summarize
from mncover.data.store import CoverageData
from mncover.errors import SettingsError
from mncover.report.html_overview import Card, overview
from mncover.report.html_tests import PageMaker, TestPage, earlier_verdicts
from mncover.selection.cases import cases_by_run
from mncover.suites.judging import judge_data
from mncover.types import display_percent

MARK = ".mncover-html"  # tells a folder of ours from one of the user's


def write_html(
    data: CoverageData,
    file: Path,
    folder: Path,
    redundant_at: float = REDUNDANT_AT,
    since: tuple[Path, CoverageData] | None = None,
) -> Path:
    """Write the report of a data file to a folder, and return its first page.

    `since` is an earlier data file to compare with. An existing folder is replaced if it holds an
    earlier report, and refused if it holds anything else.
    """
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise SettingsError(
            f"{folder}: the folder exists and is not an mncover report; choose another."
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".mncover-") as place:
        made = Path(place) / "html"
        _write(data, file, made, redundant_at, since)
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    return folder / "index.html"


def _write(
    data: CoverageData,
    file: Path,
    folder: Path,
    redundant_at: float,
    since: tuple[Path, CoverageData] | None,
) -> None:
    (folder / "tests").mkdir(parents=True)
    (folder / MARK).write_text("written by mncover html; the next report replaces this folder\n")
    result, environment = _judged(data, redundant_at), _environment()
    earlier = None if since is None else earlier_verdicts(cases_by_run(since[1]))
    before = None if since is None else _judged(since[1], redundant_at)
    then = "" if since is None else since[0].name
    makers = [PageMaker(cases, redundant_at, earlier) for cases in cases_by_run(data)]
    found = [page for maker in makers for page in maker.pages()]
    pages = [(f"tests/{number:04d}.html", page) for number, page in enumerate(found, start=1)]
    content = overview(data, result, file, pages, before, then)
    _render(environment, "index.html", folder / "index.html", o=content)
    for address, page in pages:
        _render(
            environment,
            "test.html",
            folder / address,
            page=page,
            cards=_cards(page),
            curve=_curve(page.curve),
            criterion=result.main.title,
            since=then,
            redundant_at=content["redundant_at"],
        )


def _judged(data: CoverageData, redundant_at: float) -> Result:
    return summarize(data, tuple(judge_data(data)), redundant_at)


def _environment() -> Environment:
    """Return an environment that escapes whatever a suite contains."""
    environment = Environment(
        loader=PackageLoader("mncover.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "one": lambda number: f"{number:.1f}",
        "three": lambda number: f"{number:.3f}",
        "percent": lambda share: f"{100 * share:.1f}",
        "thousands": lambda number: f"{number:,}",
    }
    return environment


def _render(environment: Environment, template: str, path: Path, **values: Any) -> None:
    # Lone surrogates cannot be written as UTF-8, and mean nothing to a reader.
    content = environment.get_template(template).render(**values)
    path.write_bytes(content.encode("utf-8", errors="replace"))


def _cards(page: TestPage) -> list[Card]:
    cards = [Card("cases", f"{page.cases:,}")]
    if page.judged:
        cards.append(Card(f"of {page.judged:,} judged fail", f"{page.failing:,}"))
        cards.append(Card("failing, %", display_percent(page.failing / page.judged)))
    if page.redundant is not None:
        cards.append(Card("redundant", f"{page.redundant:,}"))
    return cards


def _curve(points: Sequence[tuple[int, float]]) -> dict[str, str] | None:
    """Return a curve as the path of a drawing of 560 by 180."""
    if not points:
        return None
    most, texts = max(points[-1][1], 1e-12), points[-1][0]
    steps = [(0, 0.0), *points]
    path = "".join(
        f"{'L' if i else 'M'}{56 + n / texts * 496:.1f} {150 - share / most * 142:.1f}"
        for i, (n, share) in enumerate(steps)
    )
    return {"path": path, "end": f"{display_percent(points[-1][1])} %", "texts": f"{texts:,}"}
