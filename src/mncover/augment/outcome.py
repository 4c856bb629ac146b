"""What a search found: the file of new texts, the suite of tests, the report. No torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mncover.augment.records import Accepted, Augmented, AugmentSettings, Earning
from mncover.report.columns import criterion_title
from mncover.report.tables import plain_table, write_json
from mncover.selection.chance import wilson
from mncover.suites.expectations import Expectation
from mncover.suites.formats.jsonlines import write_json_lines
from mncover.suites.formats.records import Fields
from mncover.suites.model import Case, Suite, Test
from mncover.suites.rows import Rows
from mncover.types import Text, display_percent

# How many combinations of transformations the report shows.
COMBINATIONS = 10


def write_accepted(
    path: Path, accepted: Sequence[Accepted], seeds: Rows, names: Fields, include_seeds: bool
) -> None:
    """Write a JSON line per accepted text, in its seed's fields; a .gz file is compressed."""
    labelled = zip(seeds.texts, seeds.labels, strict=True)
    rows = [_row(text, label, names) for text, label in labelled if include_seeds]
    for one in accepted:
        seed = one.seed % len(seeds.texts)  # the seeds may have been used several times
        row = _row(one.text, seeds.labels[seed], names)
        row |= {"seed": seed, "transforms": one.transforms, "similarity": round(one.similarity, 4)}
        rows.append(row if one.gain is None else row | {"gain": one.gain})
    write_json_lines(rows, path)


def _row(text: Text, label: Any, names: Fields) -> dict[str, Any]:
    first, second = names.text or "text", names.pair or "pair"
    row = {first: text} if isinstance(text, str) else {first: text[0], second: text[1]}
    return row if label is None else row | {names.label or "label": label}


def suite_of(accepted: Sequence[Accepted], seeds: Sequence[Text]) -> Suite:
    """Return an INV test for each transformation, with the texts that it changed first.

    The class must not change; probabilities may.
    """
    cases: dict[str, list[Case]] = {}
    for one in accepted:
        original = seeds[one.seed % len(seeds)]
        cases.setdefault(one.transforms[0], []).append(Case((original, one.text)))
    tests = [
        Test(
            re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name),  # as words, which tables can break
            "INV",
            Expectation("inv", tolerance=0.0),
            tuple(found),
            "Robustness",
            f"Texts changed by {name}, and perhaps by a second transformation.",
        )
        for name, found in sorted(cases.items())
    ]
    return Suite(tuple(tests))


@dataclass(frozen=True, slots=True)
class Yield:
    """How many failures a search found, and at what cost.

    A failure is a text whose class differs from its seed's. `per_thousand` is per 1000 texts that
    the model had to run, `low` and `high` its 95 % interval; `seeds` counts the seeds that have a
    failure.
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

    The search may have used its seeds several times.
    """
    n, calls = len(seed_classes), found.model_calls
    answers = zip(found.accepted, classes, strict=True)
    failing = [one.seed % n for one, answer in answers if answer != seed_classes[one.seed % n]]
    rate = 1000 * len(failing) / max(calls, 1)
    low, high = (1000 * end for end in wilson(len(failing), calls))
    counts = (len(found.accepted), calls, len(failing), len(set(failing)))
    return Yield(name, *counts, rate, low, high)


def conclusion(yields: Sequence[Yield]) -> str:
    """Say whether a guided search finds more failures than an unguided one."""
    guided, unguided = yields
    if guided.low <= unguided.high and guided.high >= unguided.low:
        return "Their intervals overlap: this does not show that either finds more failures."
    word = "more" if guided.low > unguided.high else "fewer"
    return f"The guided search finds {word} failures than the unguided one for the same calls."


def write_report(
    output: Path, found: Augmented, settings: AugmentSettings, yields: Sequence[Yield]
) -> Path:
    """Write the report as JSON beside the output, and return its path."""
    path = output.with_name(output.name + ".report.json")
    content = {
        "guide": settings.guide,
        "seeds": found.seeds,
        "accepted": len(found.accepted),
        **{name: getattr(found.tally, name) for name in ("attempts", "made", "similar")},
        "texts_run": found.texts_run,
        "coverage_before": found.before,
        "coverage_after": found.after,
        "transforms": [asdict(earning) for earning in found.by_transform(settings.transforms)],
        "combinations": [asdict(earning) for earning in found.by_combination()],
        "failures": [asdict(one) for one in yields],
    }
    write_json(path, content)
    return path


def print_report(
    console: Console, found: Augmented, settings: AugmentSettings, yields: Sequence[Yield]
) -> None:
    """Print how the search and its transformations did and, given `yields`, what failed."""
    console.print()
    for line in _summary(found, settings.criterion):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for table in _tables(found, settings.transforms, yields):
        console.print()
        console.print(table)
    if len(yields) > 1:
        console.print(conclusion(yields), highlight=False, soft_wrap=True)


def _summary(found: Augmented, criterion: str | None) -> Iterator[str]:
    """Yield a few lines on how the search went."""
    tally, n = found.tally, len(found.accepted)
    share = display_percent(n / max(found.seeds, 1))
    yield f"{n:,} new texts from {found.seeds:,} seeds ({share} %), in {tally.attempts:,} attempts."
    too_little = f", {tally.similar - n:,} one that added too little"
    yield (
        f"{tally.attempts - tally.made:,} attempts made nothing new, "
        f"{tally.made - tally.similar:,} a text too far from its seed"
        f"{'' if found.before is None else too_little}."
    )
    if criterion is not None and found.before is not None and found.after is not None:
        title, before = criterion_title(criterion), display_percent(found.before)
        after = display_percent(found.after)
        yield f"{title} {before} % with the seeds, {after} % with the new texts."


def _tables(found: Augmented, names: Sequence[str], yields: Sequence[Yield]) -> Iterator[Table]:
    """Yield how each transformation did, the best combinations, and what failed at what cost."""
    table = plain_table("Transformation", "Drawn", "Changed", "Accepted", "%", "Mean gain")
    for one in found.by_transform(names):
        share = display_percent(one.accepted / one.changed) if one.changed else "-"
        counts = (f"{n:,}" for n in (one.drawn, one.changed, one.accepted))
        table.add_row(one.transforms[0], *counts, share, _gain(one))
    yield table
    table = plain_table("Together", "Accepted", "Mean gain")
    for one in found.by_combination()[:COMBINATIONS]:
        table.add_row(" → ".join(one.transforms), f"{one.accepted:,}", _gain(one))
    yield table
    if yields:
        table = plain_table("Search", "Texts", "Calls", "Failures", "Per 1000 calls", "Seeds")
        for failed in yields:
            counts = (f"{n:,}" for n in (failed.texts, failed.model_calls, failed.failures))
            rate = f"{failed.per_thousand:.1f} ({failed.low:.1f} to {failed.high:.1f})"
            table.add_row(failed.name, *counts, rate, f"{failed.seeds:,}")
        yield table


def _gain(earning: Earning) -> str:
    return "-" if earning.mean_gain is None else f"{earning.mean_gain:.2e}"
