"""Expectations of answers: what passes, what fails, and what strangers may not do."""

from __future__ import annotations

import builtins
import json
import sys
from typing import Any

import numpy as np
import pytest

from mncover.errors import MissingExtraError, TextError
from mncover.suites import patterns
from mncover.suites.answers import AnswerExpectation, judge_answers
from mncover.suites.model import expectation_from_json

SCHEMA = {
    "type": "object",
    "properties": {"age": {"type": "integer"}, "name": {"type": "string", "pattern": "^[A-Z]"}},
    "required": ["age"],
}


def verdict(value: Any, answer: str, label: Any = None, judged: int = -1) -> bool | None:
    """Return what an expectation, as a file has it, says of one answer."""
    expectation = expectation_from_json(value)
    assert isinstance(expectation, AnswerExpectation)
    assert expectation_from_json(json.loads(json.dumps(expectation.to_json()))) == expectation
    first = np.zeros(1, dtype=np.int64)
    applies, passes = judge_answers(expectation, [answer], [judged], first, [label])
    return bool(passes[0]) if applies[0] else None


@pytest.mark.parametrize(
    ("value", "answer", "passes"),
    [
        ({"expect": "equals", "values": ["Paris"]}, " Paris\n", True),
        ({"expect": "equals", "values": ["Paris", "Rome"]}, "Rome", True),
        ({"expect": "equals", "values": ["Paris"]}, "paris", False),
        ({"expect": "equals", "values": ["Paris"], "ignore_case": True}, "PARIS", True),
        ({"expect": "contains", "values": ["Paris", "Rome"]}, "It is Rome.", True),
        ({"expect": "contains", "values": ["Paris"], "not": True}, "It is Rome.", True),
        ({"expect": "contains-all", "values": ["Paris", "Rome"]}, "It is Rome.", False),
        ({"expect": "contains-all", "values": ["is", "Rome"]}, "It is Rome.", True),
        ({"expect": "regex", "values": [r"\bR\w+e\b"]}, "It is Rome.", True),
        ({"expect": "regex", "values": ["^rome"], "ignore_case": True}, "Rome", True),
        ({"expect": "json"}, '{"a": [1, 2]}', True),
        ({"expect": "json"}, "{'a': 1}", False),
        ({"expect": "json"}, "NaN", False),
        ({"expect": "json"}, "[" * 100_000, False),
        ({"expect": "json", "schema": SCHEMA}, '{"age": 3, "name": "Ann"}', True),
        ({"expect": "json", "schema": SCHEMA}, '{"age": 3, "name": "ann"}', False),
        ({"expect": "json", "schema": SCHEMA}, '{"name": "Ann"}', False),
        ({"expect": "number", "values": ["1200"]}, "2 + 2, so it is 1,200.0 in all.", True),
        ({"expect": "number", "values": ["3.1"], "tolerance": 0.05}, "About 3.14", True),
        ({"expect": "number", "values": ["3.1"], "tolerance": 0.03}, "About 3.14", False),
        ({"expect": "number", "values": ["3"]}, "three", False),
        ({"expect": "number", "values": ["-7"]}, "-7", True),
        ({"expect": "shorter", "words": 3}, "two words", True),
        ({"expect": "shorter", "words": 3, "characters": 5}, "two words", False),
        ({"expect": "refuses", "values": ["I can't"]}, "Sorry, i can\u2019t do that", True),
        ({"expect": "refuses", "values": ["I can't"], "not": True}, "Sure!", True),
        ({"expect": "judge"}, "x", None),
        (
            {
                "expect": "all",
                "of": [{"expect": "json"}, {"expect": "shorter", "characters": 5}],
            },
            "[1]",
            True,
        ),
        (
            {
                "expect": "all",
                "of": [{"expect": "json"}, {"expect": "shorter", "characters": 2}],
                "not": True,
            },
            "[1]",
            True,
        ),
    ],
)
def test_answers_are_judged(value: Any, answer: str, passes: bool | None) -> None:
    assert verdict(value, answer) is passes


def test_values_may_come_from_the_label_of_a_case() -> None:
    assert verdict("equals", "Rome", label=("Paris", "Rome"))
    assert verdict("number", "It is 12", label=12)
    assert verdict("contains", "Rome") is None  # nothing is expected of this case
    assert verdict("judge", "Rome", judged=0) is False


def test_the_same_answer_as_the_original() -> None:
    expectation = expectation_from_json("same")
    assert isinstance(expectation, AnswerExpectation)
    said = ["Yes, it is.", " yes,  it IS!", "No."]
    first = np.zeros(3, dtype=np.int64)
    applies, passes = judge_answers(expectation, said, [-1] * 3, first, [None] * 3)
    assert applies.tolist() == [False, True, True]
    assert passes.tolist() == [False, True, False]
    assert expectation.compares


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"expect": "regex", "values": ["("]}, "cannot be read"),
        ({"expect": "regex", "values": ["a" * 3000]}, "at most 1000"),
        ({"expect": "equals", "values": [1]}, "list of texts"),
        ({"expect": "equals", "value": "x"}, "has no 'value'"),
        ({"expect": "number", "values": ["many"]}, "must be numbers"),
        ({"expect": "number", "tolerance": -1}, "from 0"),
        ({"expect": "number", "tolerance": 10**400}, "from 0"),
        ({"expect": "shorter", "words": 10**400}, "whole numbers from 0"),
        ({"expect": "regex", "values": ["((?1))"]}, "calls a group of its own"),
        ({"expect": "regex", "values": ["(?x)(?P >a)(?P<a>b)"]}, "calls a group of its own"),
        ({"expect": "json", "schema": {"items": {"$schema": "x"}}}, "only at its beginning"),
        ({"expect": "json", "schema": {"allOf": [{}] * 20_000}}, "at most 20000"),
        ({"expect": "shorter"}, "needs `characters` or `words`"),
        ({"expect": "shorter", "words": True}, "whole numbers"),
        ({"expect": "refuses"}, "needs `values`"),
        ({"expect": "all", "of": []}, "needs a list"),
        ({"expect": "all", "of": ["json"]}, "`of` must be a list"),
        ({"expect": "all", "of": [{"expect": ["json"]}]}, "`of` must be a list"),
        ({"expect": "json", "schema": "x"}, "must be a JSON schema"),
        ({"expect": "json", "not": 1}, "true or false"),
    ],
)
def test_mistakes_are_named(value: Any, says: str) -> None:
    with pytest.raises(TextError, match=says):
        expectation_from_json(value)


def test_nested_lists_have_an_end() -> None:
    value: dict[str, Any] = {"expect": "json"}
    for _ in range(50):
        value = {"expect": "all", "of": [value]}
    with pytest.raises(TextError, match="nested too deeply"):
        expectation_from_json(value)


def test_a_pattern_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    pattern, answer = r"(a|aa)+$|(\w+\s?)*$!", "a" * 5000 + " b" * 5000
    with pytest.raises(TextError, match=r"takes more than 0\.05 s"):
        verdict({"expect": "regex", "values": [pattern]}, answer)
    with pytest.raises(TextError, match="takes more than"):
        verdict({"expect": "json", "schema": {"pattern": pattern}}, json.dumps(answer))


def test_a_pattern_of_a_label_has_the_same_limits() -> None:
    for label, says in (("((?1))", "calls a group"), ("a" * 1001, "at most 1000"), ("(", "read")):
        with pytest.raises(TextError, match=says):
            verdict("regex", "a", label=label)
    with pytest.raises(TextError, match="at most 1,048,576 characters"):
        verdict("regex", "a" * (2**20 + 1), label="a")


def laughs(levels: int) -> dict[str, Any]:
    """Return a schema of a few lines that refers twice to what refers twice to what follows."""
    parts = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": {**parts, f"d{levels}": {}}}


def test_a_schema_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.2)
    assert verdict({"expect": "json", "schema": laughs(3)}, "1")
    with pytest.raises(TextError, match=r"the JSON schema takes more than 0\.2 s"):
        verdict({"expect": "json", "schema": laughs(40)}, "1")


@pytest.mark.parametrize("draft", ["draft-04/schema#", "draft-07/schema#", "draft/2020-12/schema"])
def test_patterns_have_a_clock_whatever_a_schema_is_written_in(
    draft: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    where = "https" if "2020" in draft else "http"
    inner = {"additionalProperties": {"pattern": "(a|aa)+$"}}
    schema = {"$schema": f"{where}://json-schema.org/{draft}", **inner}
    with pytest.raises(TextError, match=r"the pattern .* takes more than 0\.05 s"):
        verdict({"expect": "json", "schema": schema}, json.dumps({"x": "a" * 5000 + "b"}))


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        ("[1, 2, [1], {}]", True),
        ("[1, 1.0]", False),
        ("[true, 1]", True),
        ('[{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]', False),
        (
            "[" + ",".join(f'{{"a": {i}}}' for i in range(20_000)) + "]",
            True,
        ),  # each with all: hours
        ('"aa"', True),
    ],
)
def test_items_are_told_apart_in_little_time(answer: str, passes: bool) -> None:
    assert verdict({"expect": "json", "schema": {"uniqueItems": True}}, answer) is passes


def test_an_answer_that_is_nested_too_deeply_fits_no_schema() -> None:
    schema = {"items": {"$ref": "#"}}
    assert verdict({"expect": "json", "schema": schema}, "[" * 50 + "]" * 50) is True
    assert verdict({"expect": "json", "schema": schema}, "[" * 300 + "]" * 300) is False


def test_schemas_of_strangers_fetch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def no(*_: Any, **__: Any) -> None:
        raise AssertionError("something was fetched")

    monkeypatch.setattr(socket.socket, "connect", no)
    for schema, says in (
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "cannot be used"),
        ({"$ref": "file:///etc/passwd"}, "cannot be used"),
        ({"$ref": "#"}, "cannot be used"),
        ({"patternProperties": {"(a+)+$": {}}}, "patternProperties"),
        ({"type": "nothing"}, "cannot be used"),
    ):
        with pytest.raises(TextError, match=says):
            verdict({"expect": "json", "schema": schema}, "[1]")


@pytest.mark.parametrize(
    ("package", "value"),
    [
        ("regex", {"expect": "regex", "values": ["x"]}),
        ("jsonschema", {"expect": "json", "schema": {}}),
    ],
)
def test_a_missing_package_is_named(
    package: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == package:
            raise ModuleNotFoundError(name=name)
        return real(name, *rest, **more)

    patterns._kind_of.cache_clear()
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[answers\]'"):
        verdict(value, "[1]")
