"""What a test expects, stored as data rather than as a function.

An expectation judges the texts of a case by their predicted classes and probabilities. A text
passes, fails, or is not judged because the expectation does not apply. docs/suites.md has a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
        if mistake := next(_mistakes(self), None):
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
        known = sorted(field.name for field in fields(cls))
        value = {"expect": value} if isinstance(value, str) else value
        if not isinstance(value, Mapping) or "expect" not in value:
            raise TextError(f"an expectation must be an object with 'expect', got {value!r:.80}.")
        if unknown := sorted(set(value) - set(known)):
            raise TextError(f"an expectation has no {unknown[0]!r}; known are {', '.join(known)}.")
        made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return cls(**made)


def _mistakes(e: Expectation) -> Iterator[str]:
    """Yield what is wrong; a check may rely on those before it."""
    if e.expect not in get_args(Expect):
        yield f"unknown expectation {e.expect!r}; known are {', '.join(get_args(Expect))}."
    if e.direction not in (None, *get_args(Direction)):
        yield f"`direction` must be up or down, got {e.direction!r}."
    number = isinstance(e.tolerance, int | float) and not isinstance(e.tolerance, bool)
    if not number or not e.tolerance >= 0:
        yield f"`tolerance` must be a number that is at least 0, got {e.tolerance!r}."
    lists = [(name, getattr(e, name)) for name in ("labels", "only_if", "only_if_not")]
    wrong = [(n, v) for n, v in lists if not isinstance(v, tuple) or not all(map(is_class, v))]
    if wrong:
        yield "`{}` must be a list of classes, got {!r:.80}.".format(*wrong[0])
    if e.first not in (None, True, False):
        yield f"`first` must be true or false, got {e.first!r}."
    needed = {"not": 1, "goes": 2, "implication": 1}.get(e.expect, 0)
    if len(e.labels) < needed:
        yield f"the expectation {e.expect!r} needs {needed} `labels`."
    if e.expect in ("monotonic", "goes") and e.direction is None:
        yield f"the expectation {e.expect!r} needs a `direction`: up or down."


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
    e, n = expectation, len(answers.classes)
    if n < (2 if e.compares else 1):
        return [None] * n
    first = int(answers.classes[0])
    if (e.only_if and first not in e.only_if) or first in e.only_if_not:
        return [None] * n
    verdicts = _verdicts(e, answers, right)
    if e.compares if e.first is None else not e.first:
        verdicts[0] = None
    return verdicts


def case_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return whether all judged texts of a case pass; None if none is judged."""
    judged = [verdict for verdict in verdicts if verdict is not None]
    return all(judged) if judged else None


def _verdicts(e: Expectation, answers: Answers, right: Sequence[int]) -> list[Verdict]:
    classes, probabilities = answers.classes, answers.probabilities
    mine = probabilities[:, classes[0]]  # of the original's class
    match e.expect:
        case "label":
            wanted = e.labels or tuple(right)
            return [int(c) in wanted if wanted else None for c in classes]
        case "not":
            return [int(c) not in e.labels for c in classes]
        case "inv":
            near = np.abs(mine - mine[0]) <= e.tolerance
            return [bool(fine) for fine in (classes == classes[0]) | near]
        case "monotonic":
            no_room = mine[0] <= e.tolerance if e.direction == "up" else mine[0] >= 1 - e.tolerance
            return [None] * len(mine) if no_room else _within(e, mine)
        case "goes":
            negative, positive = (int(c) for c in e.labels[:2])
            return _within(e, probabilities[:, positive] - probabilities[:, negative])
        case "implication":
            if len(classes) != 3:
                return [None] * len(classes)
            first, second, third = (int(c) == e.labels[0] for c in classes)
            return [None, None, third == (first and second) if first or second else None]


def _within(e: Expectation, scores: NDArray[np.float64]) -> list[Verdict]:
    """Return which scores moved against the direction by no more than the tolerance."""
    against = scores[0] - scores if e.direction == "up" else scores - scores[0]
    return [bool(change <= e.tolerance) for change in against]
