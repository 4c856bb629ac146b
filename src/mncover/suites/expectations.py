"""What a test expects, as data: nobody needs a function in a file.

An expectation judges the texts of a case from their predicted classes and probabilities. Each
text passes, fails, or is one that the expectation does not apply to. docs/suites.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from mncover.errors import TextError

Expect = Literal["label", "not", "inv", "monotonic", "goes", "implication"]
Direction = Literal["up", "down"]
Classes = tuple[int | str, ...]
# A text passes (True), fails (False), or is not judged (None).
Verdict = bool | None

TOLERANCE = 0.1


@dataclass(frozen=True, slots=True)
class Expectation:
    """How the texts of a case are judged.

    - `label`: the prediction is the case's label, or one of `labels` if they are given.
    - `not`: the prediction is none of `labels`.
    - `inv`: the prediction is the original's, or the probability of the original's class moved
      by no more than `tolerance`.
    - `monotonic`: the probability of the original's class does not fall (`up`) or rise (`down`)
      by more than `tolerance`; where it cannot, it does not apply.
    - `goes`: probability of `labels[1]` less that of `labels[0]` does not fall (`up`) or rise
      (`down`) by more than `tolerance` against the original.
    - `implication`: of three texts, if the first two have the class `labels[0]`, so has the
      third; if exactly one of them has it, the third has not; otherwise it does not apply.

    `only_if` and `only_if_not` make it apply only where the original's prediction is, or is not,
    one of these classes. `first` says whether the original itself is judged; None means: it is
    by `label` and `not`, and it is not by those that compare with it.
    """

    expect: Expect
    labels: Classes = ()
    tolerance: float = TOLERANCE
    direction: Direction | None = None
    only_if: Classes = ()
    only_if_not: Classes = ()
    first: bool | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def compares(self) -> bool:
        """Whether texts are compared with the first of their case."""
        return self.expect not in ("label", "not")

    def to_json(self) -> dict[str, Any]:
        """Return the expectation as plain values, without those that are the default."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        defaults = {field.name: field.default for field in fields(self)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value != defaults[name]
        }

    @classmethod
    def from_json(cls, value: Any) -> Expectation:
        """Make an expectation from data; a stranger may have written it."""
        known = {field.name for field in fields(cls)}
        if isinstance(value, str):
            value = {"expect": value}
        if not isinstance(value, Mapping) or "expect" not in value:
            raise TextError(f"an expectation is an object with 'expect', got {value!r:.80}.")
        unknown = set(value) - known
        if unknown:
            names = ", ".join(sorted(known))
            raise TextError(f"an expectation has no {sorted(unknown)[0]!r}; known are {names}.")
        values: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in value.items()
        }
        return cls(**values)


def _check(expectation: Expectation) -> None:
    """Refuse values of a wrong kind, and an expectation that lacks what it needs."""
    if expectation.expect not in get_args(Expect):
        raise TextError(
            f"unknown expectation {expectation.expect!r}; known are {', '.join(get_args(Expect))}."
        )
    if expectation.direction not in (None, *get_args(Direction)):
        raise TextError(f"`direction` must be up or down, got {expectation.direction!r}.")
    tolerance = expectation.tolerance
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not tolerance >= 0:
        raise TextError(f"`tolerance` must be a number of at least 0, got {tolerance!r}.")
    for name in ("labels", "only_if", "only_if_not"):
        classes = getattr(expectation, name)
        if not isinstance(classes, tuple) or not all(
            isinstance(c, int | str) and not isinstance(c, bool) for c in classes
        ):
            raise TextError(f"`{name}` must be a list of classes, got {classes!r:.80}.")
    if expectation.first not in (None, True, False):
        raise TextError(f"`first` must be true or false, got {expectation.first!r}.")
    _check_needs(expectation)


def _check_needs(expectation: Expectation) -> None:
    needed = {"not": 1, "goes": 2, "implication": 1}.get(expectation.expect, 0)
    if len(expectation.labels) < needed:
        raise TextError(f"the expectation {expectation.expect!r} needs {needed} `labels`.")
    if expectation.expect in ("monotonic", "goes") and expectation.direction is None:
        raise TextError(f"the expectation {expectation.expect!r} needs a `direction`: up or down.")


@dataclass(frozen=True, slots=True)
class Answers:
    """What a model said to the texts of one case: classes [n], and probabilities [n, classes]."""

    classes: NDArray[np.int64]
    probabilities: NDArray[np.float64]


def judge(expectation: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    """Return a verdict for each text of a case.

    The expectation's classes must be numbers of the model's answers; `right` are those that the
    case names.
    """
    n = len(answers.classes)
    if not n or (expectation.compares and n < 2) or not _applies(expectation, answers):
        return [None] * n
    verdicts = _JUDGES[expectation.expect](expectation, answers, right)
    if expectation.compares if expectation.first is None else not expectation.first:
        verdicts[0] = None
    return verdicts


def case_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return whether a case passes: every text that is judged does; None if none is judged."""
    judged = [verdict for verdict in verdicts if verdict is not None]
    return all(judged) if judged else None


def _applies(expectation: Expectation, answers: Answers) -> bool:
    first = int(answers.classes[0])
    if expectation.only_if and first not in expectation.only_if:
        return False
    return first not in expectation.only_if_not


def _judge_label(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    wanted = e.labels or tuple(right)
    return [int(c) in wanted if wanted else None for c in answers.classes]


def _judge_not(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    return [int(c) not in e.labels for c in answers.classes]


def _judge_inv(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    same = answers.classes == answers.classes[0]
    return [
        bool(s) or bool(abs(m) <= e.tolerance) for s, m in zip(same, _moves(answers), strict=True)
    ]


def _judge_monotonic(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    before = float(answers.probabilities[0, answers.classes[0]])
    stuck = before <= e.tolerance if e.direction == "up" else before >= 1 - e.tolerance
    if stuck:
        return [None] * len(answers.classes)
    return _no_further(e, _moves(answers))


def _judge_goes(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    negative, positive = (int(c) for c in e.labels[:2])
    scores = answers.probabilities[:, positive] - answers.probabilities[:, negative]
    return _no_further(e, scores - scores[0])


def _judge_implication(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    verdicts: list[Verdict] = [None] * len(answers.classes)
    if len(verdicts) == 3:
        first, second, third = (int(c) == e.labels[0] for c in answers.classes)
        if first or second:
            verdicts[2] = third == (first and second)
    return verdicts


def _moves(answers: Answers) -> NDArray[np.float64]:
    """Return how far the probability of the original's class moved, for each text."""
    mine = answers.probabilities[:, answers.classes[0]]
    moved: NDArray[np.float64] = mine - mine[0]
    return moved


def _no_further(e: Expectation, moves: NDArray[np.float64]) -> list[Verdict]:
    """Judge movements against the direction by the tolerance."""
    against = -moves if e.direction == "up" else moves
    return [bool(move <= e.tolerance) for move in against]


_JUDGES = {
    "label": _judge_label,
    "not": _judge_not,
    "inv": _judge_inv,
    "monotonic": _judge_monotonic,
    "goes": _judge_goes,
    "implication": _judge_implication,
}
