"""Reads promptfoo's YAML files: prompts, variables, and those assertions that compare text.

Nothing in a file is executed: functions, models that judge, and templates with logic do not map.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from mncover.data.gzipped import open_bytes
from mncover.errors import MissingExtraError, TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.formats.collecting import Collected

LONGEST = 2**26  # bytes of a file
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
    content = _loaded(path)
    tests = content if isinstance(content, list) else content.get("tests", [])
    if not isinstance(tests, list):
        raise TextError(f"{path}: 'tests' must be a list; tests in other files are not read.")
    about = {} if isinstance(content, list) else content
    found = Collected()
    prompts = list(_prompts(about.get("prompts", []), found)) or [""]
    default = about.get("defaultTest")
    default = default if isinstance(default, dict) else {}
    for name in ("scenarios", "derivedMetrics", "transform"):
        if name in about:
            found.leave_out(f"'{name}'")
    for test in tests:
        if isinstance(test, dict):
            _add(test, default, prompts, found)
        else:
            found.leave_out(
                "tests in other files" if isinstance(test, str) else "tests of no shape"
            )
    return found


def _loaded(path: Path) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading YAML", "pyyaml", "answers") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """Makes plain values; an alias, which may stand for more than fits, is refused."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("it has aliases (*name): write out what they stand for")
            return super().compose_node(parent, index)

    try:
        with open_bytes(path) as file:
            raw = file.read(LONGEST + 1)
        if len(raw) > LONGEST:
            raise ValueError("it has more than 64 MiB")
        content = yaml.load(raw, Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        why = " ".join(str(error).split())[:200]
        raise TextError(f"{path}: not YAML ({why}).") from error
    if not isinstance(content, dict | list):
        raise TextError(f"{path}: no promptfoo file; it must have 'tests'.")
    return content


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
    for combination in product(*values):
        variables = dict(zip(given, combination, strict=True))
        expected = list(_expected(asserts, variables, found))
        if not expected:
            found.leave_out("tests without an assertion that maps")
            continue
        for prompt in prompts:
            try:
                text = _filled(prompt, variables) if prompt else _only(variables)
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
            yield _expectation(kind, one, variables)
        except _UnmappedError:
            found.leave_out(f"assertions of type {kind[:40]!r}")


def _expectation(kind: str, one: Any, variables: Mapping[str, Any]) -> AnswerExpectation:
    """Return an assertion as an expectation."""
    plain, value = kind.removeprefix("not-"), one.get("value") if isinstance(one, dict) else None
    negate = plain != kind
    if plain in _TEXT:
        expect, ignore = _TEXT[plain]
        values = _strings(value, several=plain.endswith(("-any", "-all")))
        filled = tuple(_filled(text, variables) for text in values)
        return AnswerExpectation(expect, filled, negate, ignore)
    if plain == "starts-with":
        start = re.escape(_filled(_strings(value)[0], variables))
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


def _filled(template: str, variables: Mapping[str, Any]) -> str:
    """Return a template with its variables; refuse one that does more than name them."""

    def value(found: re.Match[str]) -> str:
        if not isinstance(variables.get(found[1]), str | int | float):
            raise _UnmappedError("prompts with a variable that no test gives")
        return str(variables[found[1]])

    if "{%" in template or "{{" in _VARIABLE.sub("", template):
        raise _UnmappedError("templates with logic")
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
