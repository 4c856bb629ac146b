"""A test suite: tests with an expectation each, which consist of cases, which consist of texts.

A case passes or fails as a whole. If it has several texts, the first is the original and the
others are variants of it. A data file keeps the outline of a suite and, in its table, the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Coded, Numbers, Pairs, taken
from mncover.data.schema import OneOf, Whole, check_shape
from mncover.errors import SchemaError, SettingsError, TextError
from mncover.suites.answers import KINDS as ANSWERS
from mncover.suites.answers import AnswerExpectation
from mncover.suites.answers import Label as Label
from mncover.suites.cases import Case as Case
from mncover.suites.cases import CaseColumn
from mncover.suites.expectations import Expectation, is_class
from mncover.types import Text, brief

Kind = Literal["MFT", "INV", "DIR"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def expectation_from_json(value: Any) -> Expectation | AnswerExpectation:
    """Make an expectation, of classes or of answers, from plain values, which are not trusted."""
    given = {"expect": value} if isinstance(value, str) else value
    kind = given.get("expect") if isinstance(given, Mapping) else None
    if isinstance(kind, str) and kind in ANSWERS:
        return AnswerExpectation.from_json(given)
    return Expectation.from_json(given)


@dataclass(frozen=True, slots=True)
class Test:
    """A named list of cases with one expectation."""

    __test__: ClassVar[bool] = False  # pytest would collect the class

    name: str
    kind: Kind
    expectation: Expectation | AnswerExpectation
    cases: Sequence[Case]  # of a suite that was read, on disk
    capability: str = ""
    description: str = ""

    @property
    def texts(self) -> int:
        """How many texts the test has."""
        return sum(self.sizes)

    @property
    def sizes(self) -> Sequence[int]:
        """How many texts each case has."""
        cases = self.cases
        return cases.sizes if isinstance(cases, CaseColumn) else [len(c.texts) for c in cases]

    @property
    def labels(self) -> Sequence[Label]:
        """The label of each case."""
        cases = self.cases
        return cases.labels if isinstance(cases, CaseColumn) else [case.label for case in cases]

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Test:
        """Make a test without cases from plain values, which are not trusted."""
        kind = row.get("type", "MFT")
        if not isinstance(kind, str) or kind not in KINDS:
            raise TextError(f"'type' must be one of {', '.join(KINDS)}, got {brief(kind)}.")
        name, *about = [row["test"], row.get("capability", ""), row.get("description", "")]
        if not all(isinstance(string, str) for string in (name, *about)):
            raise TextError("'test', 'capability' and 'description' must be text.")
        default = "label" if kind == "MFT" else "inv"
        expectation = expectation_from_json(row.get("expectation", default))
        return cls(name, kind, expectation, (), *about)

    def to_json(self) -> dict[str, Any]:
        """Return the test as plain values, without its cases."""
        row = {"test": self.name, "type": self.kind, "capability": self.capability}
        return row | {"description": self.description, "expectation": self.expectation.to_json()}


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of tests; `labels` are the names of its classes.

    `plan` is what `mncover plan` adds to the cases it draws (`selection.planfile` reads it).
    """

    tests: tuple[Test, ...]
    labels: tuple[str, ...] = ()
    plan: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        names = Counter(test.name for test in self.tests)
        if twice := [name for name, n in names.items() if n > 1]:
            raise TextError(f"two tests are called {twice[0]!r}.")

    def __getitem__(self, name: str) -> Test:
        for test in self.tests:
            if test.name == name:
                return test
        raise TextError(f"the suite has no test {name!r}.")

    @property
    def cases(self) -> int:
        """How many cases the suite has."""
        return sum(len(test.cases) for test in self.tests)

    @property
    def texts(self) -> int:
        """How many texts the suite has."""
        return sum(test.texts for test in self.tests)

    def each_text(self) -> Iterator[Text]:
        """Yield all texts in order."""
        return chain.from_iterable(case.texts for test in self.tests for case in test.cases)


# How the classes of a model and a suite correspond.
How = Literal["auto", "names", "numbers", "neutral-band"]
WAYS: tuple[How, ...] = get_args(How)


def known_way(how: str) -> How:
    """Return `how` if it is known; otherwise raise an error."""
    if how not in WAYS:
        raise SettingsError(f"classes correspond by {', '.join(WAYS)}; got {how!r}.")
    return how


# `right` is checked label by label.
_TEST = {"test": str, "sizes": [Whole(1)], "right": list}
_OUTLINE = {"labels": [str], "classes": OneOf(WAYS), "tests": [_TEST]}

PLAN_VERSION = 1
# Arrays are text here; `selection.planfile` unpacks them.
PLAN_ARRAYS = ("drawn", "weights", "strata", "verdicts", "fails", "judged")
_PLAN = {"suite": str, "models": [str], "classes": [str], "seed": int}
_PLAN |= {"tests": [(str, Whole(1))], **dict.fromkeys(PLAN_ARRAYS, str)}


def known_plan(value: Any) -> dict[str, Any] | None:
    """Return the plan that a file holds, or None; the value is not trusted."""
    if value is None:
        return None
    if isinstance(value, dict) and value.get("version") != PLAN_VERSION:
        raise TextError(f"this version reads plans of format {PLAN_VERSION}.")
    try:
        check_shape(value, _PLAN, "plan")
    except SchemaError as error:
        raise TextError(f"{error}; make the plan again with `mncover plan`.") from None
    found: dict[str, Any] = value
    return found


def _right(label: Any) -> Label:
    """Return the label of a case as it was before it became plain values."""
    several = label if isinstance(label, list) else [label]
    if label is not None and not (several and all(map(is_class, several))):
        raise TextError(f"a label must be a class or a list of classes, got {brief(label)}.")
    return tuple(label) if isinstance(label, list) else label


@dataclass(frozen=True, slots=True)
class Outline:
    """A suite without its texts: the sizes and labels of its cases, and how classes correspond."""

    labels: tuple[str, ...]
    classes: How
    tests: tuple[Test, ...]  # without cases
    cases: tuple[Pairs[int, Label], ...]  # per case: number of texts, and label
    plan: dict[str, Any] | None = None

    @classmethod
    def of(cls, suite: Suite, classes: How = "auto") -> Outline:
        """Return the outline of a suite."""
        tests = tuple(replace(test, cases=()) for test in suite.tests)
        cases = tuple(Pairs(test.sizes, test.labels) for test in suite.tests)
        return cls(suite.labels, classes, tests, cases, suite.plan)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many texts each case has, over all tests."""
        each = [np.asarray(cases.first, np.int64) for cases in self.cases]
        return np.concatenate([np.zeros(0, np.int64), *each])

    @property
    def starts(self) -> NDArray[np.int64]:
        """The number of the first case of each test, and how many cases there are."""
        return np.cumsum([0, *map(len, self.cases)])

    def filled(self, numbers: NDArray[np.int64], texts: Sequence[Text]) -> Suite:
        """Return a suite of some cases, by their numbers in order, with all of their texts.

        No test is left empty.
        """
        sizes, starts = self.sizes[numbers], self.starts
        ends = np.concatenate([[0], np.cumsum(sizes)])
        tests = []
        for at, (start, stop) in enumerate(pairwise(np.searchsorted(numbers, starts).tolist())):
            if start < stop:
                rows = np.arange(ends[start], ends[stop])
                mine = self.test_of(at, numbers[start:stop] - starts[at], taken(texts, rows))
                tests.append(mine)
        return Suite(tuple(tests), self.labels)

    def test_of(self, at: int, places: NDArray[np.int64], texts: Sequence[Text]) -> Test:
        """Return a test with some of its cases, given all of their texts."""
        cases = self.cases[at]
        sizes, labels = np.asarray(cases.first)[places], Coded.of(cases.second).taken(places)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return replace(self.tests[at], cases=CaseColumn(texts, ends, labels))

    def to_json(self) -> dict[str, Any]:
        """Return the outline as plain values."""
        found = self.in_columns()
        for test in found["tests"]:
            right = [list(label) if isinstance(label, tuple) else label for label in test["right"]]
            test |= {"sizes": list(test["sizes"]), "right": right}
        return found

    def in_columns(self) -> dict[str, Any]:
        """Return the same, with columns in the place of long lists where there are some."""
        tests = []
        for test, cases in zip(self.tests, self.cases, strict=True):
            tests.append(test.to_json() | {"sizes": cases.first, "right": cases.second})
        plan = {} if self.plan is None else {"plan": self.plan}
        return {"labels": list(self.labels), "classes": self.classes, "tests": tests, **plan}

    @classmethod
    def from_json(cls, value: Any) -> Outline:
        """Make an outline from what `to_json` returned; the value is not trusted."""
        check_shape(value, _OUTLINE, "outline")
        tests, cases = [], []
        for row in value["tests"]:
            tests.append(Test.from_json(row))
            right = Coded.of(map(_right, row["right"]))
            if len(right) != len(row["sizes"]):
                name = brief(row["test"])
                raise TextError(f"the test {name} has another number of labels than cases.")
            cases.append(Pairs(Numbers(np.array(row["sizes"], np.int64)), right))
        plan = known_plan(value.get("plan"))
        return cls(tuple(value["labels"]), value["classes"], tuple(tests), tuple(cases), plan)
