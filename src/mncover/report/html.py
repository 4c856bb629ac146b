"""The report as web pages in a folder. The one place that imports Jinja2. No torch here."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from jinja2 import Environment, PackageLoader

from mncover.data.results import ADDS_LITTLE_AT
from mncover.data.store import CoverageData
from mncover.data.writing import replacing
from mncover.errors import SettingsError
from mncover.report.html_overview import overview
from mncover.report.html_tests import PageMaker, Places, earlier_verdicts, page_name
from mncover.selection.cases import cases_by_run
from mncover.selection.planned_runs import full_result
from mncover.suites.judging import result_of
from mncover.types import counted, display_percent, visible

MARK = ".mncover-html"  # tells a folder of ours from one of the user's, and lists what is ours
_PAGE = re.compile(r"index\.html|tests/[0-9]+\.html")  # nothing else in the list is believed

Since = tuple[Path, CoverageData]


def write_html(
    data: CoverageData,
    file: Path,
    folder: Path,
    adds_little_at: float = ADDS_LITTLE_AT,
    since: Since | None = None,
) -> Path:
    """Write the report of a data file to a folder, and return its first page.

    `since` is an earlier data file to compare with. Pages of an earlier report are replaced, or
    deleted if there are fewer now; files of others stay. A folder without a report is refused.
    """
    if folder.exists() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise SettingsError(
            f"{folder}: the folder exists and is not an mncover report; choose another."
        )
    pages = _pages(data, file, adds_little_at, since)
    before = _listed(folder)
    for name in pages:
        if name not in before and (folder / name).exists():
            raise SettingsError(f"{folder / name}: not of an earlier report; choose another.")
    _list(folder, {*before, *pages})  # first: whoever comes after a kill must know what is ours
    for name, content in pages.items():
        with replacing(folder / name) as temporary:
            temporary.write_bytes(content())
    for name in before - pages.keys():
        (folder / name).unlink(missing_ok=True)
    _list(folder, set(pages))
    return folder / "index.html"


def _listed(folder: Path) -> set[str]:
    """Return the pages that earlier reports wrote into a folder."""
    try:
        lines = (folder / MARK).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return set()
    return {line for line in lines if _PAGE.fullmatch(line)}


def _list(folder: Path, names: set[str]) -> None:
    lines = ["written by mncover html; the next report replaces these pages", *sorted(names)]
    with replacing(folder / MARK) as temporary:
        temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _pages(
    data: CoverageData, file: Path, adds_little_at: float, since: Since | None
) -> dict[str, Callable[[], bytes]]:
    """Return what makes every page, by name; all of them at once would fill the memory."""
    verdicts = {} if since is None else earlier_verdicts(cases_by_run(since[1]))
    runs = cases_by_run(data)
    places = Places(runs)
    makers = [PageMaker(cases, adds_little_at, verdicts, places) for cases in runs]
    found = [page for maker in makers for page in maker.pages()]
    pages = [(f"tests/{page_name(number)}", page) for number, page in enumerate(found, start=1)]
    earlier = None if since is None else result_of(since[1], adds_little_at)
    then = "" if since is None else since[0].name
    content = overview(data, full_result(data, adds_little_at), pages, earlier, then)
    made = environment()
    tests = {name: partial(render, made, "test.html", o=content, page=p) for name, p in pages}
    return {"index.html": partial(render, made, "index.html", o=content, file=file), **tests}


def _visible(value: Any) -> Any:
    """Write out control characters, also those that reorder what is shown."""
    plain = type(value) is str or isinstance(value, PurePath)  # not Markup, which is ours
    return visible(str(value)) if plain else value


def environment() -> Environment:
    """Return an environment that escapes whatever a suite contains."""
    loader = PackageLoader("mncover.report")
    environment = Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_visible
    )
    environment.filters |= {
        "one": lambda number: f"{number:.1f}",
        "three": lambda number: f"{number:.3f}",
        "percent": lambda share: f"{100 * share:.1f}",
        "display": display_percent,
        "thousands": lambda number: f"{number:,}",
        "counted": counted,
    }
    return environment


def render(environment: Environment, template: str, **values: Any) -> bytes:
    """Return a page made from a template."""
    # Lone surrogates cannot be written as UTF-8, and mean nothing to a reader.
    return environment.get_template(template).render(**values).encode("utf-8", errors="replace")
