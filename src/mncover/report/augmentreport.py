"""What a search for new texts found: tables, JSON, and words. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from mncover.augmentation.records import Augmented, Earning
from mncover.augmentation.testing import Yield
from mncover.metrics import NAMES, Metric
from mncover.percent import display_percent

COMBINATIONS = 10  # so many are shown


def summary(found: Augmented, metric: Metric | None) -> list[str]:
    """Say how the search went."""
    tally, n = found.tally, len(found.accepted)
    lines = [
        f"{n:,} new texts from {found.seeds:,} seeds ({display_percent(n / max(found.seeds, 1))} "
        f"%), in {tally.attempts:,} attempts.",
        f"{tally.attempts - tally.made:,} attempts made nothing new, "
        f"{tally.made - tally.similar:,} a text too far from its seed"
        + (
            f", {tally.similar - n:,} one that added too little."
            if found.before is not None
            else "."
        ),
    ]
    if metric is not None and found.before is not None and found.after is not None:
        lines.append(
            f"{NAMES[metric]} {display_percent(found.before)} % with the seeds, "
            f"{display_percent(found.after)} % with the new texts."
        )
    return lines


def transform_table(found: Augmented, names: Sequence[str]) -> Table:
    """Return how each transformation fared."""
    table = _table("Transformation", ("Drawn", "Changed", "Accepted", "%", "Mean gain"))
    for earning in found.by_transform(names):
        share = display_percent(earning.accepted / earning.changed) if earning.changed else "-"
        table.add_row(
            earning.transforms[0],
            f"{earning.drawn:,}",
            f"{earning.changed:,}",
            f"{earning.accepted:,}",
            share,
            _gain(earning),
        )
    return table


def combination_table(found: Augmented) -> Table:
    """Return the transformations that made most of the accepted texts together."""
    table = _table("Together", ("Accepted", "Mean gain"))
    for earning in found.by_combination()[:COMBINATIONS]:
        table.add_row(" → ".join(earning.transforms), f"{earning.accepted:,}", _gain(earning))
    return table


def yield_table(yields: Sequence[Yield]) -> Table:
    """Return the failures that searches found, beside their cost."""
    table = _table("Search", ("Texts", "Calls", "Failures", "Per 1000 calls", "Seeds"))
    for one in yields:
        table.add_row(
            one.name,
            f"{one.texts:,}",
            f"{one.model_calls:,}",
            f"{one.failures:,}",
            f"{one.per_thousand:.1f} ({one.low:.1f} to {one.high:.1f})",
            f"{one.seeds:,}",
        )
    return table


def conclusion(yields: Sequence[Yield]) -> str:
    """Say what the failures of a guided and an unguided search say of the guide."""
    guided, unguided = yields
    if guided.low > unguided.high:
        return "The guided search finds more failures than the unguided one for the same calls."
    if guided.high < unguided.low:
        return "The guided search finds fewer failures than the unguided one for the same calls."
    return "Their intervals overlap: this does not show that either finds more failures."


def to_json(
    found: Augmented, names: Sequence[str], guide: str, yields: Sequence[Yield] = ()
) -> dict[str, Any]:
    """Return the account of a search as plain values."""
    tally = found.tally
    return {
        "guide": guide,
        "seeds": found.seeds,
        "accepted": len(found.accepted),
        "attempts": tally.attempts,
        "made": tally.made,
        "similar": tally.similar,
        "texts_run": found.texts_run,
        "coverage_before": found.before,
        "coverage_after": found.after,
        "transforms": [asdict(earning) for earning in found.by_transform(names)],
        "combinations": [asdict(earning) for earning in found.by_combination()],
        "failures": [asdict(one) for one in yields],
    }


def _table(first: str, columns: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _gain(earning: Earning) -> str:
    return "-" if earning.mean_gain is None else f"{earning.mean_gain:.2e}"
