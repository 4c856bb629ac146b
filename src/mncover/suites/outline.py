"""What a data file keeps of a suite: all but the texts, which its table has. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from mncover.errors import TextError
from mncover.suites.answers import How, known_way
from mncover.suites.expectations import Expectation
from mncover.suites.model import KINDS, Case, Label, Suite, Test
from mncover.texts import Text


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
