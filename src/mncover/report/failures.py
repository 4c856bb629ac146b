"""The cases that fail, with their texts and what the model said."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mncover.data.display import display_percent
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.report.describe import describe_expectation
from mncover.suites.judging import FAILS, Outcome, in_suite_classes, judged_cases
from mncover.suites.model import Label, Outline
from mncover.types import Text as Given
from mncover.types import shorten

LONGEST = 200


def print_failures(data: CoverageData, n: int, console: Console) -> None:
    """Print up to n failing cases of every test, and of every context with labels."""
    shown = 0
    for outline, outcome, rows in judged_cases(data):
        if outcome.failing:
            console.print(_heading(outcome, outline))
            console.print(_cases(data, outline, outcome, rows, n))
            shown += 1
    for context in range(len(data.contexts)):
        wrong = _wrong_rows(data, context)
        if len(wrong):
            console.print(Text(f"{data.contexts[context]}: {len(wrong):,} wrong", style="bold"))
            console.print(_wrong(data, wrong[:n].tolist()))
            shown += 1
    if not shown:
        console.print("No case fails.")


def _heading(outcome: Outcome, outline: Outline) -> Text:
    text = Text(outcome.test.name, style="bold")
    expects = describe_expectation(outcome.test.expectation, outline.labels)
    text.append(f": {outcome.failing:,} of {outcome.judged:,} fail; expects {expects}", "not bold")
    return text


def _table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", min_width=20)
    return table


def _cases(
    data: CoverageData, outline: Outline, outcome: Outcome, rows: Sequence[Sequence[int]], n: int
) -> Table:
    table, classes = _table(), outline.labels or data.identity.labels
    for case in (outcome.verdicts == FAILS).nonzero()[0][:n]:
        mine = list(rows[case])
        answers = in_suite_classes(
            data.table.probabilities[mine], data.identity.labels, outline.labels, outline.classes
        )
        right = _right(outcome.test.cases[case].label, classes)
        for i, row in enumerate(mine):
            said = int(answers.classes[i])
            share = float(answers.probabilities[i, said]) if said >= 0 else float("nan")
            table.add_row(
                f"case {case}" if i == 0 else "",
                *_said(said, share, classes),
                _quoted(data.table.texts[row], right if i == 0 else ""),
            )
    table.add_row()
    return table


def _said(number: int, share: float, classes: Sequence[str]) -> tuple[Text, str]:
    if number < 0 or np.isnan(share):
        return Text("not run"), ""
    return Text(classes[number]), f"{display_percent(share, 1)} %"


def _right(label: Label, classes: Sequence[str]) -> str:
    if label is None:
        return ""
    labels = label if isinstance(label, tuple) else (label,)
    names = [classes[x] if isinstance(x, int) and x < len(classes) else str(x) for x in labels]
    return f"  (right: {' or '.join(names)})"


def _quoted(text: Given, right: str) -> Text:
    return Text(shorten(text, LONGEST)).append(right, style="dim")


def _wrong_rows(data: CoverageData, context: int) -> NDArray[np.int64]:
    table = data.table
    known = (table["label"] != UNKNOWN) & (table["prediction"] != UNKNOWN)
    mine = known & (table["context"] == context) & (table["label"] != table["prediction"])
    return np.flatnonzero(mine)


def _wrong(data: CoverageData, rows: Sequence[int]) -> Table:
    table, classes = _table(), data.identity.labels
    for row in rows:
        said = int(data.table["prediction"][row])
        share = float(data.table.probabilities[row, said])
        right = _right(int(data.table["label"][row]), classes)
        place = f"text {data.table['index'][row]}"
        table.add_row(place, *_said(said, share, classes), _quoted(data.table.texts[row], right))
    table.add_row()
    return table
