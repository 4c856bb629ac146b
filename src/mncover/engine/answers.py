"""What came of the texts of a run; the same text may come again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.owners import Block
from mncover.data.prompting import Prompting
from mncover.data.table import UNKNOWN, NewCells, Signatures, Table
from mncover.data.texts import first_equal
from mncover.errors import TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.rows import Rows
from mncover.types import brief


class Answered(NamedTuple):
    """What a model made of texts: their lengths, which were cut, classes, and signatures."""

    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    signatures: Signatures

    @classmethod
    def in_rows(cls, table: Table, rows: NDArray[np.integer[Any]]) -> Answered:
        """Return what some rows of a table have."""
        lengths = table["length"][rows].astype(np.int64)
        answers = table.probabilities[rows], table.signatures[rows]
        return cls(lengths, table["truncated"][rows], *answers)


class Added(NamedTuple):
    """What came of texts that were run in order: answers, new cells [2, texts], some hits."""

    answered: Answered
    new: dict[str, NewCells]
    sampled: list[Block]


class Answers:
    """The answers to texts that are run one part after the other; the same text may come again.

    `which` has for each row the number of its text. Only of texts that come again anything stays
    when the next part comes.
    """

    def __init__(self, texts: int, which: NDArray[np.int32]) -> None:
        again = np.flatnonzero(np.bincount(which, minlength=texts) > 1)
        self._place = np.full(texts, UNKNOWN, np.int32)
        self._place[again] = np.arange(len(again))
        self._kept: Answered | None = None
        self._now: tuple[int, Answered] | None = None  # from which text on

    def put(self, where: slice, found: Answered) -> None:
        """Take the answers to some texts, which are the current ones from then on."""
        self._now = where.start or 0, found
        mine = self._place[where]
        again = mine != UNKNOWN
        if self._kept is None:
            n = int(self._place.max(initial=UNKNOWN)) + 1
            self._kept = Answered(*(np.zeros((n, *one.shape[1:]), one.dtype) for one in found))
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self._kept, found, strict=True)
        for old, new in pairs:
            old[mine[again]] = new[again]

    def of(self, texts: NDArray[np.int32]) -> Answered:
        """Return the answers to current texts, and to earlier ones that come again."""
        assert self._now is not None
        assert self._kept is not None
        start, found = self._now
        now = texts >= start
        columns = []
        pairs: Iterable[tuple[NDArray[Any], NDArray[Any]]] = zip(self._kept, found, strict=True)
        for old, new in pairs:
            column = np.empty((len(texts), *new.shape[1:]), new.dtype)
            column[now] = new[texts[now] - start]
            column[~now] = old[self._place[texts[~now]]]
            columns.append(column)
        return Answered(*columns)


def judged_rows(prompting: Prompting, rows: Rows, answers: Sequence[str]) -> NDArray[np.int8] | int:
    """Return what the user's function says of each answer: 1 or 0, UNKNOWN where it is not asked.

    It is asked about the cases of tests that expect it.
    """
    judge, suite = prompting.judge, rows.suite
    if judge is None or not answers or suite is None:
        return UNKNOWN
    starts = np.cumsum([0, *(len(test.cases) for test in suite.tests)])
    found = np.full(len(rows), UNKNOWN, dtype=np.int8)
    for row, (text, answer) in enumerate(zip(rows.texts, answers, strict=True)):
        number = int(np.searchsorted(starts, rows.cases[row], "right")) - 1
        test = suite.tests[number]
        if isinstance(test.expectation, AnswerExpectation) and test.expectation.asks:
            case = test.cases[rows.cases[row] - int(starts[number])]
            try:
                said = judge(text, answer, case.label)
            except Exception as error:  # it is the user's own, and may do anything
                name, why = getattr(judge, "__name__", "judge"), brief(str(error))
                raise TextError(
                    f"the function {name!r} fails for the answer {brief(answer)} "
                    f"({type(error).__name__}: {why})."
                ) from error
            found[row] = UNKNOWN if said is None else bool(said)
    return found


def first_of_each(rows: Rows) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the rows whose text their context did not have before, and for each row which it is.

    Texts a, b, a of one context and b of the next give [0, 1, 3] and [0, 1, 0, 2].
    """
    same = first_equal(rows.texts)
    first, seen = np.empty_like(same), np.empty_like(same)
    for start, stop in rows.cuts_of_contexts():
        mine, places = same[start:stop], np.arange(start, stop, dtype=np.int32)
        seen[mine[::-1]] = places[::-1]  # of several, the last one that is set stays
        first[start:stop] = seen[mine]
    is_first = first == np.arange(len(first))
    numbers = np.cumsum(is_first, dtype=np.int32) - 1
    return np.flatnonzero(is_first).astype(np.int32), numbers[first]
