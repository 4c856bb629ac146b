"""What a report is given to show, and the columns of the table of contexts.

Text, Markdown and HTML show the columns, and `--sort` goes by them. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
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

    `sort` is an order of contexts (`SORTS`), `heads` adds every attention head,
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


# A name, a count, a share, a part of a whole; None is an empty cell.
Value = str | int | float | Part | None
Order = Callable[[ContextResult], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table of contexts.

    `key` is what `--sort` calls it, `order` what contexts are sorted by if not by its value,
    `total` what the last row says of all contexts, and `short` a title for narrow tables.
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
    share = "" if value.share is None else f" ({display_percent(value.share, 0):>3} %)"
    return f"{value.number:,}{share}"


def _wrong(context: ContextResult) -> Part:
    return Part(context.wrong if context.labelled else None, context.labelled)


def _failing(context: ContextResult) -> Part:
    return Part(context.failing if context.judged else None, context.judged)


def _sum(part: Callable[[ContextResult], Part], result: Result) -> Part:
    parts = [part(context) for context in result.contexts]
    return Part(sum(p.number or 0 for p in parts), sum(p.whole for p in parts))


def _all_redundant(result: Result) -> Part:
    numbers = [context.redundant for context in result.contexts]
    return Part(None if None in numbers else sum(n or 0 for n in numbers), result.n_texts)


NAME = Column(
    "name",
    "Context",
    lambda c: c.name or "(none)",
    total=lambda r: "Total",
    order=lambda c: c.name.casefold(),
)
TEXTS = Column("texts", "Texts", lambda c: c.texts, total=lambda r: r.n_texts)
ADDS = Column("adds", "Adds %", lambda c: c.adds)
ONLY = Column("only", "Only here %", lambda c: c.only_here, short="Only %")
REDUNDANT = Column(
    "redundant",
    "Redundant",
    lambda c: Part(c.redundant, c.texts),
    total=_all_redundant,
    order=lambda c: -1 if c.redundant is None else c.redundant,
)
WRONG = Column(
    "wrong",
    "Wrong",
    _wrong,
    total=partial(_sum, _wrong),
    order=lambda c: c.wrong,
    applies=lambda r: any(context.labelled for context in r.contexts),
)
FAILING = Column(
    "failing",
    "Failing",
    _failing,
    total=partial(_sum, _failing),
    order=lambda c: c.failure_rate or 0.0,
    applies=lambda r: bool(r.outcomes),
)


def failing_or_wrong(context: ContextResult) -> Part:
    """Return the cases of a test that fail, or, of plain texts, those classified wrongly."""
    return _failing(context) if context.judged else _wrong(context)


def criterion_title(name: str) -> str:
    """Return what reports call a criterion; one that is not known here goes by its name."""
    return CRITERIA[name].title if name in CRITERIA else name


def _share(name: str, title: str, short: str = "") -> Column:
    def value(context: ContextResult) -> float:
        return context.share(name) if name in context.by else 0.0

    return Column(name, f"{title} %", value, total=lambda r: r.share(name), short=short)


def coverage_columns(result: Result) -> list[Column]:
    """Return the columns of coverage alone: by each criterion, and two more by the main one."""
    main, *others = result.criteria.values()
    shares = [_share(c.name, c.title, short=c.title) for c in others]
    return [_share(main.name, main.title), *shares, ADDS, ONLY]


def columns_of(result: Result) -> list[Column]:
    """Return the columns that apply to a result."""
    columns = [NAME, TEXTS, *coverage_columns(result), REDUNDANT, WRONG, FAILING]
    return [column for column in columns if column.applies(result)]


def _sorts(criteria: Iterable[str]) -> dict[str, Order]:
    shares = [_share(name, name) for name in criteria]
    columns = [NAME, TEXTS, *shares, ADDS, ONLY, REDUNDANT, WRONG, FAILING]
    return {"suite": lambda c: 0} | {column.key: column.order or column.value for column in columns}


# The orders of contexts; a data file may have further criteria.
SORTS = _sorts(CRITERIA)


def sorted_contexts(result: Result, sort: str) -> list[ContextResult]:
    """Return the contexts in the given order; a minus in front reverses it."""
    known = _sorts(dict.fromkeys((*CRITERIA, *result.criteria)))
    name = sort.removeprefix("-")
    if name not in known:
        raise SettingsError(f"cannot sort by {sort!r}; choose one of {', '.join(known)}.")
    contexts = sorted(result.contexts, key=known[name])
    return contexts[::-1] if sort.startswith("-") else contexts
