"""What can be said of a measurement without its model: numbers, tables, reports, pages, plots.

`Coverage` does this and measures. No torch here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from mncover.data import datafile
from mncover.data.results import ADDS_LITTLE_AT, Result
from mncover.data.store import CoverageData
from mncover.report import plots
from mncover.report.columns import View
from mncover.report.formats import find_report
from mncover.report.frames import Tables
from mncover.report.screen import Screen
from mncover.selection.planned_runs import full_result


class Reading:
    """The half of `Coverage` that reads."""

    @property
    def data(self) -> CoverageData:
        """Everything measured."""
        raise NotImplementedError

    def result(self, adds_little_at: float = ADDS_LITTLE_AT) -> Result:
        """Return the numbers: each criterion by kind, layer, head and context.

        A text adds little if its novelty is at most `adds_little_at`.
        """
        found = full_result(self.data, adds_little_at)
        return replace(found, tables=Tables(self.data))

    def report(
        self,
        format: str = "text",
        *,
        sort: str = "suite",
        heads: bool = False,
        failures: int = 0,
        adds_little_at: float = ADDS_LITTLE_AT,
        file: TextIO | None = None,
    ) -> None:
        """Print the report, or write it to an open file, as `mncover report` does.

        `format` is one of `mncover.report.REPORTS`, `failures` how many failing cases of each
        test are shown.
        """
        found = find_report(format)
        view = View(self.data, self.result(adds_little_at), sort, heads, failures)
        found.show(view, Screen(file=file))

    def html(
        self,
        folder: str | Path = "mncover-html",
        *,
        since: str | Path | None = None,
        adds_little_at: float = ADDS_LITTLE_AT,
    ) -> Path:
        """Write the report as web pages to a folder, as `mncover html` does.

        `since` is an earlier data file to compare with. Returns the first page.
        """
        from mncover.report.html import write_html  # late: it brings Jinja2

        earlier = None if since is None else (Path(since), datafile.read(Path(since)))
        source = Path("a Python program")
        return write_html(self.data, source, Path(folder), adds_little_at, earlier)

    def plot_contexts(self) -> Any:
        """Return a matplotlib figure of what each test covers, and what only it covers."""
        return plots.contexts_figure(self.result())

    def plot_layers(self) -> Any:
        """Return a matplotlib figure of the coverage of words and attention in each layer."""
        return plots.layers_figure(self.result())

    def plot_heads(self) -> Any:
        """Return a matplotlib figure of the coverage of every attention head."""
        return plots.heads_figure(self.result())

    def save(self, path: str | Path) -> None:
        """Write everything measured to a data file, replacing it in one step."""
        datafile.write(self.data, Path(path))
