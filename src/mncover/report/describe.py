"""What suites and masks hold, for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mncover.data.display import display_percent
from mncover.data.identity import MaskSummary, Scored
from mncover.suites.expectations import Expectation
from mncover.suites.judging import FAILS, Outcome
from mncover.suites.model import Suite


def describe_suite(suite: Suite) -> str:
    """Return a suite's size in a few words."""
    return f"{len(suite.tests):,} tests, {suite.cases:,} cases, {suite.texts:,} texts"


def suite_table(suite: Suite) -> Table:
    """Return a row for each test."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Test", overflow="fold", min_width=12)
    for name in ("Type", "Capability"):
        table.add_column(name, no_wrap=True)
    for name in ("Cases", "Texts"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("Expects", overflow="fold")
    for test in suite.tests:
        table.add_row(
            Text(test.name),  # Text: brackets in a name are no markup
            test.kind,
            Text(test.capability),
            f"{len(test.cases):,}",
            f"{test.texts:,}",
            Text(describe_expectation(test.expectation, suite.labels)),
        )
    table.add_section()
    table.add_row("Total", "", "", f"{suite.cases:,}", f"{suite.texts:,}", "", style="bold")
    return table


def describe_expectation(expectation: Expectation, labels: tuple[str, ...]) -> str:
    """Return an expectation in a few words, with the names of the classes."""

    def names(classes: tuple[int | str, ...]) -> str:
        known = range(len(labels))
        return " or ".join(labels[c] if c in known else str(c) for c in classes)  # type: ignore[index]

    words: list[str] = [expectation.expect]
    if expectation.direction is not None:
        words.append(expectation.direction)
    if expectation.labels:
        words.append(names(expectation.labels))
    if expectation.compares and expectation.expect != "implication":
        words.append(f"(tolerance {expectation.tolerance:g})")
    if expectation.only_if:
        words.append(f"if {names(expectation.only_if)} before")
    if expectation.only_if_not:
        words.append(f"unless {names(expectation.only_if_not)} before")
    return " ".join(words)


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Return how often each test fails, and each capability."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Test", overflow="fold", min_width=12)
    for name in ("Type", "Capability"):
        table.add_column(name, no_wrap=True)
    for name in ("Cases", "Judged", "Failing", "Failing %"):
        table.add_column(name, justify="right", no_wrap=True)
    for outcome in outcomes:
        test = outcome.test
        about = (Text(test.name), test.kind, Text(test.capability))
        table.add_row(*about, *_counts([outcome]))
    table.add_section()
    for capability, mine in by_capability(outcomes).items():
        table.add_row(Text(capability, style="italic"), "", "", *_counts(mine))
    table.add_section()
    table.add_row("Total", "", "", *_counts(outcomes), style="bold")
    return table


def by_capability(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each capability that has a name, in the order of appearance."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.test.capability:
            found.setdefault(outcome.test.capability, []).append(outcome)
    return found


def capability_table(outcomes: Sequence[Outcome]) -> Table:
    """Return how often the cases of each capability fail."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Capability", overflow="fold", min_width=12)
    for name in ("Cases", "Judged", "Failing", "Failing %"):
        table.add_column(name, justify="right", no_wrap=True)
    for capability, mine in by_capability(outcomes).items():
        table.add_row(Text(capability), *_counts(mine))
    return table


def _counts(outcomes: Sequence[Outcome]) -> list[str]:
    judged, failing = sum(o.judged for o in outcomes), sum(o.failing for o in outcomes)
    rate = display_percent(failing / judged) if judged else "-"
    cases = sum(len(o.test.cases) for o in outcomes)
    return [f"{cases:,}", f"{judged:,}", f"{failing:,}", rate]


def outcomes_to_json(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """Return how often each test fails as plain values, with the numbers of its failing cases."""
    return [
        {
            "test": outcome.test.name,
            "type": outcome.test.kind,
            "capability": outcome.test.capability,
            "cases": len(outcome.test.cases),
            "judged": outcome.judged,
            "failing": outcome.failing,
            "failure_rate": outcome.failure_rate,
            "failing_cases": [int(i) for i in (outcome.verdicts == FAILS).nonzero()[0]],
        }
        for outcome in outcomes
    ]


UNSEEN = {
    "keep": "what training did not see counts",
    "drop": "what training did not see does not count",
    "words": "a pair counts if both of its words do",
}


def describe_masks(masks: MaskSummary) -> RenderableType:
    """Return the share kept, the fidelity, and the most and least important words and pairs."""
    text = Text()
    text.append("Masks", style="bold")
    text.append(f" keep {_share(masks.words_kept, masks.words)} words")
    if masks.pairs:
        text.append(f", {_share(masks.pairs_kept, masks.pairs)} pairs")
    text.append(f"\n  {UNSEEN.get(masks.unseen, masks.unseen)}")
    if masks.fidelity is not None:
        text.append(
            f"\n  fidelity {display_percent(masks.fidelity)} %: so many held-out texts keep their "
            "class through the masks"
        )
    lists = Table.grid(padding=(0, 1, 0, 0))
    for title, scored in (
        ("most important words", masks.top_words),
        ("least important words", masks.low_words),
        ("most important pairs", masks.top_pairs),
        ("least important pairs", masks.low_pairs),
    ):
        if scored:
            lists.add_row(f"  {title}", Text(_list(scored), style="dim"))
    return Group(text, lists)


def _share(part: int, whole: int) -> str:
    percent = display_percent(part / whole, 1) if whole else "0.0"
    return f"{part:,} of {whole:,} ({percent} %)"


def _list(scored: tuple[Scored, ...]) -> str:
    return ", ".join(word for word, _ in scored)
