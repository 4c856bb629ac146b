"""The criteria that can be measured, described for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table

from mncover.criteria.base import Criterion
from mncover.report.tables import plain_table


def criteria_table(criteria: Iterable[Criterion]) -> Table:
    """Return a row for each criterion: what it counts, its number, its source."""
    table = plain_table("Criterion", "What it counts", "Number, as in tknc:3", "Source", left=4)
    for one in criteria:
        about = one.parameter
        number = "" if about is None else f"{about.meaning} [{about.default:g}]"
        masks = " (needs masks)" if one.masked else ""
        table.add_row(one.name, one.summary + masks, number, one.source)
    return table


def criteria_to_json(criteria: Iterable[Criterion]) -> list[dict[str, Any]]:
    """Return the same as plain values."""
    return [
        {
            "name": one.name,
            "title": one.title,
            "counts": one.summary,
            "source": one.source,
            "masked": one.masked,
            "number": None
            if one.parameter is None
            else {"meaning": one.parameter.meaning, "default": one.parameter.default},
        }
        for one in criteria
    ]
