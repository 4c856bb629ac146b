"""Reports on a data file: a registry. A new one is a file here and a line below. No torch here."""

from __future__ import annotations

from functools import partial

from mncover.report import jsonreport, junit, markdown, text
from mncover.report.columns import Report

REPORTS: dict[str, Report] = {
    "text": Report("tables for a terminal", text.show),
    "markdown": Report("totals and tests as Markdown", markdown.show),
    "github": Report("Markdown with the tests folded", partial(markdown.show, folded=True)),
    "json": Report("every number, for programs", jsonreport.show),
    "junit": Report("the cases of test suites as JUnit XML", junit.show),
}
