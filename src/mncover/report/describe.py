"""Suites, how their tests went, and masks, for people to read. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mncover.data.identity import MaskSummary
from mncover.data.results import misclassified
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.report.tables import plain_table
from mncover.suites.answers import AnswerExpectation
from mncover.suites.expectations import Answers, Expectation
from mncover.suites.judging import FAILS, Outcome, answers_to, judged_cases
from mncover.suites.model import Label, Suite
from mncover.types import counted, display_percent, shorten

LONGEST = 200  # characters of a text


def describe_suite(suite: Suite) -> str:
    """Return a suite's size in a few words."""
    sizes = (len(suite.tests), "test"), (suite.cases, "case"), (suite.texts, "text")
    return ", ".join(counted(*size) for size in sizes)


def suite_table(suite: Suite) -> Table:
    """Return a row for each test."""
    table = _test_table("Cases", "Texts")
    table.add_column("Expects", overflow="fold")
    for test in suite.tests:
        table.add_row(
            Text(test.name),  # Text: brackets in a name are not markup
            test.kind,
            Text(test.capability),
            f"{len(test.cases):,}",
            f"{test.texts:,}",
            Text(describe_expectation(test.expectation, suite.labels)),
        )
    table.add_section()
    table.add_row("Total", "", "", f"{suite.cases:,}", f"{suite.texts:,}", "", style="bold")
    return table


def _test_table(*numbers: str) -> Table:
    table = plain_table("Test", width=12)
    for name in ("Type", "Capability"):
        table.add_column(name, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def describe_expectation(
    expectation: Expectation | AnswerExpectation, labels: tuple[str, ...], label: Label = None
) -> str:
    """Return an expectation in a few words, with the names of the classes.

    One of answers may depend on the `label` of a case.
    """
    if isinstance(expectation, AnswerExpectation):
        return expectation.describe(label)
    words: list[str] = [expectation.expect]
    if expectation.direction is not None:
        words.append(expectation.direction)
    if expectation.labels:
        words.append(class_names(expectation.labels, labels))
    if expectation.compares and expectation.expect != "implication":
        words.append(f"(tolerance {expectation.tolerance:g})")
    if expectation.only_if:
        words.append(f"if {class_names(expectation.only_if, labels)} before")
    if expectation.only_if_not:
        words.append(f"unless {class_names(expectation.only_if_not, labels)} before")
    return " ".join(words)


def class_names(label: Label, classes: Sequence[str]) -> str:
    """Return the names of one class or several; a number that has no name stays a number."""
    labels = label if isinstance(label, tuple) else () if label is None else (label,)
    known = range(len(classes))
    return " or ".join(classes[x] if isinstance(x, int) and x in known else str(x) for x in labels)


# How tests went.


def outcome_table(outcomes: Sequence[Outcome]) -> Table:
    """Return how often each test fails, and each capability."""
    table = _test_table("Cases", "Judged", "Failing", "Failing %")
    for outcome in outcomes:
        test = outcome.test
        table.add_row(Text(test.name), test.kind, Text(test.capability), *counts([outcome]))
    table.add_section()
    for capability, mine in by_capability(outcomes).items():
        table.add_row(Text(capability, style="italic"), "", "", *counts(mine))
    table.add_section()
    table.add_row("Total", "", "", *counts(outcomes), style="bold")
    return table


def capability_table(outcomes: Sequence[Outcome]) -> Table:
    """Return how often the cases of each capability fail."""
    table = plain_table("Capability", "Cases", "Judged", "Failing", "Failing %", width=12)
    for capability, mine in by_capability(outcomes).items():
        table.add_row(Text(capability), *counts(mine))
    return table


def by_capability(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """Return the outcomes of each capability that has a name, in the order of appearance."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.test.capability:
            found.setdefault(outcome.test.capability, []).append(outcome)
    return found


def counts(outcomes: Sequence[Outcome]) -> list[str]:
    """Return how many cases there are, are judged and fail, and the failing percentage."""
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
            "failing_cases": outcome.failing_places,
        }
        for outcome in outcomes
    ]


# Failing cases, with their texts and what the model said.


def print_failures(data: CoverageData, n: int, console: Console) -> None:
    """Print up to n failing cases of every test, labelled texts included."""
    parts = [*_failing_tests(data, n), *_failing_texts(data, n)]
    for heading, table in parts:
        console.print(heading)
        console.print(table)
    if not parts:
        console.print("No case fails.")


def said(answers: Answers, classes: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield the class of every text and its probability; no name for a text that was not run.

    Of a model that answers in words, yield its answer; NaN is its probability.
    """
    if answers.said:
        yield from ((f"“{shorten(one, LONGEST)}”", float("nan")) for one in answers.said)
        return
    for number, shares in zip(answers.classes.tolist(), answers.probabilities, strict=True):
        yield ("", float("nan")) if number < 0 else (classes[number], float(shares[number]))


def _failing_tests(data: CoverageData, n: int) -> Iterator[tuple[Text, Table]]:
    for outline, outcome, rows in judged_cases(data):
        if not outcome.failing:
            continue
        expects = describe_expectation(outcome.test.expectation, outline.labels)
        heading = Text(outcome.test.name, style="bold")
        fails = f": {outcome.failing:,} of {outcome.judged:,} fail; expects {expects}"
        table, classes = _failure_table(), outline.labels or data.identity.labels
        failing = np.flatnonzero(outcome.verdicts == FAILS)[:n]
        for case, number in zip(failing, outcome.failing_places[:n], strict=True):
            label = outcome.test.cases[case].label
            right = class_names(label, classes)
            found = said(answers_to(data, outline, rows[case]), classes)
            if data.table.answers:
                right = describe_expectation(outcome.test.expectation, (), label)
            for i, (row, (name, share)) in enumerate(zip(rows[case], found, strict=True)):
                place = "" if i else f"case {number}"
                _add_text(table, data, row, place, name, share, "" if i else right)
        table.add_row()
        yield heading.append(fails, "not bold"), table


def _failing_texts(data: CoverageData, n: int) -> Iterator[tuple[Text, Table]]:
    labels, predictions = data.table["label"], data.table["prediction"]
    judged, fails = (labels != UNKNOWN) & (predictions != UNKNOWN), misclassified(data)
    for number, context in enumerate(data.contexts):
        inside = data.table["context"] == number
        mine = np.flatnonzero(fails & inside)
        if not len(mine):
            continue
        table, classes = _failure_table(), data.identity.labels
        for row in mine[:n].tolist():
            answer, place = int(predictions[row]), f"text {data.table['index'][row]}"
            share = float(data.table.probabilities[row, answer])
            right = class_names(int(labels[row]), classes)
            _add_text(table, data, row, place, classes[answer], share, right)
        table.add_row()
        heading = Text(context or "(none)", style="bold")
        yield (
            heading.append(f": {len(mine):,} of {int((judged & inside).sum()):,} fail", "not bold"),
            table,
        )


def _failure_table() -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", min_width=20)
    return table


def _add_text(
    table: Table, data: CoverageData, row: int, place: str, name: str, share: float, right: str
) -> None:
    text = Text(shorten(data.table.texts[row], LONGEST))
    if data.table.answers:  # longer than a class
        text.append(f" → {name}")
        name = ""
    if right:
        text.append(f"  (right: {right})", style="dim")
    sure = "" if np.isnan(share) else f"{display_percent(share, 1)} %"
    shown = name if name or data.table.answers else "not run"
    table.add_row(place, Text(shown), sure, text)


# Masks.

UNSEEN = {
    "keep": "words and pairs that training did not see count",
    "drop": "words and pairs that training did not see do not count",
    "words": "a pair counts if both of its words do",
}


def describe_masks(masks: MaskSummary, pairs: bool = True) -> RenderableType:
    """Return the share kept, the fidelity, and the most and least important words and pairs.

    Without `pairs` these are not listed.
    """
    text = Text.assemble(("Masks", "bold"), f" keep {_share(masks.words_kept, masks.words)} words")
    if masks.pairs:
        text.append(f", {_share(masks.pairs_kept, masks.pairs)} pairs")
    text.append(f"\n  {UNSEEN.get(masks.unseen, masks.unseen)}")
    if masks.fidelity is not None:
        text.append(f"\n  fidelity {display_percent(masks.fidelity)} %: ")
        text.append("share of held-out texts that keep their class when masked")
    lists = Table.grid(padding=(0, 1, 0, 0))
    for title, scored in important(masks)[: None if pairs else 2]:
        if scored:
            words = ", ".join(word for word, _ in scored)
            lists.add_row(f"  {title}", Text(words, style="dim"))
    return Group(text, lists)


def important(masks: MaskSummary) -> list[tuple[str, tuple[tuple[str, float], ...]]]:
    """Return the lists of words and pairs with their titles; some may be empty."""
    return [
        ("most important words", masks.top_words),
        ("least important words", masks.low_words),
        ("most important pairs", masks.top_pairs),
        ("least important pairs", masks.low_pairs),
    ]


def _share(part: int, whole: int) -> str:
    percent = display_percent(part / whole, 1) if whole else "0.0"
    return f"{part:,} of {whole:,} ({percent} %)"
