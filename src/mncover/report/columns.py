"""What a report is given to show, and the columns of the table of tests.

Text, Markdown and HTML show the columns, and `--sort` goes by them. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from mncover.criteria import CRITERIA
from mncover.data.results import ContextResult, Result
from mncover.data.store import CoverageData
from mncover.errors import SettingsError
from mncover.selection.changes import Changes
from mncover.selection.gates import Check
from mncover.types import display_percent


@dataclass(frozen=True, slots=True)
class View:
    """A data file with its numbers, and what to show of it; a report ignores what it cannot show.

    `sort` is an order of tests (`SORTS`), `heads` adds every attention head,
    `failures` is how many failing cases of each test to show, `texts` adds a row for each text,
    and `pretty` indents. `checks` are gates that were checked, and `changes` what
    differs from an earlier data file.
    """

    data: CoverageData
    result: Result
    sort: str = "suite"
    heads: bool = False
    failures: int = 0
    texts: bool = False
    pretty: bool = False
    checks: tuple[Check, ...] = ()
    changes: Changes | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """A way to show a data file: a summary for `--help`, and what prints it."""

    summary: str
    show: Callable[[View, Console], None]


# Columns.


@dataclass(frozen=True, slots=True)
class Part:
    """A count out of a whole; the number is None if it is not known."""

    number: int | None
    whole: int

    @property
    def share(self) -> float | None:
        """The part's share of the whole; None if there is none."""
        return None if self.number is None or not self.whole else self.number / self.whole


@dataclass(frozen=True, slots=True)
class Little:
    """How many texts add little, and how many of these fail; None if it is not known."""

    number: int | None
    failing: int | None


# A name, a count, a share, a part of a whole; None is an empty cell.
Value = str | int | float | Part | Little | None
Order = Callable[[ContextResult], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of tests.

    `key` is what `--sort` calls it, `order` what contexts are sorted by if not by its value,
    `total` what the last row says of all tests, and `short` a title for narrow tables.
    """

    key: str
    title: str
    value: Callable[[ContextResult], Value]
    total: Callable[[Result], Value] = lambda result: None
    order: Order | None = None
    applies: Callable[[Result], bool] = lambda result: True
    short: str = ""


def shown(value: Value) -> str:
    """Return a value as people read it; a dash stands for a part that is not known."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, float):
        return display_percent(value)
    if isinstance(value, int):
        return f"{value:,}"
    if value.number is None:
        return "-"
    if isinstance(value, Little):
        return f"{value.number:,}" + ("" if value.failing is None else f", {value.failing:,} fail")
    share = "" if value.share is None else f" ({display_percent(value.share, 0):>3} %)"
    return f"{value.number:,}{share}"


def failing_part(context: ContextResult) -> Part:
    """Return the cases of a test that fail."""
    return Part(context.failing if context.judged else None, context.judged)


def _little(context: ContextResult) -> Little:
    return Little(context.adds_little, context.little_failing if context.judged else None)


def _all_failing(result: Result) -> Part:
    return Part(result.failing, result.judged)


def _all_little(result: Result) -> Little:
    known = [context.adds_little for context in result.contexts]
    number = None if None in known else sum(n or 0 for n in known)
    failing = sum(context.little_failing or 0 for context in result.contexts)
    return Little(number, failing if result.judged else None)


NAME = Column(
    "name",
    "Test",
    lambda c: c.name or "(none)",
    total=lambda r: "Total",
    order=lambda c: c.name.casefold(),
)
TEXTS = Column("texts", "Texts", lambda c: c.texts, total=lambda r: r.n_texts)
ADDS = Column("adds", "Adds %", lambda c: c.main.new.share_of_reachable)
ONLY = Column("only", "Only %", lambda c: c.main.own.share_of_reachable)
OUTSIDE = Column(
    "outside",
    "Out %",
    lambda c: c.outside,
    total=lambda r: r.outside,
    order=lambda c: c.outside or 0.0,
    applies=lambda r: r.outside is not None,
)
LITTLE = Column(
    "adds-little",
    "Adds little",
    _little,
    total=_all_little,
    order=lambda c: -1 if c.adds_little is None else c.adds_little,
)
FAILING = Column(
    "failing",
    "Failing",
    failing_part,
    total=_all_failing,
    order=lambda c: c.failure_rate or 0.0,
    applies=lambda r: r.judged > 0,
)


def criterion_title(name: str) -> str:
    """Return what reports call a criterion; one that is not known here goes by its name."""
    family, colon, number = name.partition(":")
    return f"{CRITERIA[family].title}{colon}{number}" if family in CRITERIA else name


def _share(name: str, title: str, short: str = "") -> Column:
    def value(context: ContextResult) -> float:
        return context.share_of_reachable(name) if name in context.by else 0.0

    return Column(
        name, f"{title} %", value, total=lambda r: r.share_of_reachable(name), short=short
    )


def coverage_columns(result: Result) -> list[Column]:
    """Return the columns of coverage alone, in percent of the reachable bins.

    There is one for each criterion, and two more by the main one.
    """
    main, *others = result.criteria.values()
    shares = [_share(c.name, c.title, short=c.title) for c in others]
    return [_share(main.name, main.title), *shares, ADDS, ONLY]


def columns_of(result: Result) -> list[Column]:
    """Return the columns that apply to a result."""
    columns = [NAME, TEXTS, *coverage_columns(result), OUTSIDE, LITTLE, FAILING]
    return [column for column in columns if column.applies(result)]


def _sorts(criteria: Iterable[str]) -> dict[str, Order]:
    shares = [_share(name, name) for name in criteria]
    columns = [NAME, TEXTS, *shares, ADDS, ONLY, OUTSIDE, LITTLE, FAILING]
    return {"suite": lambda c: 0} | {column.key: column.order or column.value for column in columns}


# The orders of tests; a data file may have further criteria.
SORTS = _sorts(CRITERIA)


def sorted_contexts(result: Result, sort: str) -> list[ContextResult]:
    """Return the tests in the given order; a minus in front reverses it."""
    known = _sorts(dict.fromkeys((*CRITERIA, *result.criteria)))
    name = sort.removeprefix("-")
    if name not in known:
        raise SettingsError(f"cannot sort by {sort!r}; choose one of {', '.join(known)}.")
    contexts = sorted(result.contexts, key=known[name])
    return contexts[::-1] if sort.startswith("-") else contexts
