"""What came of the texts of a run, kept until its end: the same text may come again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.owners import Block
from mncover.data.prompting import Prompting
from mncover.data.table import UNKNOWN, NewCells, Signatures, Table
from mncover.errors import TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.rows import Rows
from mncover.types import Text, brief


class Added(NamedTuple):
    """What came of texts that were run in order: answers, new cells [2, texts], some hits."""

    lengths: NDArray[np.int64]
    truncated: NDArray[np.bool_]
    probabilities: NDArray[np.float32]
    signatures: Signatures
    new: dict[str, NewCells]
    sampled: list[Block]


class Answers:
    """The answers to all texts that are run; the same text may come again in its context."""

    def __init__(self, texts: int, labels: int, numbers: int) -> None:
        self.lengths = np.zeros(texts, dtype=np.int64)
        self.truncated = np.zeros(texts, dtype=np.bool_)
        self.probabilities = np.zeros((texts, labels), dtype=np.float32)
        self.signatures = np.zeros((texts, numbers), dtype=np.float16)

    def put(self, where: slice, added: Added) -> None:
        """Keep the answers to some texts."""
        self.lengths[where], self.truncated[where] = added.lengths, added.truncated
        self.probabilities[where] = added.probabilities
        self.signatures[where] = added.signatures

    def restore(self, where: slice, table: Table, rows: Sequence[int]) -> None:
        """Take answers from a table."""
        self.lengths[where], self.truncated[where] = table["length"][rows], table["truncated"][rows]
        self.probabilities[where] = table.probabilities[rows]
        self.signatures[where] = table.signatures[rows]

    def of(self, texts: NDArray[np.int64]) -> tuple[Any, Any, Any, Any]:
        """Return lengths, what was cut, probabilities and signatures of some texts."""
        sizes = self.lengths[texts], self.truncated[texts]
        return *sizes, self.probabilities[texts], self.signatures[texts]


def judged_rows(prompting: Prompting, rows: Rows, answers: Sequence[str]) -> NDArray[np.int8] | int:
    """Return what the user's function says of each answer: 1 or 0, UNKNOWN where it is not asked.

    It is asked about the cases of tests that expect it.
    """
    judge, suite = prompting.judge, rows.suite
    if judge is None or not answers or suite is None:
        return UNKNOWN
    every = [(test.expectation, case) for test in suite.tests for case in test.cases]
    found = np.full(len(rows), UNKNOWN, dtype=np.int8)
    for row, (text, answer) in enumerate(zip(rows.texts, answers, strict=True)):
        expects, case = every[rows.cases[row]]
        if isinstance(expects, AnswerExpectation) and expects.asks:
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


def first_of_each(rows: Rows) -> tuple[list[int], NDArray[np.int64]]:
    """Return the rows whose text their context did not have before, and for each row which it is.

    Texts a, b, a of one context and b of the next give [0, 1, 3] and [0, 1, 0, 2].
    """
    found: list[int] = []
    which: list[int] = []
    for _, part in groupby(range(len(rows)), lambda row: rows.contexts[row]):
        seen: dict[Text, int] = {}
        for row in part:
            which.append(seen.setdefault(rows.texts[row], len(found)))
            if which[-1] == len(found):
                found.append(row)
    return found, np.array(which, dtype=np.int64)
