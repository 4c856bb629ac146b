"""One row per case of a data file, and how it went.

In a suite of tests a case is the suite's; in a plain file of texts every text is a case, which
fails if the model's class is not its label. No torch here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Parted, taken
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.errors import DataFileError
from mncover.selection.nearest import Nearest, nearest
from mncover.suites.judging import FAILS, NOT_JUDGED, PASSES, complete_cases, judge_run, outline_of
from mncover.suites.model import Outline, Suite
from mncover.types import Text

NEIGHBOURS = 20  # training texts that scores look at


@dataclass(frozen=True)
class Cases:
    """The complete cases of a run, in its order.

    `test` is the number of each case's test among `tests`, `rows` has its rows in the data's
    table, `number` its place in the suite. `outline` is that of its suite of tests, if any.
    `given` has scores of the cases, by name, that took more than their data to compute.
    """

    data: CoverageData
    outline: Outline | None
    tests: tuple[str, ...]
    test: NDArray[np.int64]
    number: NDArray[np.int64]
    rows: Parted
    verdicts: NDArray[np.int8]
    given: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def judged(self) -> int:
        """How many of them are known to pass or to fail."""
        return int((self.verdicts != NOT_JUDGED).sum())

    def part(self, positions: NDArray[np.int64]) -> Cases:
        """Return some of the cases, in the given order."""
        mine = {name: getattr(self, name)[positions] for name in ("test", "number", "verdicts")}
        given = {name: scores[positions] for name, scores in self.given.items()}
        return replace(self, rows=self.rows.taken(positions), given=given, **mine)

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over the texts of each case."""
        return np.array([values[rows].sum() for rows in self.rows], dtype=np.float64)

    def largest(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the largest value among the texts of each case."""
        return np.array([values[rows].max() for rows in self.rows], dtype=np.float64)

    @cached_property
    def nearest(self) -> Nearest:
        """The nearest training texts of each row of the table, in the middle layer."""
        space = self.data.space
        assert space is not None  # whoever asks has made sure
        return nearest(self.data.table.signatures[:, space.middle], space.reference, NEIGHBOURS)

    def texts(self, case: int) -> tuple[Text, ...]:
        """Return the texts of a case."""
        return tuple(taken(self.data.table.texts, self.rows[case]))


def cases_of(data: CoverageData) -> Cases:
    """Return the cases of a data file of one run."""
    _require_one_run(data)
    return cases_by_run(data)[0]


def _require_one_run(data: CoverageData) -> None:
    if len(data.runs) != 1:
        n = len(data.runs)
        raise DataFileError(f"it holds {n} runs; cases are chosen from the data file of one run")


def case_rows(data: CoverageData) -> tuple[NDArray[np.int64], Parted]:
    """Return the number of each case of a data file of one run, and its rows; nothing is judged."""
    _require_one_run(data)
    if data.runs[0].id in data.outlines:
        return complete_cases(data, 0)
    order = np.argsort(data.table["index"], kind="stable")
    return data.table["index"][order], _each_alone(order)


def _each_alone(rows: NDArray[np.int64]) -> Parted:
    return Parted(rows, np.arange(len(rows) + 1))


def cases_by_run(data: CoverageData) -> list[Cases]:
    """Return the cases of every run."""
    found = []
    for number, run in enumerate(data.runs):
        mine = data.table["run"] == number
        outline = outline_of(data, run.id)
        if outline is not None:
            found.append(_suite_cases(data, number, outline))
        elif (data.table["case"][mine] != UNKNOWN).any():
            raise DataFileError("the model has no classes, so the cases of its suite were not kept")
        else:
            found.append(_texts_as_cases(data, np.flatnonzero(mine)))
    return found


def _texts_as_cases(data: CoverageData, rows: NDArray[np.int64]) -> Cases:
    table = data.table
    order = rows[np.argsort(table["index"][rows], kind="stable")]
    label, prediction = table["label"][order], table["prediction"][order]
    verdicts = np.where(label == prediction, PASSES, FAILS)
    verdicts[(label == UNKNOWN) | (prediction == UNKNOWN)] = NOT_JUDGED
    tests, test = tuple(data.contexts), table["context"][order].astype(np.int64)
    numbers = table["index"][order]
    return Cases(data, None, tests, test, numbers, _each_alone(order), verdicts.astype(np.int8))


def _suite_cases(data: CoverageData, run: int, outline: Outline) -> Cases:
    of_test = np.repeat(np.arange(len(outline.tests)), [len(cases) for cases in outline.cases])
    numbers, rows = complete_cases(data, run)
    tests = tuple(test.name for test in outline.tests)
    found = [outcome.verdicts for outcome in judge_run(data, run)]
    verdicts = np.concatenate([np.zeros(0, dtype=np.int8), *found])
    return Cases(data, outline, tests, of_test[numbers], numbers, rows, verdicts)


def reduced_suite(cases: Cases, chosen: NDArray[np.int64], outline: Outline) -> Suite:
    """Return the suite of the chosen cases; a test of which nothing is left is left out."""
    mine = chosen[np.unique(cases.number[chosen], return_index=True)[1]]
    texts = taken(cases.data.table.texts, cases.rows.taken(mine).values)
    return outline.filled(cases.number[mine], texts)
