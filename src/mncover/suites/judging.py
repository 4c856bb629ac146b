"""Say a model's answers in a suite's classes. No torch here.

Model and suite may number or name their classes differently, and a sentiment model of two
classes may face a suite of three: then what it is undecided about counts as neutral.

Which cases of a suite fail, from a model's answers to its texts. No torch here.
Judge the suites of tests that a data file holds. It belongs to the reading half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mncover.data.store import CoverageData
from mncover.errors import DataFileError, MnCoverError, SettingsError, TextError
from mncover.suites.expectations import Answers, Expectation, Verdict, case_verdict, judge
from mncover.suites.model import Case, How, Label, Outline, Suite, Test, known_way
from mncover.types import Text


def in_suite_classes(
    probabilities: NDArray[np.floating],
    model_labels: Sequence[str],
    suite_labels: Sequence[str],
    how: How = "auto",
) -> Answers:
    """Return the answers [texts] in the suite's classes; a suite without names has the model's.

    `auto` goes by name if all the model's names are the suite's, by number if both have as many
    classes, and by the neutral band if the model has two and the suite three.
    """
    given = np.asarray(probabilities, dtype=np.float64)
    way = _way(model_labels, suite_labels, how)
    if way == "neutral-band":
        found = neutral_band(given[:, 1])
    elif way == "names":
        places = {name.casefold(): place for place, name in enumerate(suite_labels)}
        found = np.zeros((len(given), len(suite_labels)))
        for column, name in enumerate(model_labels):
            found[:, places[name.casefold()]] = given[:, column]
    else:
        found = given
    # A text that was not run has no probabilities, and so no class.
    unknown = np.isnan(found).any(axis=1)
    return Answers(np.where(unknown, -1, np.nan_to_num(found).argmax(axis=1)), found)


def _way(model_labels: Sequence[str], suite_labels: Sequence[str], how: How) -> How:
    known_way(how)
    names = {name.casefold() for name in suite_labels}
    fits: dict[How, bool] = {
        "names": bool(names) and {name.casefold() for name in model_labels} <= names,
        "numbers": not names or len(model_labels) == len(suite_labels),
        "neutral-band": (len(model_labels), len(suite_labels)) == (2, 3),
    }
    # Two of three names would leave the third class without any answer: the band comes first.
    order: tuple[How, ...] = ("neutral-band", "names", "numbers") if how == "auto" else (how,)
    for way in order:
        if fits[way]:
            return way
    raise SettingsError(
        f"the model's classes ({', '.join(model_labels)}) do not fit the suite's "
        f"({', '.join(suite_labels)})" + ("." if how == "auto" else f" by {how}.")
    )


def neutral_band(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return negative, neutral and positive from the probability r of positive, [texts, 3].

    Between a third and two thirds neutral gets 1 - 3 |r - 1/2|, and the rest goes to the side
    that r is on; elsewhere there is no neutral.

    >>> neutral_band(np.array([0.2, 0.5, 0.6])).round(2).tolist()
    [[0.8, 0.0, 0.2], [0.0, 1.0, 0.0], [0.0, 0.7, 0.3]]
    """
    r = np.asarray(positive, dtype=np.float64)
    neutral = 1 - 3 * np.abs(r - 0.5)
    rest = 1 - neutral
    upper = r >= 0.5
    inside = np.stack([np.where(upper, 0.0, rest), neutral, np.where(upper, rest, 0.0)], axis=1)
    outside = np.stack([1 - r, np.zeros_like(r), r], axis=1)
    decided = (r < 1 / 3) | (r > 2 / 3)
    return np.where(decided[:, None], outside, inside)


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


def outline_of(data: CoverageData, run: str) -> Outline | None:
    """Return the outline of a run's suite of tests, if it ran one."""
    value = data.outlines.get(run)
    if value is None:
        return None
    try:
        return Outline.from_json(value)
    except (MnCoverError, LookupError, TypeError, ValueError) as error:
        raise DataFileError(f"the suite in the data file is damaged ({error})") from error


def judge_data(data: CoverageData) -> Iterator[Outcome]:
    """Judge the cases of every suite that was run, as far as they are complete."""
    for _, outcome, _ in judged_cases(data):
        yield outcome


def judged_cases(data: CoverageData) -> Iterator[tuple[Outline, Outcome, list[list[int]]]]:
    """Yield the outcome of every test, with its suite and the table's rows of each of its cases."""
    for number, run in enumerate(data.runs):
        outline = outline_of(data, run.id)
        if outline is None:
            continue
        whole = [rows for _, rows in complete_cases(data, number, outline)]
        for outcome in judge_run(data, number, outline):
            n = len(outcome.test.cases)
            yield outline, outcome, whole[:n]
            whole = whole[n:]


def complete_cases(data: CoverageData, run: int, outline: Outline) -> list[tuple[int, list[int]]]:
    """Return the number and the rows of every case of a run all of whose texts were run."""
    table, sizes = data.table, outline.sizes
    by_case: list[list[int]] = [[] for _ in sizes]
    rows = np.flatnonzero(table["run"] == run)
    for row in rows[np.argsort(table["index"][rows], kind="stable")]:
        by_case[table["case"][row]].append(int(row))
    pairs = zip(by_case, sizes, strict=True)
    return [(number, mine) for number, (mine, size) in enumerate(pairs) if len(mine) == size]


def judge_run(data: CoverageData, run: int, outline: Outline) -> list[Outcome]:
    """Judge the complete cases of one run."""
    table = data.table
    texts: list[tuple[Text, ...]] = [()] * len(outline.sizes)
    whole = complete_cases(data, run, outline)
    for case, rows in whole:
        texts[case] = tuple(table.texts[row] for row in rows)
    answers = in_suite_classes(
        table.probabilities[[row for _, rows in whole for row in rows]],
        data.identity.labels,
        outline.labels,
        outline.classes,
    )
    return judge_suite(outline.filled(texts), answers)
