"""Patterns and JSON schemas of strangers: they run against the clock and fetch nothing."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from mncover.errors import MissingExtraError, TextError
from mncover.types import brief

SECONDS = 1.0  # that a pattern, or a schema, may take for one answer
LONGEST_PATTERN, LONGEST_SCHEMA = 1000, 20_000  # characters: both take time to prepare
LONGEST_ANSWER = 2**20  # characters that a pattern is looked for in
DEEPEST_ANSWER = 64  # levels of JSON that a schema may be for
_CALL = re.compile(r"\(\?(?:R|[-+]?\d|&|P>)")  # a group that calls itself takes any memory
_VERBOSE = re.compile(r"#[^\n]*|\s")
# Their patterns, and what they refer to, would be followed without a clock.
_NOT_HERE = ("patternProperties", "unevaluatedProperties", "unevaluatedItems")

Keyword = Callable[[Any, Any, Any, Any], Any]


def compiled(pattern: str, ignore_case: bool = False) -> Any:
    """Return a pattern that `found` takes; refuse one that is none, or asks for too much."""
    try:
        import regex
    except ModuleNotFoundError as error:
        raise MissingExtraError("the expectation 'regex'", "regex", "answers") from error
    if len(pattern) > LONGEST_PATTERN:
        raise TextError(f"a pattern may have at most {LONGEST_PATTERN} characters.")
    if _CALL.search(pattern) or _CALL.search(_VERBOSE.sub("", pattern)):
        raise TextError(f"the pattern {brief(pattern)} calls a group of its own: write it out.")
    try:
        return regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise TextError(f"the pattern {brief(pattern)} cannot be read ({error}).") from error


def found(pattern: Any, answer: str) -> bool:
    """Return whether a pattern is in an answer; refuse one that takes too long to tell."""
    if len(answer) > LONGEST_ANSWER:
        raise TextError(f"patterns are looked for in at most {LONGEST_ANSWER:,} characters.")
    try:
        return pattern.search(answer, timeout=SECONDS) is not None
    except (TimeoutError, MemoryError):
        raise TextError(
            f"the pattern {brief(pattern.pattern)} takes more than {SECONDS:g} s on one answer: "
            "write it without repetitions inside repetitions."
        ) from None


def check_schema(schema: Any) -> None:
    """Refuse what is no JSON schema, or one that asks for too much."""
    try:
        written = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        written = ""
    if not isinstance(schema, dict | bool) or not 0 < len(written) <= LONGEST_SCHEMA:
        raise TextError(f"`schema` must be a JSON schema of at most {LONGEST_SCHEMA} characters.")
    _kind_of(written)


def fits(value: Any, schema: Any) -> bool:
    """Return whether a value fits a schema; nothing that the schema refers to is fetched.

    A value that is nested more deeply than any that was asked for does not.
    """
    if _is_deep(value):
        return False
    kind, own, clock = _kind_of(json.dumps(schema))
    from referencing import Registry

    clock.end = time.monotonic() + SECONDS
    try:
        return bool(kind(own, registry=Registry()).is_valid(value))
    except (TextError, MissingExtraError):
        raise
    except Exception as error:  # a stranger's schema brings about almost anything
        raise _unusable(error) from error


def _unusable(error: Exception) -> TextError:
    why = (str(error).splitlines() or [type(error).__name__])[0]
    return TextError(f"the JSON schema cannot be used ({brief(why)}).")


@dataclass
class _Clock:
    """When a check has to end."""

    end: float = 0.0

    def look(self) -> None:
        """Refuse a schema that is late."""
        if time.monotonic() > self.end:
            raise TextError(
                f"the JSON schema takes more than {SECONDS:g} s on one answer: "
                "let it refer less often to what refers further."
            )


@lru_cache(maxsize=32)
def _kind_of(written: str) -> tuple[Any, Any, _Clock]:
    """Return a validator for a schema, which is checked, the schema, and the validator's clock."""
    try:
        from jsonschema import validators
    except ModuleNotFoundError as error:
        raise MissingExtraError("a JSON schema", "jsonschema", "answers") from error
    schema = json.loads(written)
    for name in _NOT_HERE:
        if _has_name(schema, name):
            raise TextError(f"a JSON schema must not have '{name}' here.")
    try:
        kind = validators.validator_for(schema, default=validators.Draft202012Validator)
        kind.check_schema(schema)
    except Exception as error:
        raise _unusable(error) from error
    own = {n: v for n, v in schema.items() if n != "$schema"} if type(schema) is dict else schema
    # A part with a '$schema' would be checked by a validator of its own, without a clock.
    if _has_name(own, "$schema"):
        raise TextError("a JSON schema may have '$schema' only at its beginning.")
    clock = _Clock()
    mine = {"pattern": _pattern, "uniqueItems": _unique}
    keywords = {n: _timed(mine.get(n, check), clock) for n, check in kind.VALIDATORS.items()}
    return validators.extend(kind, keywords), own, clock


def _timed(check: Keyword, clock: _Clock) -> Keyword:
    def keyword(validator: Any, wanted: Any, given: Any, schema: Any) -> Any:
        clock.look()
        return check(validator, wanted, given, schema)

    return keyword


def _pattern(validator: Any, wanted: Any, given: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(given, str) and not found(compiled(str(wanted)), given):
        yield ValidationError("does not match")


def _unique(validator: Any, wanted: Any, given: Any, schema: Any) -> Iterator[Any]:
    """Compare items by how they are written: the library compares each with all others."""
    from jsonschema import ValidationError

    if wanted is True and isinstance(given, list):
        written = [json.dumps(_plain(one), sort_keys=True) for one in given]
        if len(set(written)) < len(written):
            yield ValidationError("has an item twice")


def _plain(value: Any) -> Any:
    """Return a value in which equal numbers are written alike: 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return {n: _plain(v) for n, v in value.items()} if isinstance(value, dict) else value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST_ANSWER):
        level = [part for one in level for part in _parts(one)]
    return bool(level)


def _parts(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def _has_name(schema: Any, name: str) -> bool:
    left = [schema]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            if name in one:
                return True
            left += one.values()
        elif isinstance(one, list):
            left += one
    return False
