"""The page of one test: its failing cases, those that add little, and its curve. No torch here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.calibration import to_reachable
from mncover.data.gains import gains
from mncover.data.table import UNKNOWN
from mncover.report.describe import class_names, describe_expectation, said
from mncover.selection.cases import Cases
from mncover.selection.scores import available, score_cases
from mncover.selection.sets import thinned
from mncover.suites.answers import AnswerExpectation
from mncover.suites.expectations import Expectation
from mncover.suites.judging import FAILS, NOT_JUDGED, PASSES, answers_to, text_verdicts
from mncover.suites.model import Case, Label, Test
from mncover.types import Text, fitted

MOST_FAILING, MOST_LITTLE, MOST_CHANGED = 100, 50, 50
MOST_TEXTS = 6  # of one case
LONGEST = 400  # characters of one text
CURVE_POINTS = 100
MISSING = -2  # the verdict of a case that an earlier run does not have

Piece = tuple[str, bool]  # a piece of a text, and whether it differs from the original
Indices = NDArray[np.int64]


class Place(NamedTuple):
    """Where a text is: its case, the case's test, and the page of that."""

    case: int
    test: str
    page: str


class Places:
    """Where each row of a table is shown; pages are numbered as they are made."""

    def __init__(self, by_run: Sequence[Cases]) -> None:
        rows = len(by_run[0].data.table) if by_run else 0
        self._page, self._case = np.zeros(rows, np.int32), np.zeros(rows, np.int64)
        self._tests: list[str] = []
        for cases in by_run:
            for test in np.unique(cases.test).tolist():
                self._tests.append(cases.tests[test])
                mine = np.flatnonzero(cases.test == test)
                of_case = cases.rows.taken(mine)
                self._page[of_case.values] = len(self._tests)
                self._case[of_case.values] = np.repeat(cases.number[mine], of_case.sizes)

    def of(self, row: int) -> Place | None:
        """Return where a row is shown; None for a text that no complete case has."""
        page = int(self._page[row])
        if not page:
            return None
        return Place(int(self._case[row]), self._tests[page - 1], page_name(page))


def page_name(number: int) -> str:
    """Return the name of a test's page; the first has number 1."""
    return f"{number:04d}.html"


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text with what the model said; `passes` is None if it was not judged."""

    pieces: list[Piece]
    said: str
    percent: float | None
    passes: bool | None


@dataclass(frozen=True, slots=True)
class ShownOwner:
    """The text that was the first to hit more of a case's bins than any other, and how many.

    `place` is None if the case that it belongs to is on no page. `elsewhere` says that it is in
    another test.
    """

    text: str
    place: Place | None
    percent: float
    elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class ShownCase:
    """A case with some of its texts."""

    number: int
    texts: list[ShownText]
    right: str = ""
    left_out: int = 0
    owner: ShownOwner | None = None  # of a case that adds little, if it is known
    fails: bool = False
    outside: float | None = None  # the share of its values that no range holds


@dataclass(frozen=True, slots=True)
class TestPage:
    """Everything that the page of one test shows.

    `outside` is the mean share of a text's values that no range holds. `changed` counts the newly
    failing and passing cases of those `compared` with an earlier run.
    """

    __test__ = False  # for pytest, which takes the class for one of its own

    test: Test
    kind: str
    expects: str
    cases: int
    judged: int
    failing: int
    little: int | None
    little_failing: int
    outside: float | None
    failing_cases: list[ShownCase]
    little_cases: list[ShownCase]
    curve: list[tuple[int, float]]
    newly_failing: list[ShownCase]
    newly_passing: list[ShownCase]
    changed: tuple[int, int]
    compared: int


Earlier = dict[tuple[str, tuple[Text, ...]], int]  # verdicts of an earlier run, by test and texts


def earlier_verdicts(by_run: Sequence[Cases]) -> Earlier:
    """Return the verdict of every case of an earlier data file."""
    found: Earlier = {}
    for cases in by_run:
        for i in range(len(cases)):
            found[cases.tests[cases.test[i]], cases.texts(i)] = int(cases.verdicts[i])
    return found


class PageMaker:
    """Makes the pages of the tests of one run; `places` are those of all runs."""

    def __init__(
        self,
        cases: Cases,
        adds_little_at: float,
        earlier: Earlier | None = None,
        places: Places | None = None,
    ) -> None:
        self.cases, self.outline = cases, cases.outline
        self.places = Places([cases]) if places is None else places
        by_test = () if self.outline is None else self.outline.cases
        self.labels: list[Label] = [label for cases in by_test for _, label in cases]
        named = () if self.outline is None else self.outline.labels
        self.classes: tuple[str, ...] = named or cases.data.identity.labels
        self.earlier = earlier or {}
        novelty = score_cases(cases, "novelty") if "novelty" in available(cases) else None
        self.little = None if novelty is None else novelty <= adds_little_at

    def pages(self) -> list[TestPage]:
        """Return a page for every test that has cases."""
        return [
            self._page(int(number), np.flatnonzero(self.cases.test == number))
            for number in np.unique(self.cases.test)
        ]

    def _page(self, number: int, mine: Indices) -> TestPage:
        test, expects, kind = self._test(number)
        verdicts = self.cases.verdicts[mine]
        failing = mine[verdicts == FAILS]
        little = None if self.little is None else mine[self.little[mine]]
        before = self._before(number, mine)
        newly = mine[(verdicts == FAILS) & (before == PASSES)]
        fixed = mine[(verdicts == PASSES) & (before == FAILS)]
        return TestPage(
            test=test,
            kind=kind,
            expects=expects,
            cases=len(mine),
            judged=int((verdicts != NOT_JUDGED).sum()),
            failing=len(failing),
            little=None if little is None else len(little),
            little_failing=0 if little is None else int(np.isin(little, failing).sum()),
            outside=self._outside(mine),
            failing_cases=[self._shown(test, case) for case in failing[:MOST_FAILING]],
            little_cases=[] if little is None else self._shown_little(little),
            curve=self._curve(mine),
            newly_failing=[self._shown(test, case) for case in newly[:MOST_CHANGED]],
            newly_passing=[self._shown(test, case) for case in fixed[:MOST_CHANGED]],
            changed=(len(newly), len(fixed)),
            compared=int((before != MISSING).sum()),
        )

    def _test(self, number: int) -> tuple[Test, str, str]:
        """Return a test, what it expects and its kind; plain texts are expected to have a label."""
        if self.outline is None:
            name = self.cases.tests[number]
            return Test(name, "MFT", Expectation("label"), ()), "the label", ""
        test = self.outline.tests[number]
        return test, describe_expectation(test.expectation, self.classes), test.kind

    def _before(self, number: int, mine: Indices) -> Indices:
        """Return the verdicts of an earlier run on some cases of a test."""
        if not self.earlier:
            return np.full(len(mine), MISSING, dtype=np.int64)
        keys = [(self.cases.tests[number], self.cases.texts(case)) for case in mine.tolist()]
        return np.array([self.earlier.get(key, MISSING) for key in keys], dtype=np.int64)

    # Failing cases.

    def _shown(self, test: Test, case: int) -> ShownCase:
        """Return a case: its original and the texts that fail, up to a limit."""
        texts, label = self.cases.texts(case), self._label(case)
        answers = answers_to(self.cases.data, self.outline, self.cases.rows[case])
        passes: list[bool | None] = [bool(self.cases.verdicts[case] == PASSES)]
        if self.outline is not None:
            passes = text_verdicts(test, Case(texts, label), answers, self.classes)
        found = list(said(answers, self.classes))
        shown = []
        for i in [i for i in range(len(texts)) if i == 0 or passes[i] is False][:MOST_TEXTS]:
            (name, share), original = found[i], texts[0] if i else None
            percent = 100 * share if name and share == share else None
            shown.append(ShownText(pieces(texts[i], original), name, percent, passes[i]))
        number = int(self.cases.number[case])
        outside = self._outside(np.array([case]))
        right, left_out = class_names(label, self.classes), len(texts) - len(shown)
        if isinstance(test.expectation, AnswerExpectation):
            right = describe_expectation(test.expectation, (), label)
        return ShownCase(number, shown, right, left_out, outside=outside)

    def _label(self, case: int) -> Label:
        if self.outline is not None:
            return self.labels[int(self.cases.number[case])]
        label = int(self.cases.data.table["label"][self.cases.rows[case][0]])
        return None if label == UNKNOWN else label

    # Cases that add little, and the curve.

    def _outside(self, cases: Indices) -> float | None:
        """Return the mean share of the values of some cases that no range holds, if it is known."""
        rows = self.cases.rows.taken(cases).values
        known = self.cases.data.table["outside"][rows]
        known = known[~np.isnan(known)]
        return float(known.mean(dtype=np.float64)) if len(known) else None

    def _shown_little(self, little: Indices) -> list[ShownCase]:
        """Return cases that add little, those that fail first, each with what hit it before."""
        fails = self.cases.verdicts[little] == FAILS
        shown = []
        for case in little[np.argsort(~fails, kind="stable")][:MOST_LITTLE].tolist():
            first, *others = self.cases.texts(case)
            texts = [ShownText(pieces(first, None), "", None, None)]
            number, owner = int(self.cases.number[case]), self._owner(case)
            failing = bool(self.cases.verdicts[case] == FAILS)
            shown.append(ShownCase(number, texts, "", len(others), owner, failing))
        return shown

    def _owner(self, case: int) -> ShownOwner | None:
        """Return the owner of the text of a case that another case owns most of."""
        table, rows = self.cases.data.table, self.cases.rows[case]
        owners = table["owner"][rows]
        shares = np.where(np.isin(owners, [UNKNOWN, *rows]), 0.0, table["owned"][rows])
        if not shares.any():
            return None
        best = int(np.argmax(shares))
        row = int(owners[best])
        place, mine = self.places.of(row), self.places.of(int(rows[best]))
        elsewhere = place is not None and mine is not None and place.page != mine.page
        return ShownOwner(_flat(table.texts[row]), place, 100 * float(shares[best]), elsewhere)

    def _curve(self, mine: Indices) -> list[tuple[int, float]]:
        """Return what the test has added after some of its texts, of the main reachable bins."""
        data = self.cases.data
        rows = self.cases.rows.taken(mine).values
        identity = data.identity
        shares = np.cumsum(gains(data, identity.main.name, rows))
        shares = shares * to_reachable(identity, identity.main)
        return [] if np.isnan(shares).any() else thinned(shares, CURVE_POINTS)


def _flat(text: Text) -> str:
    return fitted((text,) if isinstance(text, str) else text, LONGEST)


def pieces(text: Text, original: Text | None) -> list[Piece]:
    """Return a text in pieces; those that the original does not have are marked."""
    if original is None:
        return [(_flat(text), False)]
    new, old = (re.findall(r"\s+|\w+|[^\w\s]", _flat(t)) for t in (text, original))
    found: list[Piece] = []
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, new, False).get_opcodes():
        if start < end:
            found.append(("".join(new[start:end]), kind != "equal"))
    return found
