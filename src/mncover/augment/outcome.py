"""Write accepted texts as JSON Lines, in the fields that their seeds came in. No torch here.

Tests out of accepted texts: each must get the answer that its seed gets.

And whether looking for coverage found more failures than not looking, at the same cost. No torch
here.
What a search for new texts found: tables, JSON, and words. No torch here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from mncover.augment.records import Accepted, Augmented, Earning
from mncover.criteria import NAMES, Metric
from mncover.data.display import display_percent
from mncover.selection.chance import wilson
from mncover.suites.expectations import Expectation
from mncover.suites.formats.jsonlines import write_json_lines
from mncover.suites.formats.records import Fields
from mncover.suites.model import Case, Suite, Test
from mncover.suites.rows import Rows
from mncover.types import Text


def write_accepted(
    path: Path,
    accepted: Sequence[Accepted],
    seeds: Rows,
    names: Fields,
    include_seeds: bool = False,
) -> None:
    """Write a line for each accepted text, with its seed's label; a name in .gz is compressed."""
    write_json_lines(_rows(accepted, seeds, names, include_seeds), path)


def _rows(
    accepted: Sequence[Accepted], seeds: Rows, names: Fields, include_seeds: bool
) -> Iterator[dict[str, Any]]:
    if include_seeds:
        for text, label in zip(seeds.texts, seeds.labels, strict=True):
            yield _row(text, label, names)
    for one in accepted:
        seed = one.seed % len(seeds.texts)  # the search may have gone over them several times
        row = _row(one.text, seeds.labels[seed], names)
        row |= {"seed": seed, "transforms": list(one.transforms)}
        row["similarity"] = round(one.similarity, 4)
        if one.gain is not None:
            row["gain"] = one.gain
        yield row


def _row(text: Text, label: Any, names: Fields) -> dict[str, Any]:
    if isinstance(text, str):
        row: dict[str, Any] = {names.text or "text": text}
    else:
        first, second = names.text or "text", names.pair or "pair"
        row = {first: text[0], second: text[1]}
    return row if label is None else row | {names.label or "label": label}


@dataclass(frozen=True, slots=True)
class Yield:
    """How many failures a search found, and at which cost.

    A failure is a text whose class differs from its seed's. `low` and `high` are the 95 %
    interval of `per_thousand`, failures per 1000 texts that the model had to run; `seeds` counts
    the seeds that have a failure.
    """

    name: str
    texts: int
    model_calls: int
    failures: int
    seeds: int
    per_thousand: float
    low: float
    high: float


def yield_of(
    name: str, found: Augmented, classes: Sequence[int], seed_classes: Sequence[int]
) -> Yield:
    """Return what a search found, given the classes of the accepted texts and of the seeds.

    The search may have gone over its seeds several times.
    """
    n = len(seed_classes)
    answers = zip(found.accepted, classes, strict=True)
    failing = [one.seed % n for one, answer in answers if answer != seed_classes[one.seed % n]]
    calls = found.model_calls
    low, high = wilson(len(failing), calls)
    return Yield(
        name,
        len(found.accepted),
        calls,
        len(failing),
        len(set(failing)),
        1000 * len(failing) / max(calls, 1),
        1000 * low,
        1000 * high,
    )


def suite_of(accepted: Sequence[Accepted], seeds: Sequence[Text]) -> Suite:
    """Return an INV test for each transformation, with the texts that it changed first.

    The class must not change, by however little.
    """
    cases: dict[str, list[Case]] = {}
    for one in accepted:
        original = seeds[one.seed % len(seeds)]
        cases.setdefault(one.transforms[0], []).append(Case((original, one.text)))
    tests = [
        Test(
            re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name),  # in words, which tables can break
            "INV",
            Expectation("inv", tolerance=0.0),
            tuple(found),
            "Robustness",
            f"Texts changed by {name}, and perhaps by a second transformation.",
        )
        for name, found in sorted(cases.items())
    ]
    return Suite(tuple(tests))


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
