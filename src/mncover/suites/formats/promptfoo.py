"""Reads promptfoo's YAML files: prompts, variables, and those assertions that compare text.

Nothing in a file is executed: functions, models that judge, and templates with logic do not map.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from mncover.data.limits import TEXTS, Budget, most_bytes
from mncover.errors import LimitError, TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.formats.collecting import Collected
from mncover.suites.formats.yaml_files import read_yaml

_VARIABLE = re.compile(r"\{\{-?\s*([\w.]+)\s*-?\}\}")
# Assertion -> expectation, whether case counts.
_TEXT = {
    "equals": ("equals", False),
    "contains": ("contains", False),
    "icontains": ("contains", True),
    "contains-any": ("contains", False),
    "icontains-any": ("contains", True),
    "contains-all": ("contains-all", False),
    "icontains-all": ("contains-all", True),
    "regex": ("regex", False),
}


class _UnmappedError(Exception):
    """What of a file has no counterpart here."""


def collect_promptfoo(path: Path) -> Collected:
    """Read a file, and name what does not map."""
    content = read_yaml(path)
    if not isinstance(content, dict | list):
        raise TextError(f"{path}: no promptfoo file; it must have 'tests'.")
    tests = content if isinstance(content, list) else content.get("tests", [])
    if not isinstance(tests, list):
        raise TextError(f"{path}: 'tests' must be a list; tests in other files are not read.")
    about = {} if isinstance(content, list) else content
    most = most_bytes(path.stat().st_size)
    found = Collected(Budget(most, "characters of texts and expectations"))
    prompts = list(_prompts(about.get("prompts", []), found)) or [""]
    default = about.get("defaultTest")
    default = default if isinstance(default, dict) else {}
    for name in ("scenarios", "derivedMetrics", "transform"):
        if name in about:
            found.leave_out(f"'{name}'")
    for number, test in enumerate(tests, start=1):
        if not isinstance(test, dict):
            what = "tests in other files" if isinstance(test, str) else "tests of no shape"
            found.leave_out(what)
            continue
        try:
            _add(test, default, prompts, found)
        except (TextError, LimitError) as error:
            raise type(error)(f"{path}, test {number}: {error}") from None
    return found


def _prompts(given: Any, found: Collected) -> Iterator[str]:
    for prompt in given if isinstance(given, list) else [given]:
        raw = prompt.get("raw", "") if isinstance(prompt, dict) else prompt
        if not isinstance(raw, str) or raw.startswith("file://") or not raw.strip():
            found.leave_out("prompts in other files")
        elif raw.lstrip().startswith("[") or "{%" in raw:
            found.leave_out("prompts of several messages, or with logic")
        else:
            yield raw


def _add(
    test: dict[str, Any], default: dict[str, Any], prompts: Sequence[str], found: Collected
) -> None:
    """Add the cases of a test: one for each prompt and each combination of its variables."""
    given = {**_mapping(default.get("vars")), **_mapping(test.get("vars"))}
    asserts = [*_list(default.get("assert")), *_list(test.get("assert"))]
    values = [one if isinstance(one, list) else [one] for one in given.values()]
    found.tried += math.prod(map(len, values)) * (len(prompts) + len(asserts))
    TEXTS.check(found.tried, "combinations of variables, prompts and assertions")
    for combination in product(*values):
        variables = dict(zip(given, combination, strict=True))
        expected = list(_expected(asserts, variables, found))
        if not expected:
            found.leave_out("tests without an assertion that maps")
            continue
        for prompt in prompts:
            try:
                text = _filled(prompt, variables, found) if prompt else _only(variables)
            except _UnmappedError as why:
                found.leave_out(str(why))
                continue
            found.add(text, expected, str(test.get("description") or ""))


def _expected(
    asserts: Sequence[Any], variables: Mapping[str, Any], found: Collected
) -> Iterator[AnswerExpectation]:
    for one in asserts:
        kind = str(one.get("type", "")) if isinstance(one, dict) else "?"
        if kind == "assert-set" and "threshold" not in one:
            yield from _expected(_list(one.get("assert")), variables, found)
            continue
        try:
            yield _expectation(kind, one, variables, found)
        except _UnmappedError:
            found.leave_out(f"assertions of type {kind[:40]!r}")


def _expectation(
    kind: str, one: Any, variables: Mapping[str, Any], found: Collected
) -> AnswerExpectation:
    """Return an assertion as an expectation."""
    plain, value = kind.removeprefix("not-"), one.get("value") if isinstance(one, dict) else None
    negate = plain != kind
    if plain in _TEXT:
        expect, ignore = _TEXT[plain]
        values = _strings(value, several=plain.endswith(("-any", "-all")))
        filled = tuple(_filled(text, variables, found) for text in values)
        return AnswerExpectation(expect, filled, negate, ignore)
    if plain == "starts-with":
        start = re.escape(_filled(_strings(value)[0], variables, found))
        return AnswerExpectation("regex", (rf"\A{start}",), negate)
    if plain == "is-json" and isinstance(value, dict | None):
        return AnswerExpectation("json", negate=negate, schema=value)
    if plain == "word-count":
        most = value.get("max") if isinstance(value, dict) and "min" not in value else None
        if type(most) is int:
            return AnswerExpectation("shorter", negate=negate, words=most + 1)
    raise _UnmappedError(kind)


def _strings(value: Any, several: bool = False) -> tuple[str, ...]:
    """Return the values of an assertion; where there may be several, commas separate them too."""
    if several and isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    values = value if isinstance(value, list) and several else [value]
    if not values or not all(isinstance(one, str | int | float) for one in values):
        raise _UnmappedError("values of another kind")
    if any(str(one).startswith("file://") for one in values):
        raise _UnmappedError("values in other files")
    return tuple(map(str, values))


def _filled(template: str, variables: Mapping[str, Any], found: Collected) -> str:
    """Return a template with its variables; refuse one that does more than name them."""

    def value(place: re.Match[str]) -> str:
        if not isinstance(variables.get(place[1]), str | int | float):
            raise _UnmappedError("prompts with a variable that no test gives")
        return str(variables[place[1]])

    if "{%" in template or "{{" in _VARIABLE.sub("", template):
        raise _UnmappedError("templates with logic")
    given = (variables.get(name, "") for name in _VARIABLE.findall(template))
    found.spend(len(template) + sum(len(str(one)) for one in given))  # before it is made
    return _VARIABLE.sub(value, template)


def _only(variables: Mapping[str, Any]) -> str:
    """Return the one variable of a test without a prompt."""
    values = [one for one in variables.values() if isinstance(one, str)]
    if len(values) != 1 or values[0].startswith("file://"):
        raise _UnmappedError("tests with several variables and no prompt")
    return values[0]


def _mapping(value: Any) -> dict[str, Any]:
    return {str(name): one for name, one in value.items()} if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
