"""What a suite is: tests with an expectation each, made of cases, made of texts. No torch here.

A case passes or fails as a whole. In a case of several texts the first is the original, the
others are its variants.

What a data file keeps of a suite: all but the texts, which its table has. No torch here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from mncover.errors import SettingsError, TextError
from mncover.suites.expectations import Expectation
from mncover.types import Text

Kind = Literal["MFT", "INV", "DIR"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# The classes that are right: one, any of several, or none given.
Label = int | str | tuple[int | str, ...] | None


@dataclass(frozen=True, slots=True)
class Case:
    """Texts that are judged together, and the right class, if the expectation needs one."""

    texts: tuple[Text, ...]
    label: Label = None


@dataclass(frozen=True, slots=True)
class Test:
    """A named list of cases with one expectation."""

    __test__: ClassVar[bool] = False  # for pytest, which takes the class for one of its own

    name: str
    kind: Kind
    expectation: Expectation
    cases: tuple[Case, ...]
    capability: str = ""
    description: str = ""

    @property
    def texts(self) -> int:
        """How many texts the test has."""
        return sum(len(case.texts) for case in self.cases)


@dataclass(frozen=True, slots=True)
class Suite:
    """A list of tests; `labels` are the names of the classes that its labels are numbers of."""

    tests: tuple[Test, ...]
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        twice = [name for name, n in Counter(test.name for test in self.tests).items() if n > 1]
        if twice:
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
        """Yield all texts in the suite's order."""
        for test in self.tests:
            for case in test.cases:
                yield from case.texts


# How classes correspond: whatever fits, by name, by number, or two classes to three.
How = Literal["auto", "names", "numbers", "neutral-band"]
WAYS: tuple[How, ...] = get_args(How)


def known_way(how: str) -> How:
    """Return the way of a name; refuse an unknown one."""
    for way in WAYS:
        if how == way:
            return way
    raise SettingsError(f"classes correspond by {', '.join(WAYS)}; got {how!r}.")


@dataclass(frozen=True, slots=True)
class Outline:
    """A suite whose cases are only their sizes and labels, and how classes correspond."""

    labels: tuple[str, ...]
    classes: How
    tests: tuple[Test, ...]  # without cases
    cases: tuple[tuple[tuple[int, Label], ...], ...]  # of each test: number of texts, and label

    @classmethod
    def of(cls, suite: Suite, classes: How = "auto") -> Outline:
        """Return the outline of a suite."""
        tests = tuple(replace(test, cases=()) for test in suite.tests)
        cases = tuple(tuple((len(c.texts), c.label) for c in t.cases) for t in suite.tests)
        return cls(suite.labels, classes, tests, cases)

    @property
    def sizes(self) -> list[int]:
        """How many texts each case has, all tests in a row."""
        return [size for cases in self.cases for size, _ in cases]

    def filled(self, texts: Sequence[tuple[Text, ...]]) -> Suite:
        """Return the suite of the cases that are complete; `texts` has those of each case.

        A test of which no case is complete is left out.
        """
        number, tests = 0, []
        for test, cases in zip(self.tests, self.cases, strict=True):
            mine = zip(cases, texts[number : number + len(cases)], strict=True)
            done = tuple(Case(given, label) for (size, label), given in mine if len(given) == size)
            number += len(cases)
            if done:
                tests.append(replace(test, cases=done))
        return Suite(tuple(tests), self.labels)

    def to_json(self) -> dict[str, Any]:
        """Return the outline as plain values."""
        return {
            "labels": list(self.labels),
            "classes": self.classes,
            "tests": [
                {
                    "test": test.name,
                    "type": test.kind,
                    "capability": test.capability,
                    "description": test.description,
                    "expectation": test.expectation.to_json(),
                    "sizes": [size for size, _ in cases],
                    "right": [list(x) if isinstance(x, tuple) else x for _, x in cases],
                }
                for test, cases in zip(self.tests, self.cases, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, value: Any) -> Outline:
        """Make an outline from what `to_json` returned; a stranger may have written it."""
        tests, cases = [], []
        for row in value["tests"]:
            words = [row[name] for name in ("test", "capability", "description")]
            if row["type"] not in KINDS or not all(isinstance(word, str) for word in words):
                raise TextError("a test of its suite is none")
            expectation = Expectation.from_json(row["expectation"])
            tests.append(Test(words[0], row["type"], expectation, (), words[1], words[2]))
            sizes = [int(size) for size in row["sizes"]]
            right = [tuple(x) if isinstance(x, list) else x for x in row["right"]]
            cases.append(tuple(zip(sizes, right, strict=True)))
        labels = tuple(str(label) for label in value["labels"])
        return cls(labels, known_way(value["classes"]), tuple(tests), tuple(cases))
