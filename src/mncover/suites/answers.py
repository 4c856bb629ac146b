"""What a test expects of the answers of a language model, stored as data; nothing is executed.

Suites come from strangers: patterns run against the clock, schemas fetch nothing, and a function
that judges answers is never named in a suite but by who runs it (`mncover run --judge`).
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mncover.errors import TextError
from mncover.suites import patterns
from mncover.types import brief, shorten

# The correct class or answer of a case, any of several, or None if not given.
Label = int | str | tuple[int | str, ...] | None
Mask = NDArray[np.bool_]
DEEPEST = 8  # `all` inside `all`
_NUMBER = re.compile(r"[-+]?\d[\d,]{0,40}(?:\.\d{1,40})?(?:[eE][-+]?\d{1,3})?")


@dataclass(frozen=True)
class AnswerExpectation:
    """How the answers to the texts of a case are judged.

    - `equals`, `contains`: the answer is, or has in it, one of `values`; `contains-all`: all.
    - `regex`: one of `values`, as patterns, is found in the answer.
    - `json`: the answer is JSON, and fits `schema` if there is one.
    - `number`: the last number in the answer is within `tolerance` of one of `values`.
    - `shorter`: the answer has fewer than so many `characters`, or `words`.
    - `refuses`: one of `values`, such as "I cannot", is in the answer, whatever their case.
    - `same`: the answer is the original's, apart from case, spaces and marks at its ends.
    - `judge`: the function that was given to `mncover run --judge` says so.
    - `all`: every expectation of `of` holds.

    Without `values` those of the case's label count. `negate`, in files `not`, turns it around.
    """

    expect: str
    values: tuple[str, ...] = ()
    negate: bool = False
    ignore_case: bool = False
    tolerance: float = 0.0
    characters: int | None = None
    words: int | None = None
    schema: Any = None
    of: tuple[AnswerExpectation, ...] = ()

    def __post_init__(self) -> None:
        if mistake := next(_mistakes(self), None):
            raise TextError(mistake)

    @property
    def compares(self) -> bool:
        """Whether texts are compared with the first of their case."""
        return self.expect == "same" or any(one.compares for one in self.of)

    @property
    def asks(self) -> bool:
        """Whether a function of the user's has to judge."""
        return self.expect == "judge" or any(one.asks for one in self.of)

    def to_json(self) -> dict[str, Any]:
        """Return the expectation as plain values, without defaults."""
        given = [(one.name, getattr(self, one.name), one.default) for one in fields(self)]
        found = {name: value for name, value, default in given if value != default}
        if self.values:
            found["values"] = list(self.values)
        if self.of:
            found["of"] = [one.to_json() for one in self.of]
        return {"not" if name == "negate" else name: value for name, value in found.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any], depth: int = 0) -> AnswerExpectation:
        """Make an expectation from plain values, which are not trusted."""
        known = {"not" if one.name == "negate" else one.name for one in fields(cls)}
        if unknown := sorted(map(str, set(value) - known)):
            listed = ", ".join(sorted(known))
            raise TextError(f"an expectation of answers has no {unknown[0]!r}; known are {listed}.")
        made = {"negate" if name == "not" else name: given for name, given in value.items()}
        values = made.get("values", [])
        made["values"] = tuple(values) if isinstance(values, list) else (values,)
        inner = made.get("of", [])
        if depth > DEEPEST or not isinstance(inner, list):
            raise TextError("`of` must be a list of expectations, not nested too deeply.")
        if not all(isinstance(one, dict) and _is_kind(one.get("expect")) for one in inner):
            raise TextError(f"`of` must be a list of expectations: {', '.join(KINDS)}.")
        made["of"] = tuple(cls.from_json(one, depth + 1) for one in inner)
        return cls(**made)

    def describe(self, label: Label = None) -> str:
        """Return the expectation in a few words; `label` is the case's."""
        if self.expect == "all":
            said = " and ".join(one.describe(label) for one in self.of)
            return f"not ({said})" if self.negate else said
        words = ["not" * self.negate, self.expect]
        if self.expect in WITH_VALUES:
            values = wanted(self, label)
            shown = " or ".join(f'"{shorten(one)}"' for one in values[:5])
            words.append(shown + " or …" * (len(values) > 5) if values else "the label")
        words.append(f"(tolerance {self.tolerance:g})" * (self.expect == "number"))
        if self.characters is not None:
            words.append(f"than {self.characters} characters")
        if self.words is not None:
            words.append(f"than {self.words} words")
        words.append("(by a schema)" * (self.schema is not None))
        return " ".join(word for word in words if word)


def _is_kind(name: Any) -> bool:
    return isinstance(name, str) and name in KINDS


def _mistakes(e: AnswerExpectation) -> Iterator[str]:
    """Yield what is wrong; a check may rely on those before it."""
    if not _is_kind(e.expect):
        yield f"unknown expectation {brief(e.expect)}; known are {', '.join(KINDS)}."
    if not all(isinstance(one, str) for one in e.values):
        yield f"`values` must be a list of texts, got {brief(e.values)}."
    if type(e.negate) is not bool or type(e.ignore_case) is not bool:
        yield "`not` and `ignore_case` must be true or false."
    if type(e.tolerance) not in (int, float) or not 0 <= e.tolerance <= sys.float_info.max:
        yield f"`tolerance` must be a number from 0, got {brief(e.tolerance)}."
    sizes = [size for size in (e.characters, e.words) if size is not None]
    if any(type(size) is not int or not 0 <= size < 2**63 for size in sizes):
        yield f"`characters` and `words` must be whole numbers from 0, got {brief(sizes)}."
    needs = {
        "shorter": (sizes, "`characters` or `words`"),
        "all": (e.of, "a list `of` expectations"),
        "refuses": (e.values, "`values`: the words by which a refusal is known"),
    }
    given, what = needs.get(e.expect, (True, ""))
    if not given:
        yield f"the expectation {e.expect!r} needs {what}."
    yield from _value_mistakes(e)


def _value_mistakes(e: AnswerExpectation) -> Iterator[str]:
    if e.expect == "regex":
        for one in e.values:
            patterns.compiled(one, e.ignore_case)
    if e.expect == "number" and any(_number(one) is None for one in e.values):
        yield f"`values` of the expectation 'number' must be numbers, got {brief(e.values)}."
    if e.schema is not None:
        patterns.check_schema(e.schema)


# Judging.


def judge_answers(
    expectation: AnswerExpectation,
    said: Sequence[str],
    judged: Sequence[int],
    first: NDArray[np.int64],
    labels: Sequence[Label],
) -> tuple[Mask, Mask]:
    """Return which texts are judged, and which of these pass.

    `said` and `judged` are the answer to each text and what the user's function made of it, `first`
    is the row of the original of its case, and `labels` the label of its case.
    """
    applies, passes = np.zeros((2, len(said)), dtype=np.bool_)
    for row, answer in enumerate(said):
        about = _About(answer, said[first[row]], int(judged[row]), labels[row], row == first[row])
        found = _holds(expectation, about)
        applies[row], passes[row] = found is not None, bool(found)
    return applies, passes


@dataclass(frozen=True, slots=True)
class _About:
    """An answer and what it is judged by."""

    answer: str
    original: str
    judged: int
    label: Label
    is_first: bool


def _holds(e: AnswerExpectation, about: _About) -> bool | None:
    """Return whether an answer is as expected; None if the expectation does not apply."""
    found = KINDS[e.expect](e, about)
    return found if found is None or not e.negate else not found


def wanted(e: AnswerExpectation, label: Label) -> tuple[str, ...]:
    """Return the values of an expectation, or those of a case's label."""
    several = label if isinstance(label, tuple) else () if label is None else (label,)
    return e.values or tuple(map(str, several))


def _of_values(
    test: Callable[[AnswerExpectation, str, str], bool], every: bool = False
) -> Callable[[AnswerExpectation, _About], bool | None]:
    """Return what tests an answer against any of the values, or every one; none, no verdict."""

    def holds(e: AnswerExpectation, about: _About) -> bool | None:
        values = wanted(e, about.label)
        found = (test(e, about.answer, value) for value in values)
        return (all(found) if every else any(found)) if values else None

    return holds


def _case(e: AnswerExpectation, text: str) -> str:
    return text.casefold() if e.ignore_case else text


def _equals(e: AnswerExpectation, answer: str, value: str) -> bool:
    return _case(e, answer.strip()) == _case(e, value.strip())


def _contains(e: AnswerExpectation, answer: str, value: str) -> bool:
    return _case(e, value) in _case(e, answer)


def _refuses(e: AnswerExpectation, answer: str, value: str) -> bool:
    return value.casefold() in answer.casefold().replace("\u2019", "'")


def _matches(e: AnswerExpectation, answer: str, value: str) -> bool:
    return patterns.found(patterns.compiled(value, e.ignore_case), answer)


def _is_near(e: AnswerExpectation, answer: str, value: str) -> bool:
    numbers = _NUMBER.findall(answer)
    said, right = _number(numbers[-1]) if numbers else None, _number(value)
    return said is not None and right is not None and abs(said - right) <= e.tolerance


def _number(text: str) -> float | None:
    try:
        found = float(text.replace(",", ""))
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _is_json(e: AnswerExpectation, about: _About) -> bool:
    try:
        value = json.loads(about.answer, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return e.schema is None or patterns.fits(value, e.schema)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_shorter(e: AnswerExpectation, about: _About) -> bool:
    characters, words = len(about.answer.strip()), len(about.answer.split())
    few = e.characters is None or characters < e.characters
    return few and (e.words is None or words < e.words)


def normalised(answer: str) -> str:
    """Return an answer without what makes no difference: case, spaces, marks at its ends."""
    return " ".join(answer.casefold().split()).strip(" .,;:!?\"'`*")


def _is_same(e: AnswerExpectation, about: _About) -> bool | None:
    if about.is_first:
        return None
    return normalised(about.answer) == normalised(about.original)


def _is_judged(e: AnswerExpectation, about: _About) -> bool | None:
    return None if about.judged < 0 else bool(about.judged)


def _all_hold(e: AnswerExpectation, about: _About) -> bool | None:
    found = [known for one in e.of if (known := _holds(one, about)) is not None]
    return all(found) if found else None


KINDS: dict[str, Callable[[AnswerExpectation, _About], bool | None]] = {
    "equals": _of_values(_equals),
    "contains": _of_values(_contains),
    "contains-all": _of_values(_contains, every=True),
    "regex": _of_values(_matches),
    "json": _is_json,
    "number": _of_values(_is_near),
    "shorter": _is_shorter,
    "refuses": _of_values(_refuses),
    "same": _is_same,
    "judge": _is_judged,
    "all": _all_hold,
}
WITH_VALUES = ("equals", "contains", "contains-all", "regex", "number", "refuses")
