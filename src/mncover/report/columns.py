"""The columns of the table of contexts, each defined once.

Text, Markdown and HTML show them, and `--sort` goes by them. No torch here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from mncover.criteria import CRITERIA
from mncover.data.results import ContextResult, Result
from mncover.errors import SettingsError
from mncover.types import display_percent


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


def _redundant(context: ContextResult) -> Part:
    return Part(context.redundant, context.texts)


def _wrong(context: ContextResult) -> Part:
    return Part(context.wrong if context.labelled else None, context.labelled)


def _failing(context: ContextResult) -> Part:
    return Part(context.failing if context.judged else None, context.judged)


def _sum(part: Callable[[ContextResult], Part], result: Result) -> Part:
    parts = [part(context) for context in result.contexts]
    return Part(sum(p.number or 0 for p in parts), sum(p.whole for p in parts))


def _all_redundant(result: Result) -> Part:
    known = all(context.redundant is not None for context in result.contexts)
    return _sum(_redundant, result) if known else Part(None, result.texts)


NAME = Column(
    "name",
    "Context",
    lambda c: c.name or "(none)",
    total=lambda r: "Total",
    order=lambda c: c.name.casefold(),
)
TEXTS = Column("texts", "Texts", lambda c: c.texts, total=lambda r: r.texts)
ADDS = Column("adds", "Adds %", lambda c: c.adds)
ONLY = Column("only", "Only here %", lambda c: c.only_here, short="Only %")
REDUNDANT = Column(
    "redundant",
    "Redundant",
    _redundant,
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


def _share(name: str, title: str, main: bool) -> Column:
    return Column(
        name,
        f"{title} %",
        lambda c: c.share(name) if name in c.by else 0.0,
        total=lambda r: r.share(name),
        short="" if main else title,
    )


def _in_order(shares: Iterable[Column]) -> list[Column]:
    return [NAME, TEXTS, *shares, ADDS, ONLY, REDUNDANT, WRONG, FAILING]


def _shares(result: Result) -> list[Column]:
    main = result.main
    return [_share(c.name, c.title, main=c is main) for c in result.criteria.values()]


def columns_of(result: Result) -> list[Column]:
    """Return the columns that apply to a result."""
    return [column for column in _in_order(_shares(result)) if column.applies(result)]


def coverage_columns(result: Result) -> list[Column]:
    """Return the columns of coverage alone: by each criterion, and two more by the main one."""
    return [*_shares(result), ADDS, ONLY]


def _sorts(criteria: Iterable[str]) -> dict[str, Order]:
    columns = _in_order(_share(name, name, main=False) for name in criteria)
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
