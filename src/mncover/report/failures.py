"""A failing case in words: what was expected and what came. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from mncover.report.describe import class_names, describe_expectation, said
from mncover.selection.cases import Cases
from mncover.selection.changes import Changes
from mncover.suites.answers import AnswerExpectation
from mncover.suites.judging import answers_to, text_verdicts
from mncover.suites.model import Case, Label, Test
from mncover.types import Text, counted, display_percent, shorten, visible

LONGEST = 300  # characters of a text
MOST_TEXTS = 3  # of one case
MOST_LISTED = 20  # cases


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing case: its test, where it is, its texts, what was expected and what came."""

    test: str
    case: str
    texts: tuple[Text, ...]
    expected: str
    got: str


class CaseWords:
    """Puts the cases of a run into words."""

    def __init__(self, cases: Cases) -> None:
        self.cases, self.outline = cases, cases.outline
        named = () if self.outline is None else self.outline.labels
        self.classes: tuple[str, ...] = named or cases.data.identity.labels

    @cached_property
    def _labels(self) -> list[Label]:
        """The label of every case of the suite."""
        by_test = () if self.outline is None else self.outline.cases
        return [label for cases in by_test for _, label in cases]

    @cached_property
    def _starts(self) -> list[int]:
        """The number of the first case of every test."""
        sizes = [len(cases) for cases in self.outline.cases] if self.outline is not None else []
        return list(accumulate(sizes, initial=0))

    def name(self, case: int) -> str:
        """Return what a case is called: by its place in its test, or in a file of texts."""
        number = int(self.cases.number[case])
        if self.outline is None:
            return f"text {number}"
        return f"case {number - self._starts[self.cases.test[case]]}"

    def answers(self, case: int) -> list[str]:
        """Return what the model said to each text of a case."""
        found = answers_to(self.cases.data, self.outline, self.cases.rows[case])
        return [_in_words(name, share) for name, share in said(found, self.classes)]

    def failure(self, case: int) -> Failure:
        """Return a failing case in words."""
        test = self.cases.tests[self.cases.test[case]]
        words = self._expected(case), self._got(case)
        return Failure(test, self.name(case), self.cases.texts(case), *words)

    def _test(self, case: int) -> Test | None:
        return None if self.outline is None else self.outline.tests[self.cases.test[case]]

    def _label(self, case: int) -> Label:
        if self.outline is None:
            return int(self.cases.data.table["label"][self.cases.rows[case][0]])
        return self._labels[int(self.cases.number[case])]

    def _expected(self, case: int) -> str:
        test = self._test(case)
        expects = None if test is None else test.expectation
        if isinstance(expects, AnswerExpectation):
            return describe_expectation(expects, (), self._label(case))
        if expects is None or (expects.expect == "label" and not expects.labels):
            return class_names(self._label(case), self.classes)
        if expects.expect == "label":
            return class_names(expects.labels, self.classes)
        return describe_expectation(expects, self.classes)

    def _got(self, case: int) -> str:
        """Return what came: the answers to the texts that fail, and to the one they differ from."""
        test, answers = self._test(case), self.answers(case)
        if test is None:
            return answers[0]
        one = Case(self.cases.texts(case), self._label(case))
        found = answers_to(self.cases.data, self.outline, self.cases.rows[case])
        verdicts = text_verdicts(test, one, found, self.classes)
        wrong = list(
            dict.fromkeys(a for a, ok in zip(answers, verdicts, strict=True) if ok is False)
        )
        got = ", ".join(wrong[:MOST_TEXTS]) + (", …" if len(wrong) > MOST_TEXTS else "")
        return f"{got} after {answers[0]}" if test.expectation.compares else got


def _in_words(name: str, share: float) -> str:
    """Return a class with its probability; an answer in words has none."""
    if not name or share != share:
        return name or "nothing"
    return f"{name} {display_percent(share, 1)} %"


def newly_failing(changes: Changes) -> list[Failure]:
    """Return the cases that passed in an earlier run and fail now, in words."""
    words: dict[int, CaseWords] = {}
    found = []
    for cases, case in changes.newly_failing:
        mine = words.setdefault(id(cases), CaseWords(cases))
        found.append(mine.failure(case))
    return found


def changes_to_json(changes: Changes) -> dict[str, Any]:
    """Return what changed as plain values, with every case that fails newly."""
    failing = [{**asdict(one), "texts": list(one.texts)} for one in newly_failing(changes)]
    names = ("newly_passing", "compared", "new", "otherwise", "unjudged", "gone")
    numbers = {name: getattr(changes, name) for name in names}
    return {"since": changes.since, "newly_failing": failing, **numbers}


def changes_in_words(changes: Changes) -> str:
    """Say how many cases changed, and how many could not be compared and why."""
    fail, passing = len(changes.newly_failing), changes.newly_passing
    says = (
        f"Since {changes.since}: {counted(fail, 'new failure')}, {passing:,} fixed, "
        f"{counted(changes.compared, 'case')} compared."
    )
    left_out = [
        (changes.new, "not in that file"),
        (changes.otherwise, "with another label or expectation there"),
        (changes.unjudged, "not judged in both"),
    ]
    reasons = [f"{number:,} {why}" for number, why in left_out if number]
    if reasons:
        says += f" Not compared: {', '.join(reasons)}."
    return says + (
        f" {counted(changes.gone, 'case')} of that file not run here." * bool(changes.gone)
    )


def listed_failures(changes: Changes) -> Iterator[str]:
    """Yield lines that list the cases that fail newly, up to a limit."""
    for one in newly_failing(changes)[:MOST_LISTED]:
        yield visible(f"{one.test}, {one.case}: expected {one.expected}, got {one.got}")
        for text in one.texts[:MOST_TEXTS]:
            yield f"    {visible(shorten(text, LONGEST))}"
        if len(one.texts) > MOST_TEXTS:
            yield f"    and {counted(len(one.texts) - MOST_TEXTS, 'text')} more"
    if (more := len(changes.newly_failing) - MOST_LISTED) > 0:
        yield f"and {counted(more, 'case')} more; `mncover report --format json` has them all"
