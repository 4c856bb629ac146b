"""Plans before they are run, and the estimates after: tables and plain values. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from mncover.data.estimate import Estimate
from mncover.report.tables import plain_table
from mncover.selection.planfile import Plan
from mncover.selection.planner import Planner
from mncover.selection.prospects import BUDGETS, WAYS, Prospect, cases_by_test, prospect
from mncover.types import counted, display_percent, visible

NAMED = 3  # tests that a note names
SEVERAL = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)  # budgets of the plot


# Before a run.


def prospects_of(planner: Planner, total: int) -> list[Prospect]:
    """Return what to expect under each way to draw as many cases."""
    return [prospect(planner.expected, way, total) for way in WAYS]


def plan_table(planner: Planner, total: int) -> Table:
    """Return the error to expect of each test, in points, under each way to draw."""
    table = plain_table("Test", "Cases", "Run", *(way.capitalize() for way in WAYS), width=12)
    found, numbers = prospects_of(planner, total), cases_by_test(planner.expected, total)
    sizes = planner.earlier.sizes
    for test, name in enumerate(planner.earlier.tests):
        errors = [_points(one.errors[test]) for one in found]
        table.add_row(Text(name), f"{sizes[test]:,}", f"{numbers[test]:,}", *errors)
    table.add_section()
    overall = [_points(one.overall) for one in found]
    table.add_row("All tests", f"{sizes.sum():,}", f"{numbers.sum():,}", *overall, style="bold")
    return table


def budget_table(planner: Planner) -> Table:
    """Return the error to expect over all tests for a few budgets."""
    table = plain_table("Budget", "Run", *(way.capitalize() for way in WAYS), width=6)
    for share, total in budgets_of(planner, BUDGETS):
        errors = [_points(one.overall) for one in prospects_of(planner, total)]
        table.add_row(f"{share:.0%}", f"{total:,}", *errors)
    return table


def budgets_of(planner: Planner, shares: Sequence[float]) -> list[tuple[float, int]]:
    """Return those shares of a suite that leave every test two cases, with their numbers."""
    n, least = len(planner.cases), int(np.minimum(planner.earlier.sizes, 2).sum())
    return [(share, round(share * n)) for share in shares if round(share * n) >= least]


def error_curves(planner: Planner) -> tuple[list[float], dict[str, list[float]]]:
    """Return budgets, and the error to expect over all tests under each way to draw."""
    budgets = budgets_of(planner, SEVERAL)
    curves = {
        way: [prospect(planner.expected, way, total).overall for _, total in budgets]
        for way in WAYS
    }
    return [share for share, _ in budgets], curves


def plan_to_json(planner: Planner, total: int) -> dict[str, Any]:
    """Return what the tables show as plain values; errors are shares."""
    found, numbers = prospects_of(planner, total), cases_by_test(planner.expected, total)
    sizes = planner.earlier.sizes
    return {
        "cases": len(planner.cases),
        "run": total,
        "models": list(planner.models),
        "tests": [
            {
                "test": name,
                "cases": int(sizes[test]),
                "run": int(numbers[test]),
                "expected_error": {one.way: float(one.errors[test]) for one in found},
            }
            for test, name in enumerate(planner.earlier.tests)
        ],
        "expected_error": {one.way: one.overall for one in found},
        "budgets": [
            {"budget": share, "run": n, **{p.way: p.overall for p in prospects_of(planner, n)}}
            for share, n in budgets_of(planner, BUDGETS)
        ],
    }


def item_ids(plan: Plan) -> dict[str, list[int]]:
    """Return the drawn cases by test, counted within it, as lm-evaluation-harness asks."""
    starts = np.cumsum(plan.earlier.sizes) - plan.earlier.sizes
    test = plan.earlier.test[plan.drawn.cases]
    place = plan.drawn.cases - starts[test]
    names = plan.earlier.tests
    return {name: place[test == number].tolist() for number, name in enumerate(names)}


def _points(share: float) -> str:
    return f"{100 * share:.1f}"


# After it.

ESTIMATED = "Estimated for the whole tests, with 95 % intervals"


def estimate_cells(one: Estimate) -> list[str]:
    """Return the cells of `ESTIMATE_TITLES`."""
    rate = "-" if one.rate is None else display_percent(one.rate, 1)
    low, high = display_percent(one.low, 1), display_percent(one.high, 1)
    earlier = "-" if one.earlier is None else display_percent(one.earlier, 1)
    interval = f"{one.missing:,} not run" if one.missing else f"{low} to {high}"
    return [
        one.test or "All tests",
        f"{one.run:,} of {one.cases:,}",
        f"{one.failing:,} of {one.judged:,}",
        rate,
        "exact" if one.whole else interval,
        earlier,
        one.change,
    ]


ESTIMATE_TITLES = ("Test", "Run", "Failing", "Whole test %", "95 % interval", "Earlier %", "Change")


def estimate_table(estimates: Sequence[Estimate]) -> Table:
    """Return the estimated failure rate of each whole test."""
    table = plain_table(*ESTIMATE_TITLES, width=12)
    for one in shown_estimates(estimates):
        name, *cells = estimate_cells(one)
        style = "bold" if not one.test else {"worse": "red", "better": "green"}.get(one.change, "")
        table.add_row(Text(name), *cells, style=style)
    return table


def shown_estimates(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Return the estimates that have a row in tables: those of tests that were run at all."""
    return [one for one in estimates if one.run]


def estimate_notes(estimates: Sequence[Estimate]) -> list[str]:
    """Return what to know when reading the estimates."""
    lacking = [one.test for one in estimates if one.test and one.missing]
    if lacking and not any(one.rate is not None for one in estimates):
        return [_not_run(estimates, lacking)]
    worse = [one.test for one in estimates if one.test and one.change == "worse"]
    verdict = (
        f"significantly worse than the earlier run: {', '.join(worse)}."
        if worse
        else ("no test is significantly worse than the earlier run.")
    )
    notes = [_not_run(estimates, lacking)] if lacking else []
    return [
        *notes,
        f"{ESTIMATED}; {verdict}",
        "An interval holds the rate that a run of the whole test would show, 19 times of 20: of "
        "20 tests that did not change, expect one outside.",
    ]


def _not_run(estimates: Sequence[Estimate], lacking: Sequence[str]) -> str:
    """Say which cases of a plan are missing, and what to do."""
    missing, more = sum(one.missing for one in estimates if one.test), len(lacking) - NAMED
    names = ", ".join(visible(name) for name in lacking[:NAMED])
    names += f" and {counted(more, 'other test')}" if more > 0 else ""
    return (
        f"Not run yet: {counted(missing, 'case')} of the plan, so nothing is estimated for "
        f"{names}. Repeat an interrupted run to finish it; of a run of a part, run the other "
        "tests and `mncover combine` the data files."
    )


def estimates_to_json(estimates: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Return the estimates as plain values; that for all tests has no name."""
    return [
        {
            "test": one.test or None,
            "cases": one.cases,
            "run": one.run,
            "judged": one.judged,
            "failing": one.failing,
            "estimated_failure_rate": one.rate,
            "low": one.low,
            "high": one.high,
            "exact": one.whole,
            "missing": one.missing,
            "earlier_failure_rate": one.earlier,
            "change": one.change or None,
        }
        for one in estimates
    ]
