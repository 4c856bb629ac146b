"""Which cases of a suite fail, from a model's answers to its texts. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mncover.errors import TextError
from mncover.suites.expectations import Answers, Expectation, Verdict, case_verdict, judge
from mncover.suites.model import Case, Label, Suite, Test

# A case passes, fails, or the expectation does not apply to it.
PASSES, FAILS, NOT_JUDGED = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the cases of a test went: one of PASSES, FAILS and NOT_JUDGED for each."""

    test: Test
    verdicts: NDArray[np.int8]

    @property
    def judged(self) -> int:
        """How many cases the expectation applies to."""
        return int((self.verdicts != NOT_JUDGED).sum())

    @property
    def failing(self) -> int:
        """How many cases fail."""
        return int((self.verdicts == FAILS).sum())

    @property
    def failure_rate(self) -> float | None:
        """The failing share of the cases judged, 0 to 1; None if none was."""
        return self.failing / self.judged if self.judged else None


def judge_suite(suite: Suite, answers: Answers) -> list[Outcome]:
    """Judge every case of a suite; the answers are those to `suite.each_text()`, in its classes."""
    if len(answers.classes) != suite.texts:
        raise TextError(
            f"there are {len(answers.classes):,} answers to the suite's {suite.texts:,} texts."
        )
    start, outcomes = 0, []
    for test in suite.tests:
        part = slice(start, start + test.texts)
        mine = Answers(answers.classes[part], answers.probabilities[part])
        outcomes.append(judge_test(test, mine, suite.labels))
        start = part.stop
    return outcomes


def judge_test(test: Test, answers: Answers, labels: Sequence[str] = ()) -> Outcome:
    """Judge every case of a test; the answers are those to its texts, one case after the other."""
    try:
        expectation = _numbered(test.expectation, labels)
        verdicts = [
            _verdict(expectation, mine, _numbers(_as_tuple(case.label), labels))
            for case, mine in _by_case(test.cases, answers)
        ]
    except TextError as error:
        raise TextError(f"the test {test.name!r}: {error}") from None
    return Outcome(test, np.array(verdicts, dtype=np.int8))


def text_verdicts(
    test: Test, case: Case, answers: Answers, labels: Sequence[str] = ()
) -> list[Verdict]:
    """Return which texts of a case pass; None for those that are not judged."""
    right = _numbers(_as_tuple(case.label), labels)
    return judge(_numbered(test.expectation, labels), answers, right)


def _by_case(cases: Sequence[Case], answers: Answers) -> Iterator[tuple[Case, Answers]]:
    start = 0
    for case in cases:
        part = slice(start, start + len(case.texts))
        yield case, Answers(answers.classes[part], answers.probabilities[part])
        start = part.stop


def _verdict(expectation: Expectation, answers: Answers, right: Sequence[int]) -> int:
    found = case_verdict(judge(expectation, answers, right))
    return NOT_JUDGED if found is None else PASSES if found else FAILS


def _numbered(expectation: Expectation, labels: Sequence[str]) -> Expectation:
    """Return the expectation with the numbers of its classes in place of their names."""
    return replace(
        expectation,
        labels=_numbers(expectation.labels, labels),
        only_if=_numbers(expectation.only_if, labels),
        only_if_not=_numbers(expectation.only_if_not, labels),
    )


def _numbers(classes: Sequence[int | str], labels: Sequence[str]) -> tuple[int, ...]:
    known = {name.casefold(): number for number, name in enumerate(labels)}
    found = []
    for name in classes:
        number = known.get(name.casefold()) if isinstance(name, str) else name
        if number is None or number < 0 or (labels and number >= len(labels)):
            raise TextError(f"there is no class {name!r}; known are {', '.join(labels) or 'none'}.")
        found.append(number)
    return tuple(found)


def _as_tuple(label: Label) -> tuple[int | str, ...]:
    if label is None:
        return ()
    return label if isinstance(label, tuple) else (label,)
