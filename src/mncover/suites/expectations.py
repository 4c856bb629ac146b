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
from mncover.suites.answers import KINDS as ANSWERS
from mncover.types import brief

Expect = Literal["label", "not", "inv", "monotonic", "goes", "implication"]
Direction = Literal["up", "down"]
Classes = tuple[int | str, ...]
TOLERANCE, MAX_TOLERANCE = 0.1, 1000
MAX_CLASS = 2**31  # no class has a larger number


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
            raise TextError(f"an expectation must be an object with 'expect', got {brief(value)}.")
        if unknown := sorted(set(value) - set(known)):
            raise TextError(f"an expectation has no {unknown[0]!r}; known are {', '.join(known)}.")
        made: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in value.items()}
        return cls(**made)


def _mistakes(e: Expectation) -> Iterator[str]:
    """Yield what is wrong; a check may rely on those before it."""
    if e.expect not in get_args(Expect):
        names, others = ", ".join(get_args(Expect)), ", ".join(ANSWERS)
        yield f"unknown expectation {brief(e.expect)}; known are {names}, and for answers {others}."
    if e.direction not in (None, *get_args(Direction)):
        yield f"`direction` must be up or down, got {brief(e.direction)}."
    if type(e.tolerance) not in (int, float) or not 0 <= e.tolerance <= MAX_TOLERANCE:
        yield f"`tolerance` must be a number from 0 to 1000, got {brief(e.tolerance)}."
    lists = [(name, getattr(e, name)) for name in ("labels", "only_if", "only_if_not")]
    wrong = [(n, v) for n, v in lists if not isinstance(v, tuple) or not all(map(is_class, v))]
    if wrong:
        yield f"`{wrong[0][0]}` must be a list of classes, got {brief(wrong[0][1])}."
    if e.first is not None and type(e.first) is not bool:
        yield f"`first` must be true or false, got {brief(e.first)}."
    needed = {"not": 1, "goes": 2, "implication": 1}.get(e.expect, 0)
    if len(e.labels) < needed:
        yield f"the expectation {e.expect!r} needs {needed} `labels`."
    if e.expect in ("monotonic", "goes") and e.direction is None:
        yield f"the expectation {e.expect!r} needs a `direction`: up or down."


def is_class(value: Any) -> bool:
    """Return whether a value can be the number or the name of a class."""
    return isinstance(value, str) or (type(value) is int and 0 <= value < MAX_CLASS)


@dataclass(frozen=True, slots=True)
class Answers:
    """A model's predictions for n texts: classes [n] and probabilities [n, classes].

    A language model that was asked to answer has no classes, but `said` what it did. `judged` is
    what a function of the user's made of that: 1, 0, or -1 if it was not asked.
    """

    classes: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    said: tuple[str, ...] = ()
    judged: tuple[int, ...] = ()

    def part(self, start: int, stop: int) -> Answers:
        """Return the answers to some of the texts."""
        mine = slice(start, stop)
        sides = self.said[mine], self.judged[mine]
        return Answers(self.classes[mine], self.probabilities[mine], *sides)


Mask = NDArray[np.bool_]


class Grouped:
    """Texts that lie case by case: which case each belongs to, and its place in it."""

    def __init__(self, sizes: Sequence[int]) -> None:
        each = np.asarray(sizes, dtype=np.int64)
        self.cases = len(each)
        self.case = np.repeat(np.arange(self.cases), each)
        self.first = (np.cumsum(each) - each)[self.case]  # the row of the case's original
        self.place = np.arange(len(self.case)) - self.first
        self.size = each[self.case]


def judge(
    expectation: Expectation, answers: Answers, texts: Grouped, right: Sequence[tuple[int, ...]]
) -> tuple[Mask, Mask]:
    """Return which texts of many cases are judged, and which of these pass.

    The expectation's classes must be numbers, in the same numbering as the answers; `right` are
    the classes that each case names as correct.
    """
    e, original = expectation, answers.classes[texts.first]
    judged = texts.size >= (2 if e.compares else 1)
    if e.only_if:
        judged &= np.isin(original, e.only_if)
    judged &= ~np.isin(original, e.only_if_not)
    if e.compares if e.first is None else not e.first:
        judged &= texts.place > 0
    passes, applies = _passing(e, answers, texts, right)
    judged &= applies
    return judged, judged & passes


def _passing(
    e: Expectation, answers: Answers, texts: Grouped, right: Sequence[tuple[int, ...]]
) -> tuple[Mask, Mask | bool]:
    """Return which texts pass, and which of them the expectation applies to."""
    classes, probabilities = answers.classes, answers.probabilities
    match e.expect:
        case "label":
            return (np.isin(classes, e.labels), True) if e.labels else _right(answers, texts, right)
        case "not":
            return ~np.isin(classes, e.labels), True
        case "implication":
            return _implied(classes == e.labels[0], texts)
        case "goes":
            negative, positive = (int(c) for c in e.labels[:2])
            if max(negative, positive) >= (n := probabilities.shape[1]):
                raise TextError(f"there is no class {max(negative, positive)}; there are {n}.")
            scores = probabilities[:, positive] - probabilities[:, negative]
            return _within(e, scores - scores[texts.first]), True
    original = classes[texts.first]
    mine = probabilities[np.arange(len(classes)), original]
    before = mine[texts.first]
    if e.expect == "inv":
        return (classes == original) | (np.abs(mine - before) <= e.tolerance), True
    no_room = before <= e.tolerance if e.direction == "up" else before >= 1 - e.tolerance
    return _within(e, mine - before), ~no_room


def _right(answers: Answers, texts: Grouped, right: Sequence[tuple[int, ...]]) -> tuple[Mask, Mask]:
    """Return which texts have a class that their case names, and which cases name one."""
    numbers = {wanted: number for number, wanted in enumerate(dict.fromkeys(right))}
    which = np.array([numbers[wanted] for wanted in right], dtype=np.int64)[texts.case]
    passes, named = np.zeros((2, len(which)), dtype=np.bool_)
    for wanted, number in numbers.items():
        mine = which == number
        passes[mine], named[mine] = np.isin(answers.classes[mine], wanted), bool(wanted)
    return passes, named


def _implied(has: Mask, texts: Grouped) -> tuple[Mask, Mask]:
    """Return which third texts follow from the two before them, and where that says anything."""
    first, second = has[texts.first], np.roll(has, 1)
    third = (texts.size == 3) & (texts.place == 2)
    return has == (first & second), third & (first | second)


def _within(e: Expectation, change: NDArray[np.float64]) -> Mask:
    """Return which scores moved against the direction by no more than the tolerance."""
    return (-change if e.direction == "up" else change) <= e.tolerance
