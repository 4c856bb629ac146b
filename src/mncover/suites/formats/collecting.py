"""Collects cases from files of other tools into tests, and counts what has no counterpart here."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mncover.data.limits import TEXTS, Budget
from mncover.errors import TextError
from mncover.suites.answers import WITH_VALUES, AnswerExpectation
from mncover.suites.expectations import Expectation
from mncover.suites.model import Case, Label, Suite, Test


@dataclass
class Collected:
    """Cases by what is expected of them; `left_out` counts what does not map, by its kind.

    `budget` limits how many characters texts and expectations may have together.
    """

    budget: Budget | None = None
    labels: tuple[str, ...] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    tried: int = 0  # combinations of parts of the file
    _n: int = 0
    _cases: dict[str, list[Case]] = field(default_factory=dict)
    _expected: dict[str, Expectation | AnswerExpectation] = field(default_factory=dict)
    _about: dict[str, set[str]] = field(default_factory=dict)

    def leave_out(self, what: str) -> None:
        """Count something that does not map."""
        self.left_out[what] += 1

    def spend(self, characters: int) -> None:
        """Count characters that are made of the file."""
        if self.budget is not None:
            self.budget.spend(characters)

    def add(self, text: str, expected: Sequence[AnswerExpectation], about: str = "") -> None:
        """Add a case of one text; where only values differ, they become its label."""
        one = expected[0]
        if len(expected) > 1:
            return self.put(text, AnswerExpectation("all", of=tuple(expected)), None, about)
        if one.expect in WITH_VALUES and one.expect not in ("refuses", "regex") and one.values:
            label = one.values[0] if len(one.values) == 1 else one.values
            return self.put(text, replace(one, values=()), label, about)
        return self.put(text, one, None, about)

    def put(
        self, text: str, expected: Expectation | AnswerExpectation, label: Label, about: str = ""
    ) -> None:
        """Add a case to the test of its expectation."""
        key = json.dumps(expected.to_json(), sort_keys=True)
        self._n += 1
        TEXTS.check(self._n, "texts of a file")
        self.spend(len(text) + len(key))
        self._expected[key] = expected
        self._cases.setdefault(key, []).append(Case((text,), label))
        self._about.setdefault(key, set()).add(about)

    def suite(self, path: Path) -> Suite:
        """Return the tests; refuse a file of which nothing maps."""
        if not self._cases:
            raise TextError(f"{path}: nothing in it maps to a test ({self.says() or 'no tests'}).")
        names = {key: _name(one) for key, one in self._expected.items()}
        taken: Counter[str] = Counter()
        tests = []
        for key, expected in self._expected.items():
            taken[names[key]] += 1
            number = f" ({taken[names[key]]})" if taken[names[key]] > 1 else ""
            about = next(iter(self._about[key])) if len(self._about[key]) == 1 else ""
            cases = tuple(self._cases[key])
            name = names[key] + number
            tests.append(Test(name, "MFT", expected, cases, description=about))
        return Suite(tuple(tests), self.labels)

    def says(self) -> str:
        """Return what was left out, in words; nothing if everything maps."""
        return ", ".join(f"{what} ({n:,})" for what, n in self.left_out.most_common())


def _name(expected: Expectation | AnswerExpectation) -> str:
    if isinstance(expected, Expectation):
        return expected.expect
    if expected.of:
        return " and ".join(dict.fromkeys(_name(one) for one in expected.of))
    return ("not " if expected.negate else "") + expected.expect
