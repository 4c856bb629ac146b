"""Least coverages of single tests, as `--fail-under-test` gives them. No torch here."""

from __future__ import annotations

from collections.abc import Sequence

from mncover.criteria import MNCOVER, NAMES, Metric
from mncover.data.display import display_percent
from mncover.data.results import Result, below
from mncover.errors import SettingsError


def parsed_limits(given: Sequence[str], result: Result) -> dict[str, float]:
    """Return the least percentage of each test named; refuse a test that was not run."""
    limits: dict[str, float] = {}
    known = [context.name for context in result.contexts]
    for text in given:
        name, _, value = text.rpartition("=")
        try:
            limits[name] = float(value)
        except ValueError:
            raise SettingsError(f"a test's limit is NAME=PERCENT, got {text!r}.") from None
        if not name or not 0 <= limits[name] <= 100:
            raise SettingsError(f"a test's limit is NAME=PERCENT, 0 to 100, got {text!r}.")
        if name not in known:
            raise SettingsError(f"no test {name!r} was run; there are {', '.join(known)}.")
    return limits


def below_limits(limits: dict[str, float], result: Result, metric: Metric) -> list[str]:
    """Return a line for each test whose coverage falls short of its limit."""
    lines = []
    for context in result.contexts:
        share = (context.mncover or 0.0) if metric == MNCOVER else context.cover
        limit = limits.get(context.name)
        if limit is not None and below(share, limit):
            lines.append(
                f"{context.name}: {NAMES[metric]} {display_percent(share)} % is below "
                f"--fail-under-test {limit:g} %."
            )
    return lines
