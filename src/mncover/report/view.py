"""What a report is given, and what a report is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console

from mncover.data.results import Result
from mncover.data.store import CoverageData


@dataclass(frozen=True, slots=True)
class View:
    """A data file with its numbers, and what to show of it; a report ignores what it cannot show.

    `sort` is an order of contexts (`columns.SORTS`), `heads` adds every attention head,
    `failures` is how many failing cases of each test to show, `texts` adds a row for each text,
    and `pretty` indents.
    """

    data: CoverageData
    result: Result
    sort: str = "suite"
    heads: bool = False
    failures: int = 0
    texts: bool = False
    pretty: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a data file: a summary for `--help`, and what prints it."""

    summary: str
    show: Callable[[View, Console], None]


def print_verbatim(text: str, console: Console) -> None:
    """Print a text for programs: nothing is wrapped, highlighted or taken for markup."""
    if not console.quiet:
        print(text, file=console.file)
