"""What a test expects, stored as data rather than as a function.

An expectation judges the texts of a case by their predicted classes and probabilities. A text
passes, fails, or is not judged because the expectation does not apply. docs/suites.md has a list.
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

    - `label`: the prediction is the case's label, or one of `labels` if given.
    - `not`: the prediction is none of `labels`.
    - `inv`: the prediction is the same as the original's, or the probability of the original's
      class changed by at most `tolerance`.
    - `monotonic`: the probability of the original's class does not fall (`up`) or rise (`down`)
      by more than `tolerance`. It does not apply where there is no room for such a change.
    - `goes`: the probability of `labels[1]` minus that of `labels[0]` does not fall (`up`) or
      rise (`down`) by more than `tolerance` compared with the original.
    - `implication`: for three texts, if the first two have the class `labels[0]`, the third has
      it too; if exactly one of them has it, the third does not. Otherwise it does not apply.

    With `only_if` or `only_if_not` it applies only where the original's prediction is, or is not,
    one of these classes. `first` says whether the original itself is judged; by default `label`
    and `not` judge it, and the others, which compare with it, do not.
    """

    expect: Expect
    labels: Classes = ()
    tolerance: float = TOLERANCE
    direction: Direction | None = None
    only_if: Classes = ()
    only_if_not: Classes = ()
    first: bool | None = None

    def __post_init__(self) -> None:
        mistake = _wrong_value(self) or _missing_value(self)
        if mistake is not None:
            raise TextError(mistake)

    @property
    def compares(self) -> bool:
        """Whether texts are compared with the first of their case."""
        return self.expect not in ("label", "not")

    def to_json(self) -> dict[str, Any]:
        """Return the expectation as plain values, without defaults."""
        values = [(f.name, getattr(self, f.name), f.default) for f in fields(self)]
        given = [(name, value) for name, value, default in values if value != default]
        return {name: list(v) if isinstance(v, tuple) else v for name, v in given}

    @classmethod
    def from_json(cls, value: Any) -> Expectation:
        """Make an expectation from plain values, which are not trusted."""
        known = {field.name for field in fields(cls)}
        if isinstance(value, str):
            value = {"expect": value}
        if not isinstance(value, Mapping) or "expect" not in value:
            raise TextError(f"an expectation must be an object with 'expect', got {value!r:.80}.")
        unknown = set(value) - known
        if unknown:
            names = ", ".join(sorted(known))
            raise TextError(f"an expectation has no {sorted(unknown)[0]!r}; known are {names}.")
        values: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in value.items()
        }
        return cls(**values)


def _wrong_value(e: Expectation) -> str | None:
    if e.expect not in get_args(Expect):
        return f"unknown expectation {e.expect!r}; known are {', '.join(get_args(Expect))}."
    if e.direction not in (None, *get_args(Direction)):
        return f"`direction` must be up or down, got {e.direction!r}."
    number = isinstance(e.tolerance, int | float) and not isinstance(e.tolerance, bool)
    if not number or not e.tolerance >= 0:
        return f"`tolerance` must be a number that is at least 0, got {e.tolerance!r}."
    for name in ("labels", "only_if", "only_if_not"):
        classes = getattr(e, name)
        if not isinstance(classes, tuple) or not all(map(is_class, classes)):
            return f"`{name}` must be a list of classes, got {classes!r:.80}."
    if e.first not in (None, True, False):
        return f"`first` must be true or false, got {e.first!r}."
    return None


def _missing_value(e: Expectation) -> str | None:
    needed = {"not": 1, "goes": 2, "implication": 1}.get(e.expect, 0)
    if len(e.labels) < needed:
        return f"the expectation {e.expect!r} needs {needed} `labels`."
    if e.expect in ("monotonic", "goes") and e.direction is None:
        return f"the expectation {e.expect!r} needs a `direction`: up or down."
    return None


def is_class(value: Any) -> bool:
    """Return whether a value can be the number or the name of a class."""
    return isinstance(value, int | str) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Answers:
    """A model's predictions for n texts: classes [n] and probabilities [n, classes]."""

    classes: NDArray[np.int64]
    probabilities: NDArray[np.float64]


def judge(expectation: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    """Return a verdict for each text of a case.

    The expectation's classes must be numbers, in the same numbering as the answers; `right` are
    the classes that the case names as correct.
    """
    if not _applies(expectation, answers):
        return [None] * len(answers.classes)
    verdicts = _JUDGES[expectation.expect](expectation, answers, right)
    if expectation.compares if expectation.first is None else not expectation.first:
        verdicts[0] = None
    return verdicts


def case_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return whether all judged texts of a case pass; None if none is judged."""
    judged = [verdict for verdict in verdicts if verdict is not None]
    return all(judged) if judged else None


def _applies(e: Expectation, answers: Answers) -> bool:
    if len(answers.classes) < (2 if e.compares else 1):
        return False
    first = int(answers.classes[0])
    return (not e.only_if or first in e.only_if) and first not in e.only_if_not


def _judge_label(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    wanted = e.labels or tuple(right)
    return [int(c) in wanted if wanted else None for c in answers.classes]


def _judge_not(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    return [int(c) not in e.labels for c in answers.classes]


def _judge_inv(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    near = np.abs(_changes(answers)) <= e.tolerance
    return [bool(fine) for fine in (answers.classes == answers.classes[0]) | near]


def _judge_monotonic(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    before = float(answers.probabilities[0, answers.classes[0]])
    no_room = before <= e.tolerance if e.direction == "up" else before >= 1 - e.tolerance
    return [None] * len(answers.classes) if no_room else _within(e, _changes(answers))


def _judge_goes(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    negative, positive = (int(c) for c in e.labels[:2])
    scores = answers.probabilities[:, positive] - answers.probabilities[:, negative]
    return _within(e, scores - scores[0])


def _judge_implication(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    verdicts: list[Verdict] = [None] * len(answers.classes)
    if len(verdicts) == 3:
        first, second, third = (int(c) == e.labels[0] for c in answers.classes)
        if first or second:
            verdicts[2] = third == (first and second)
    return verdicts


def _changes(answers: Answers) -> NDArray[np.float64]:
    """Return how much the probability of the original's class changed, for each text."""
    mine = answers.probabilities[:, answers.classes[0]]
    changed: NDArray[np.float64] = mine - mine[0]
    return changed


def _within(e: Expectation, changes: NDArray[np.float64]) -> list[Verdict]:
    """Return which changes go against the direction by no more than the tolerance."""
    against = -changes if e.direction == "up" else changes
    return [bool(change <= e.tolerance) for change in against]


_JUDGES = {
    "label": _judge_label,
    "not": _judge_not,
    "inv": _judge_inv,
    "monotonic": _judge_monotonic,
    "goes": _judge_goes,
    "implication": _judge_implication,
}
