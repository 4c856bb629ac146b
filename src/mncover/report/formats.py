"""Reports on a data file: a registry. A new one is a file here and a line below. No torch here."""

from __future__ import annotations

from functools import partial

from mncover.errors import SettingsError
from mncover.report import jsonreport, junit, markdown, text
from mncover.report.columns import Report

REPORTS: dict[str, Report] = {
    "text": Report("tables for a terminal", text.show),
    "markdown": Report("totals and tests as Markdown", markdown.show),
    "github": Report("Markdown with the tests folded", partial(markdown.show, folded=True)),
    "json": Report("every number, for programs", jsonreport.show),
    "junit": Report("the judged cases as JUnit XML", junit.show),
}


def find_report(kind: str) -> Report:
    """Return a report by name; refuse one that there is not."""
    if kind not in REPORTS:
        raise SettingsError(f"there is no format {kind!r}; there are {', '.join(REPORTS)}.")
    return REPORTS[kind]
