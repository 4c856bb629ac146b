"""Judge the suites of tests that a data file holds. It belongs to the reading half."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mncover.data import CoverageData
from mncover.suites.answers import in_suite_classes
from mncover.suites.failures import Outcome, judge_suite
from mncover.suites.outline import Outline
from mncover.texts import Text


def judge_data(data: CoverageData) -> Iterator[Outcome]:
    """Judge the cases of every suite that was run, as far as they are complete."""
    for _, outcome, _ in judged_cases(data):
        yield outcome


def judged_cases(data: CoverageData) -> Iterator[tuple[Outline, Outcome, list[list[int]]]]:
    """Yield the outcome of every test, with its suite and the table's rows of each of its cases."""
    for number, run in enumerate(data.runs):
        outline = data.outlines.get(run.id)
        if outline is None:
            continue
        whole = [rows for _, rows in complete_cases(data, number)]
        for outcome in judge_run(data, number):
            n = len(outcome.test.cases)
            yield outline, outcome, whole[:n]
            whole = whole[n:]


def complete_cases(data: CoverageData, run: int) -> list[tuple[int, list[int]]]:
    """Return the number and the rows of every case of a run all of whose texts were run."""
    table, sizes = data.table, data.outlines[data.runs[run].id].sizes
    by_case: list[list[int]] = [[] for _ in sizes]
    rows = np.flatnonzero(table["run"] == run)
    for row in rows[np.argsort(table["index"][rows], kind="stable")]:
        by_case[table["case"][row]].append(int(row))
    pairs = zip(by_case, sizes, strict=True)
    return [(number, mine) for number, (mine, size) in enumerate(pairs) if len(mine) == size]


def judge_run(data: CoverageData, number: int) -> list[Outcome]:
    """Judge the complete cases of one run, which must have an outline."""
    table, outline = data.table, data.outlines[data.runs[number].id]
    texts: list[tuple[Text, ...]] = [()] * len(outline.sizes)
    whole = complete_cases(data, number)
    for case, rows in whole:
        texts[case] = tuple(table.texts[row] for row in rows)
    answers = in_suite_classes(
        table.probabilities[[row for _, rows in whole for row in rows]],
        data.identity.labels,
        outline.labels,
        outline.classes,
    )
    return judge_suite(outline.filled(texts), answers)
