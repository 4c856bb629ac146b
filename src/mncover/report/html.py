"""The report as web pages in a folder. The one place that imports Jinja2. No torch here."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader

from mncover.data.results import ADDS_LITTLE_AT
from mncover.data.store import CoverageData
from mncover.errors import SettingsError
from mncover.report.html_overview import overview
from mncover.report.html_tests import PageMaker, earlier_verdicts, page_name, places_of
from mncover.selection.cases import cases_by_run
from mncover.selection.estimates import full_result
from mncover.suites.judging import result_of
from mncover.types import counted, display_percent

MARK = ".mncover-html"  # tells a folder of ours from one of the user's

Since = tuple[Path, CoverageData]


def write_html(
    data: CoverageData,
    file: Path,
    folder: Path,
    adds_little_at: float = ADDS_LITTLE_AT,
    since: Since | None = None,
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
        _write(data, file, made, adds_little_at, since)
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    return folder / "index.html"


def _write(
    data: CoverageData, file: Path, folder: Path, adds_little_at: float, since: Since | None
) -> None:
    (folder / "tests").mkdir(parents=True)
    (folder / MARK).write_text("written by mncover html; the next report replaces this folder\n")
    verdicts = {} if since is None else earlier_verdicts(cases_by_run(since[1]))
    runs = cases_by_run(data)
    places = places_of(runs)
    makers = [PageMaker(cases, adds_little_at, verdicts, places) for cases in runs]
    found = [page for maker in makers for page in maker.pages()]
    pages = [(f"tests/{page_name(number)}", page) for number, page in enumerate(found, start=1)]
    earlier = None if since is None else result_of(since[1], adds_little_at)
    then = "" if since is None else since[0].name
    content = overview(data, full_result(data, adds_little_at), pages, earlier, then)
    made = environment()
    render(made, "index.html", folder / "index.html", o=content, file=file)
    for address, page in pages:
        render(made, "test.html", folder / address, o=content, page=page)


def environment() -> Environment:
    """Return an environment that escapes whatever a suite contains."""
    loader = PackageLoader("mncover.report")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {
        "one": lambda number: f"{number:.1f}",
        "three": lambda number: f"{number:.3f}",
        "percent": lambda share: f"{100 * share:.1f}",
        "display": display_percent,
        "thousands": lambda number: f"{number:,}",
        "counted": counted,
    }
    return environment


def render(environment: Environment, template: str, path: Path, **values: Any) -> None:
    """Write a page from a template."""
    # Lone surrogates cannot be written as UTF-8, and mean nothing to a reader.
    content = environment.get_template(template).render(**values)
    path.write_bytes(content.encode("utf-8", errors="replace"))
