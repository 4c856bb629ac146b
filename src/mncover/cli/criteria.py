"""`mncover criteria`: what can be measured. No torch here."""

from __future__ import annotations

from mncover.cli import options as o
from mncover.criteria import CRITERIA
from mncover.report.criteria import criteria_table, criteria_to_json
from mncover.report.screen import Screen, in_json, say


def criteria(as_json: o.Json = False) -> None:
    """List what can be measured: the criteria, their sources and their numbers."""
    if as_json:
        say(in_json(criteria_to_json(CRITERIA.values())))
    else:
        Screen().print(criteria_table(CRITERIA.values()))
