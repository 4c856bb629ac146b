"""A fitted combination of scores: its weights, and how well it tells failing cases. No torch."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from mncover.report.tables import plain_table
from mncover.selection.auroc import Estimate
from mncover.selection.fit import Combination


def fit_table(fit: Combination) -> Table:
    """Return the weight of every score, for a step of one standard deviation."""
    table = plain_table("Fitted", "Weight")
    for name, weight in zip(fit.names, fit.weights, strict=True):
        table.add_row(name, f"{weight:+.2f}")
    return table


def fit_words(fit: Combination) -> str:
    """Say how well the combination does on its development set, beside entropy."""
    by = fit.difference
    apart = "no better or worse than"
    if by.low > 0 or by.high < 0:
        apart = "better than" if by.low > 0 else "worse than"
    return (
        f"Fitted to {fit.cases:,} cases, of which {fit.failing:,} fail. AUROC for failing cases, "
        f"cross-validated: {_shown(fit.cross_validated)}; entropy alone: {_shown(fit.entropy)}. "
        f"The combination is {apart} entropy there ({by.low:+.3f} to {by.high:+.3f})."
    )


def _shown(estimate: Estimate) -> str:
    return f"{estimate.value:.3f} ({estimate.low:.3f} to {estimate.high:.3f})"


def fit_to_json(fit: Combination) -> dict[str, Any]:
    """Return the combination as plain values."""
    return {
        "cases": fit.cases,
        "failing": fit.failing,
        "weights": dict(zip(fit.names, fit.weights.tolist(), strict=True)),
        "auroc": fit.cross_validated._asdict(),
        "auroc_entropy": fit.entropy._asdict(),
        "difference": fit.difference._asdict(),
    }
