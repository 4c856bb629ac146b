"""Write the pages into a folder. The one place that imports Jinja2."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from mncover.data.display import display_percent
from mncover.data.results import REDUNDANT_AT, Result, summarize
from mncover.data.store import CoverageData
from mncover.errors import SettingsError
from mncover.report.html_overview import Card, heatmaps, make_overview
from mncover.report.html_tests import PageMaker, TestPage, earlier_verdicts
from mncover.selection.cases import cases_by_run
from mncover.suites.judging import judge_data

MARK = ".mncover-html"  # tells a folder of ours from one of the user's


def write_html(
    data: CoverageData,
    file: Path,
    folder: Path,
    redundant_at: float = REDUNDANT_AT,
    since: tuple[Path, CoverageData] | None = None,
) -> Path:
    """Write the report of a data file to a folder, and return its first page.

    `since` is an earlier data file to compare with. A folder that is there is replaced if it is
    an earlier report, and refused if it is anything else.
    """
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise SettingsError(f"{folder}: it is there and is no report of mncover; name another.")
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
    (folder / MARK).write_text("written by mncover html; it is replaced by the next report\n")
    earlier = None if since is None else earlier_verdicts(cases_by_run(since[1]))
    found = [
        page
        for cases in cases_by_run(data)
        for page in PageMaker(cases, redundant_at, earlier).pages()
    ]
    pages = [(f"tests/{number:04d}.html", page) for number, page in enumerate(found, start=1)]
    environment = _environment()
    then = "" if since is None else since[0].name
    overview = make_overview(
        _summary(data, redundant_at),
        file,
        pages,
        heatmaps(data),
        None if since is None else _summary(since[1], redundant_at),
        then,
    )
    _render(environment, "index.html", folder / "index.html", o=overview)
    for address, page in pages:
        _render(
            environment,
            "test.html",
            folder / address,
            page=page,
            cards=_cards(page),
            curve=_curve(page.curve),
            since=then,
            redundant_at=f"{100 * redundant_at:g}",
        )


def _summary(data: CoverageData, redundant_at: float) -> Result:
    return summarize(data, tuple(judge_data(data)), redundant_at)


def _environment() -> Environment:
    """Return an environment that escapes everything that a suite brings."""
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
    """Return a curve as the path of a picture of 560 by 180."""
    if not points:
        return None
    most, texts = max(points[-1][1], 1e-12), points[-1][0]
    steps = [(0, 0.0), *points]
    path = "".join(
        f"{'L' if i else 'M'}{56 + n / texts * 496:.1f} {150 - share / most * 142:.1f}"
        for i, (n, share) in enumerate(steps)
    )
    return {"path": path, "end": f"{display_percent(points[-1][1])} %", "texts": f"{texts:,}"}
