"""A choice of cases beside the other ways to choose, as a table, as JSON, and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from mncover.cases import Cases
from mncover.experiments.comparison import Found
from mncover.percent import display_percent
from mncover.suites.failures import FAILS, NOT_JUDGED


def comparison_table(cases: Cases, mine: Found, others: Sequence[Found]) -> Table:
    """Return how many failing cases each way of choosing as many cases finds."""
    failing = int((cases.verdicts == FAILS).sum())
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Chosen by", no_wrap=True)
    for name in ("Cases", "Failing", "95 % of draws", "Of all failing %"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in [mine, *(other for other in others if other.method != mine.method)]:
        chance = row.method == "random" and row is not mine
        table.add_row(
            row.method,
            f"{row.cases:,}",
            f"{row.failing:,.1f}" if chance else f"{row.failing:,.0f}",
            f"{row.low:,.0f} to {row.high:,.0f}" if chance else "",
            display_percent(row.failing / failing) if failing else "-",
            style="bold" if row is mine else None,
        )
    judged = int((cases.verdicts != NOT_JUDGED).sum())
    table.add_section()
    table.add_row("all cases", f"{len(cases):,}", f"{failing:,}", "", "", style="italic")
    if judged < len(cases):
        table.add_row("of them judged", f"{judged:,}", "", "", "", style="italic")
    return table


def conclusions(cases: Cases, mine: Found, others: Sequence[Found]) -> list[str]:
    """Say what the numbers say, also if they do not speak for the choice."""
    if not (cases.verdicts != NOT_JUDGED).any():
        return ["No case could be judged, so nothing can be said about failures."]
    if not (cases.verdicts == FAILS).any():
        return ["No case fails, so nothing can be said about finding failures."]
    chance = others[-1]
    between = f"{chance.low:,.0f} to {chance.high:,.0f}"
    if mine.failing > chance.high:
        first = f"'{mine.method}' finds more failing cases than chance would ({between})."
    elif mine.failing < chance.low:
        first = f"'{mine.method}' finds fewer failing cases than chance would ({between})."
    else:
        first = f"'{mine.method}' finds no more and no fewer than chance would ({between})."
    better = max(others[:-1], key=lambda row: row.failing, default=mine)
    lines = [first]
    if better.failing > mine.failing:
        lines.append(f"'{better.method}' finds most: {better.failing:,.0f}.")
    lines.append(
        "These are failures of the model that was run. What a choice is worth shows on the next "
        "one: run the reduced suite there."
    )
    return lines


def comparison_to_json(cases: Cases, mine: Found, others: Sequence[Found]) -> dict[str, Any]:
    """Return the comparison as plain values."""
    return {
        "cases": len(cases),
        "judged": int((cases.verdicts != NOT_JUDGED).sum()),
        "failing": int((cases.verdicts == FAILS).sum()),
        "chosen": asdict(mine),
        "others": [asdict(other) for other in others],
    }
