"""Judge the suites of tests that a data file holds. It belongs to the reading half."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mncover.data import CoverageData
from mncover.suites.answers import in_suite_classes
from mncover.suites.failures import Outcome, judge_suite
from mncover.suites.outline import Outline


def judge_data(data: CoverageData) -> Iterator[Outcome]:
    """Judge the cases of every suite that was run, as far as they are complete."""
    for number, run in enumerate(data.runs):
        outline = data.outlines.get(run.id)
        if outline is not None:
            yield from _judge_run(data, number, outline)


def _judge_run(data: CoverageData, number: int, outline: Outline) -> list[Outcome]:
    table, sizes = data.table, outline.sizes
    by_case: list[list[int]] = [[] for _ in sizes]
    rows = np.flatnonzero(table["run"] == number)
    for row in rows[np.argsort(table["index"][rows], kind="stable")]:
        by_case[table["case"][row]].append(int(row))
    suite = outline.filled([tuple(table.texts[row] for row in mine) for mine in by_case])
    whole = [mine for mine, size in zip(by_case, sizes, strict=True) if len(mine) == size]
    answers = in_suite_classes(
        table.probabilities[[row for mine in whole for row in mine]],
        data.identity.labels,
        outline.labels,
        outline.classes,
    )
    return judge_suite(suite, answers)
