"""What the page of one test shows: failing and redundant cases, and its curve. No torch here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mncover.data.results import gain_share
from mncover.data.table import UNKNOWN
from mncover.report.describe import describe_expectation
from mncover.selection.cases import Cases
from mncover.suites.expectations import Answers, Expectation
from mncover.suites.judging import (
    FAILS,
    NOT_JUDGED,
    PASSES,
    in_suite_classes,
    outline_of,
    text_verdicts,
)
from mncover.suites.model import Case, Label, Outline, Test
from mncover.types import Text

MOST_FAILING, MOST_REDUNDANT, MOST_CHANGED = 100, 50, 50
MOST_TEXTS = 6  # of one case
LONGEST = 400  # characters of one text
CURVE_POINTS = 100

Piece = tuple[str, bool]  # a piece of a text, and whether it differs from the original


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text with what the model said; `passes` is None if it was not judged."""

    pieces: list[Piece]
    said: str
    percent: float | None
    passes: bool | None


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case with some of its texts."""

    number: int
    texts: list[ShownText]
    right: str = ""
    left_out: int = 0
    like: str = ""  # of a redundant case: the text of the kept case that it is most like


@dataclass(frozen=True, slots=True)
class TestPage:
    """Everything that the page of one test shows."""

    __test__ = False  # for pytest, which takes the class for one of its own

    name: str
    kind: str
    capability: str
    description: str
    expects: str
    cases: int
    judged: int
    failing: int
    redundant: int | None
    failing_cases: list[ShownCase]
    redundant_cases: list[ShownCase]
    curve: list[tuple[int, float]]
    newly_failing: list[ShownCase] = field(default_factory=list)
    newly_passing: list[ShownCase] = field(default_factory=list)
    changed: tuple[int, int] = (0, 0)
    compared: int = 0


Earlier = dict[tuple[str, tuple[Text, ...]], int]  # verdicts of an earlier run, by test and texts


def earlier_verdicts(by_run: Sequence[Cases]) -> Earlier:
    """Return the verdict of every case of an earlier data file."""
    found: Earlier = {}
    for cases in by_run:
        for i, rows in enumerate(cases.rows):
            texts = tuple(cases.data.table.texts[row] for row in rows)
            found[cases.tests[cases.test[i]], texts] = int(cases.verdicts[i])
    return found


class PageMaker:
    """Makes the pages of the tests of one run."""

    def __init__(self, cases: Cases, redundant_at: float, earlier: Earlier | None) -> None:
        self.cases = cases
        self.data = cases.data
        self.outline: Outline | None = self._outline()
        by_test = () if self.outline is None else self.outline.cases
        self.labels: list[Label] = [label for cases in by_test for _, label in cases]
        self.redundant_at = redundant_at
        self.earlier = earlier
        self.novelty = cases.scores("novelty") if "novelty" in cases.methods else None

    def pages(self) -> list[TestPage]:
        """Return a page for every test that has cases."""
        return [
            self._page(int(number), np.flatnonzero(self.cases.test == number))
            for number in np.unique(self.cases.test)
        ]

    def _outline(self) -> Outline | None:
        if not len(self.cases):
            return None
        run = self.data.runs[int(self.data.table["run"][self.cases.rows[0][0]])]
        return outline_of(self.data, run.id)

    def _page(self, number: int, mine: NDArray[np.int64]) -> TestPage:
        verdicts = self.cases.verdicts[mine]
        test = self._test(number)
        failing = mine[verdicts == FAILS]
        redundant = self._redundant(mine)
        newly, healed, compared = self._changes(number, mine)
        return TestPage(
            name=test.name,
            kind=test.kind if self.outline is not None else "",
            capability=test.capability,
            description=test.description,
            expects=self._expects(test),
            cases=len(mine),
            judged=int((verdicts != NOT_JUDGED).sum()),
            failing=len(failing),
            redundant=None if redundant is None else len(redundant),
            failing_cases=[self._shown(test, case) for case in failing[:MOST_FAILING]],
            redundant_cases=self._shown_redundant(test, mine, redundant),
            curve=self._curve(mine),
            newly_failing=[self._shown(test, case) for case in newly[:MOST_CHANGED]],
            newly_passing=[self._shown(test, case) for case in healed[:MOST_CHANGED]],
            changed=(len(newly), len(healed)),
            compared=compared,
        )

    def _test(self, number: int) -> Test:
        if self.outline is not None:
            return self.outline.tests[number]
        return Test(self.cases.tests[number], "MFT", Expectation("label"), ())

    def _expects(self, test: Test) -> str:
        if self.outline is None:
            return "the label"
        return describe_expectation(test.expectation, self._classes())

    def _classes(self) -> tuple[str, ...]:
        named = self.outline.labels if self.outline is not None else ()
        return named or self.data.identity.labels

    # Failing cases.

    def _shown(self, test: Test, case: int) -> ShownCase:
        """Return a case: its original and the texts that fail, up to a limit."""
        rows = self.cases.rows[case]
        answers, label = self._answers(rows), self._label(case)
        texts = [self.data.table.texts[row] for row in rows]
        if self.outline is not None:
            passes = text_verdicts(test, Case(tuple(texts), label), answers, self._classes())
        else:
            passes = [self.cases.verdicts[case] == PASSES]
        places = [i for i in range(len(rows)) if i == 0 or passes[i] is False]
        shown = [
            self._shown_text(texts[i], texts[0] if i else None, answers, i, passes[i])
            for i in places[:MOST_TEXTS]
        ]
        return ShownCase(
            int(self.cases.number[case]),
            shown,
            self._right(label),
            len(rows) - len(shown),
        )

    def _answers(self, rows: NDArray[np.int64]) -> Answers:
        outline, found = self.outline, self.data.table.probabilities[rows]
        if outline is None:
            return in_suite_classes(found, self.data.identity.labels, ())
        return in_suite_classes(found, self.data.identity.labels, outline.labels, outline.classes)

    def _label(self, case: int) -> Label:
        if self.outline is None:
            label = int(self.data.table["label"][self.cases.rows[case][0]])
            return None if label == UNKNOWN else label
        return self.labels[int(self.cases.number[case])]

    def _right(self, label: Label) -> str:
        if label is None:
            return ""
        classes = self._classes()
        names = label if isinstance(label, tuple) else (label,)
        return " or ".join(
            classes[n] if isinstance(n, int) and n < len(classes) else str(n) for n in names
        )

    def _shown_text(
        self, text: Text, original: Text | None, answers: Answers, i: int, passes: bool | None
    ) -> ShownText:
        said = int(answers.classes[i]) if answers.probabilities.shape[1] else -1
        if said < 0:
            return ShownText(_pieces(text, original), "", None, passes)
        share = float(answers.probabilities[i, said])
        return ShownText(_pieces(text, original), self._classes()[said], 100 * share, passes)

    # Redundant cases.

    def _redundant(self, mine: NDArray[np.int64]) -> NDArray[np.int64] | None:
        if self.novelty is None:
            return None
        return mine[self.novelty[mine] <= self.redundant_at]

    def _shown_redundant(
        self, test: Test, mine: NDArray[np.int64], redundant: NDArray[np.int64] | None
    ) -> list[ShownCase]:
        if redundant is None or not len(redundant):
            return []
        gone = set(redundant.tolist())
        kept = [int(case) for case in mine if int(case) not in gone]
        words = {case: self._words(case) for case in kept}
        shown = []
        for case in redundant[:MOST_REDUNDANT].tolist():
            like = _most_like(self._words(case), [c for c in kept if c < case][-2000:], words)
            texts = [self.data.table.texts[row] for row in self.cases.rows[case]]
            pieces = [ShownText(_pieces(texts[0], None), "", None, None)]
            shown.append(
                ShownCase(
                    int(self.cases.number[case]),
                    pieces,
                    left_out=len(texts) - 1,
                    like="" if like is None else _flat(self._first_text(like)),
                )
            )
        return shown

    def _first_text(self, case: int) -> Text:
        return self.data.table.texts[int(self.cases.rows[case][0])]

    def _words(self, case: int) -> frozenset[str]:
        return frozenset(re.findall(r"\w+", _flat(self._first_text(case)).casefold()))

    # The curve, and what changed.

    def _curve(self, mine: NDArray[np.int64]) -> list[tuple[int, float]]:
        """Return what the test has added to Cover after so many of its texts."""
        table, identity = self.data.table, self.data.identity
        rows = np.concatenate([self.cases.rows[case] for case in mine])
        if (table["new_hidden"][rows] == UNKNOWN).any():
            return []
        new = [table[name][rows] for name in ("new_hidden", "new_attention")]
        shares = np.cumsum(gain_share(identity.layout, identity.settings, *new))
        n = len(shares)
        places = np.unique(np.linspace(0, n - 1, min(n, CURVE_POINTS)).round().astype(int))
        return [(int(place) + 1, float(shares[place])) for place in places]

    def _changes(self, number: int, mine: NDArray[np.int64]) -> tuple[list[int], list[int], int]:
        """Return the cases that fail anew, those that no longer do, and how many both runs have."""
        newly: list[int] = []
        healed: list[int] = []
        compared = 0
        for case in mine.tolist() if self.earlier is not None else ():
            texts = tuple(self.data.table.texts[row] for row in self.cases.rows[case])
            before = (self.earlier or {}).get((self.cases.tests[number], texts))
            if before is None:
                continue
            compared += 1
            now = int(self.cases.verdicts[case])
            if now == FAILS and before == PASSES:
                newly.append(case)
            elif now == PASSES and before == FAILS:
                healed.append(case)
        return newly, healed, compared


def _flat(text: Text) -> str:
    joined = text if isinstance(text, str) else " | ".join(text)
    return joined if len(joined) <= LONGEST else joined[: LONGEST - 1] + "…"


def _pieces(text: Text, original: Text | None) -> list[Piece]:
    """Return a text in pieces, with those marked that the original does not have."""
    if original is None:
        return [(_flat(text), False)]
    new, old = (re.findall(r"\s+|\w+|[^\w\s]", _flat(t)) for t in (text, original))
    pieces: list[Piece] = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if start < end:
            pieces.append(("".join(new[start:end]), kind != "equal"))
    return pieces


def _most_like(
    words: frozenset[str], kept: Sequence[int], words_of: dict[int, frozenset[str]]
) -> int | None:
    """Return the kept case that shares most words; of equals the first."""
    best, found = 0.0, None
    for case in kept:
        other = words_of[case]
        share = len(words & other) / max(1, len(words | other))
        if share > best:
            best, found = share, case
    return found
