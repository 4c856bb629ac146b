"""Shares as people read them.

Results as small HTML tables, for notebooks. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def display_percent(share: float, digits: int = 2) -> str:
    """Return a share as a percentage that reads 0 or 100 only if it is exactly that.

    >>> display_percent(0.5), display_percent(0.999999), display_percent(0.0000001)
    ('50.00', '99.99', '0.01')
    """
    least = 10**-digits
    percent = share * 100
    if 0 < percent < least:
        percent = least
    elif 100 - least < percent < 100:
        percent = 100 - least
    return f"{percent:.{digits}f}"


MOST = 50  # rows of a table


def html_table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with a title; whatever the cells hold is shown as text."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MOST]
    )
    more = f"<p>{len(rows) - MOST:,} more rows</p>" if len(rows) > MOST else ""
    return (
        f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>{more}</div>"
    )


def percent(share: float | None) -> str:
    """Return a share as a percentage, or a dash."""
    return "-" if share is None else display_percent(share)
