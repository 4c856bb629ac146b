"""Which cases of a suite fail, given a model's answers; the same for the runs in a data file.

Model and suite may number or name their classes differently. If a sentiment model has two classes
and the suite three, undecided answers count as neutral.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Parted, taken
from mncover.data.results import ADDS_LITTLE_AT, Result, misclassified, summarize
from mncover.data.store import CoverageData
from mncover.errors import DataFileError, MnCoverError, SettingsError, TextError
from mncover.suites.answers import AnswerExpectation, judge_answers
from mncover.suites.expectations import Answers, Expectation, Grouped, Mask, judge
from mncover.suites.model import Case, How, Label, Outline, Suite, Test, known_way
from mncover.suites.seal import check_classes
from mncover.types import counted


def in_suite_classes(
    probabilities: NDArray[np.floating],
    model_labels: Sequence[str],
    suite_labels: Sequence[str],
    how: How = "auto",
) -> Answers:
    """Return answers in the suite's classes; a suite without class names has the model's classes.

    `auto` uses the neutral band if the model has two classes and the suite three, names if the
    suite has all of the model's names, and numbers if both have equally many classes.
    """
    given = found = np.asarray(probabilities, dtype=np.float64)
    way = _way(model_labels, suite_labels, how)
    if way == "neutral-band":
        found = neutral_band(given[:, _positive(model_labels, suite_labels)])
    elif way == "names":
        places = {name.casefold(): place for place, name in enumerate(suite_labels)}
        found = np.zeros((len(given), len(suite_labels)))
        for column, name in enumerate(model_labels):
            found[:, places[name.casefold()]] = given[:, column]
    # A text that was not run has NaN as probabilities, and no class.
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
    # By name, two of three classes would leave the third one unused: the band comes first.
    order: tuple[How, ...] = ("neutral-band", "names", "numbers") if how == "auto" else (how,)
    for way in order:
        if fits[way]:
            return way
    raise SettingsError(
        f"the model's classes ({', '.join(model_labels)}) do not fit the suite's "
        f"({', '.join(suite_labels)})" + ("." if how == "auto" else f" by {how}.")
    )


def _positive(model_labels: Sequence[str], suite_labels: Sequence[str]) -> int:
    """Return which of two classes is the suite's last: by name, or the second."""
    names = [name.casefold() for name in model_labels]
    first, last = suite_labels[0].casefold(), suite_labels[2].casefold()
    return names.index(last) if {first, last} == set(names) else 1


def neutral_band(positive: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return negative, neutral and positive from the probability r of positive, [texts, 3].

    Between 1/3 and 2/3 neutral gets 1 - 3 |r - 1/2|, and the rest goes to the side that r is on.
    Elsewhere neutral gets nothing.

    >>> neutral_band(np.array([0.2, 0.5, 0.6])).round(2).tolist()
    [[0.8, 0.0, 0.2], [0.0, 1.0, 0.0], [0.0, 0.7, 0.3]]
    """
    r = np.asarray(positive, dtype=np.float64)
    neutral, upper = 1 - 3 * np.abs(r - 0.5), r >= 0.5
    sides = np.where(upper, 0.0, 1 - neutral), np.where(upper, 1 - neutral, 0.0)
    inside = np.stack([sides[0], neutral, sides[1]], axis=1)
    outside = np.stack([1 - r, np.zeros_like(r), r], axis=1)
    return np.where(((r < 1 / 3) | (r > 2 / 3))[:, None], outside, inside)


# A case passes, fails, or is not judged because the expectation does not apply to it.
PASSES, FAILS, NOT_JUDGED = 1, 0, -1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a test: PASSES, FAILS or NOT_JUDGED for each case.

    `places` says where the cases are in their test, if only a part of them was run.
    """

    test: Test
    verdicts: NDArray[np.int8]
    places: tuple[int, ...] = ()

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
        """The share of judged cases that fail, from 0 to 1; None if none was judged."""
        return self.failing / self.judged if self.judged else None

    @property
    def failing_places(self) -> list[int]:
        """Where in their test the failing cases are, counted from 0."""
        found: list[int] = np.flatnonzero(self.verdicts == FAILS).tolist()
        return [self.places[case] for case in found] if self.places else found


def judge_suite(suite: Suite, answers: Answers) -> list[Outcome]:
    """Judge every case of a suite; answers are in its classes and in the order of `each_text`."""
    if (n := len(answers.classes)) != suite.texts:
        raise TextError(
            f"got {counted(n, 'answer')}, but the suite has {counted(suite.texts, 'text')}."
        )
    parts = _parts(answers, [test.texts for test in suite.tests])
    return [judge_test(t, mine, suite.labels) for t, mine in zip(suite.tests, parts, strict=True)]


def judge_test(test: Test, answers: Answers, labels: Sequence[str] = ()) -> Outcome:
    """Judge every case of a test, given the answers to its texts, case by case."""
    try:
        texts = Grouped(test.sizes)
        judged, passes = _judged(test, answers, texts, labels)
    except TextError as error:
        raise TextError(f"the test {test.name!r}: {error}") from None
    verdicts = np.full(texts.cases, NOT_JUDGED, dtype=np.int8)
    verdicts[texts.case[passes]] = PASSES
    verdicts[texts.case[judged & ~passes]] = FAILS  # one text that fails decides
    return Outcome(test, verdicts)


def text_verdicts(
    test: Test, case: Case, answers: Answers, labels: Sequence[str] = ()
) -> list[bool | None]:
    """Return which texts of a case pass; None for texts that are not judged."""
    alone, texts = replace(test, cases=(case,)), Grouped([len(case.texts)])
    found = (mask.tolist() for mask in _judged(alone, answers, texts, labels))
    return [passes if judged else None for judged, passes in zip(*found, strict=True)]


def _judged(
    test: Test, answers: Answers, texts: Grouped, labels: Sequence[str]
) -> tuple[Mask, Mask]:
    """Return which texts of a test are judged, and which of these pass."""
    given = list(test.labels)
    if isinstance(test.expectation, AnswerExpectation):
        each = [given[case] for case in texts.case.tolist()]
        judged = answers.judged or (NOT_JUDGED,) * len(answers.said)
        return judge_answers(test.expectation, answers.said, judged, texts.first, each)
    expectation = _numbered(test.expectation, labels)
    numbers = {label: _numbers(label, labels) for label in dict.fromkeys(given)}
    return judge(expectation, answers, texts, [numbers[label] for label in given])


def require_classes(suite: Suite, model_labels: Sequence[str]) -> None:
    """Refuse a suite that names a class which it, or the model, lacks, or a plan for others."""
    check_classes(suite, model_labels)
    require_kind(suite, answering=False)
    labels = suite.labels or [str(number) for number in range(len(model_labels))]
    for test in suite.tests:
        assert isinstance(test.expectation, Expectation)
        try:
            _numbered(test.expectation, labels)
            for label in dict.fromkeys(test.labels):
                _numbers(label, labels)
        except TextError as error:
            raise TextError(f"the test {test.name!r}: {error}") from None


def require_kind(suite: Suite, answering: bool, judging: bool = False) -> None:
    """Refuse tests that expect answers of a model that gives classes, and the other way round."""
    for test in suite.tests:
        about, expects = f"the test {test.name!r} expects", test.expectation
        if isinstance(expects, AnswerExpectation) != answering:
            if answering:
                kind = f"classes ({expects.expect}), but the model answers in words"
                raise TextError(f"{about} {kind}: give `choices` instead of `generate`.")
            raise TextError(
                f"{about} answers ({expects.expect}): give `generate`, with a language model."
            )
        if isinstance(expects, AnswerExpectation) and expects.asks and not judging:
            raise TextError(f"{about} a function that judges: give `judge`, such as my_file:right.")


def _parts(answers: Answers, sizes: Sequence[int]) -> Iterator[Answers]:
    for start, stop in pairwise(accumulate(sizes, initial=0)):
        yield answers.part(start, stop)


def _numbered(expectation: Expectation, labels: Sequence[str]) -> Expectation:
    """Return the expectation with class numbers instead of names."""
    names = ("labels", "only_if", "only_if_not")
    numbers: dict[str, Any] = {n: _numbers(getattr(expectation, n), labels) for n in names}
    return replace(expectation, **numbers)


def _numbers(label: Label, labels: Sequence[str]) -> tuple[int, ...]:
    known = {name.casefold(): number for number, name in enumerate(labels)}
    found = []
    for name in label if isinstance(label, tuple) else () if label is None else (label,):
        number = known.get(name.casefold()) if isinstance(name, str) else name
        if number is None or number < 0 or (labels and number >= len(labels)):
            raise TextError(f"there is no class {name!r}; known are {', '.join(labels) or 'none'}.")
        found.append(number)
    return tuple(found)


def outline_of(data: CoverageData, run_id: str) -> Outline | None:
    """Return the outline of a run's test suite; None if the run was not of a test suite."""
    raw = data.outlines.get(run_id)
    try:
        return None if raw is None else Outline.from_json(raw)
    except (MnCoverError, ValueError) as error:
        what = f"the suite of run {run_id} is damaged ({str(error).rstrip('.')})"
        raise DataFileError(f"{what}; run it again.") from error


def judge_data(data: CoverageData) -> Iterator[Outcome]:
    """Judge the complete cases of every suite that was run."""
    return (outcome for _, outcome, _ in judged_cases(data))


def result_of(data: CoverageData, adds_little_at: float = ADDS_LITTLE_AT) -> Result:
    """Return the numbers of a measurement, with how its tests went."""
    outcomes, fails = [], misclassified(data)
    for _, outcome, rows in judged_cases(data):
        outcomes.append(outcome)
        fails[rows.taken(np.flatnonzero(outcome.verdicts == FAILS)).values] = True
    return summarize(data, outcomes, adds_little_at, fails)


def judge_run(data: CoverageData, run: int) -> list[Outcome]:
    """Judge the complete cases of one run."""
    return [outcome for _, outcome, _ in judged_cases(data, [run])]


def judged_cases(
    data: CoverageData, runs: Sequence[int] | None = None
) -> Iterator[tuple[Outline, Outcome, Parted]]:
    """Yield the outcome of every test, with its suite's outline and the table rows of each case."""
    for run in range(len(data.runs)) if runs is None else runs:
        outline = outline_of(data, data.runs[run].id)
        if outline is None:
            continue
        whole, starts = complete_cases(data, run), outline.starts
        for at, (first, last) in enumerate(pairwise(whole.before(starts))):
            if first == last:
                continue
            rows = whole.rows.taken(np.arange(first, last))
            places = whole.numbers[first:last] - starts[at]
            test = outline.test_of(at, places, taken(data.table.texts, rows.values))
            outcome = judge_test(test, answers_to(data, outline, rows.values), outline.labels)
            if len(whole.numbers) < starts[-1]:
                outcome = replace(outcome, places=tuple(places.tolist()))
            yield outline, outcome, rows


def answers_to(data: CoverageData, outline: Outline | None, rows: Any) -> Answers:
    """Return what the model said to some rows: in the classes of their suite, or in its own."""
    table, labels = data.table, data.identity.labels
    found = table.probabilities[rows]
    if table.answers:
        said = tuple(taken(table.answers, np.asarray(rows)))
        nothing = np.full(len(said), -1), found.astype(np.float64)
        return Answers(*nothing, said, tuple(table["judged"][rows].tolist()))
    if outline is None:
        return in_suite_classes(found, labels, ())
    return in_suite_classes(found, labels, outline.labels, outline.classes)


class WholeCases(NamedTuple):
    """The cases of a run whose texts were all run: their numbers, and their rows in the table."""

    numbers: NDArray[np.int64]
    rows: Parted

    def before(self, numbers: NDArray[np.int64]) -> list[int]:
        """Return how many of them come before each of some numbers."""
        found: list[int] = np.searchsorted(self.numbers, numbers).tolist()
        return found


def complete_cases(data: CoverageData, run: int) -> WholeCases:
    """Return the cases of a run of a suite whose texts were all run."""
    table, tests = data.table, data.outlines[data.runs[run].id]["tests"]
    each = [np.asarray(test["sizes"], np.int64) for test in tests]
    sizes = np.concatenate([np.zeros(0, np.int64), *each])
    rows = np.flatnonzero(table["run"] == run)
    cases = table["case"][rows]
    ordered = rows[np.lexsort((table["index"][rows], cases))]
    had = np.bincount(cases, minlength=len(sizes))
    numbers = np.flatnonzero(had == sizes)
    return WholeCases(numbers, Parted.of(ordered, had).taken(numbers))
