"""JSON Lines: a file with one text per line, and mncover's own format of test suites.

A suite has a line for the suite, each test and each case; docs/suites.md describes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mncover.data.texts import TextFile
from mncover.errors import TextError
from mncover.suites.cases import Case, CaseWriter
from mncover.suites.expectations import is_class
from mncover.suites.formats.records import PLAIN, Record, SuiteFormat, TextFormat, write_content
from mncover.suites.model import Suite, Test, known_plan
from mncover.suites.seal import check_seal, sealed
from mncover.types import Text, are_texts, brief

FORMAT_VERSION = 1


def read_json_lines(path: Path) -> Iterator[Record]:
    """Yield what each line holds, with the line's number; blank lines are skipped."""
    for number, line in PLAIN.read(path):
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TextError(f"{path}, line {number}: not JSON ({error}).") from error


def write_json_lines(rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Write one line per row; a name that ends with .gz is compressed."""
    write_content(b"".join(map(_json_line, rows)), path)


def _json_line(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot encode
        return json.dumps(row).encode() + b"\n"


def write_suite(suite: Suite, path: Path) -> None:
    """Write a suite; equal suites give equal files."""
    write_json_lines(_rows(suite), path)


def _rows(suite: Suite) -> Iterator[dict[str, Any]]:
    plan = {} if suite.plan is None else {"plan": sealed(suite)}
    yield {"suite": FORMAT_VERSION, "labels": suite.labels, **plan}
    for test in suite.tests:
        row = {"test": test.name, "type": test.kind, "expectation": test.expectation.to_json()}
        about = {"capability": test.capability, "description": test.description}
        yield row | {name: value for name, value in about.items() if value}
        for case in test.cases:
            label = {} if case.label is None else {"label": case.label}
            yield {"case": case.texts, **label}


def read_suite(path: Path) -> Suite:
    """Read a suite; every error names the file and the line."""
    labels: tuple[str, ...] = ()
    plan: dict[str, Any] | None = None
    tests: list[tuple[Test, CaseWriter]] = []
    file = TextFile()
    for number, row in read_json_lines(path):
        try:
            if isinstance(row, dict) and "suite" in row:
                labels, plan = _suite_row(row)
            else:
                _add_row(row, tests, file)
        except TextError as error:
            raise TextError(f"{path}, line {number}: {error}") from None
    empty = [test.name for test, cases in tests if not len(cases)]
    if empty or not tests:
        what = f"the test {empty[0]!r} has no cases" if empty else "the file has no tests"
        raise TextError(f"{path}: {what}.")
    try:
        made = tuple(replace(test, cases=cases.cases()) for test, cases in tests)
        return check_seal(Suite(made, labels, plan))
    except TextError as error:
        raise TextError(f"{path}: {error}") from None


def _add_row(row: Any, tests: list[tuple[Test, CaseWriter]], file: TextFile) -> None:
    """Add a test, or a case of the last test."""
    if not isinstance(row, dict):
        raise TextError(f"expected an object, got {brief(row)}.")
    if row.get("test") == "":
        raise TextError("'test' must not be empty.")
    if "test" in row:
        tests.append((Test.from_json(row), CaseWriter(file)))
    elif "case" not in row:
        raise TextError("a line must have 'suite', 'test' or 'case'.")
    elif not tests:
        raise TextError("a case comes before any test.")
    else:
        tests[-1][1].add(_case(row))


def is_suite(path: Path) -> bool:
    """Return whether a JSON Lines file is a test suite rather than a list of texts."""
    try:
        _, row = next(read_json_lines(path), (0, None))
    except TextError:
        return False
    return isinstance(row, dict) and ("suite" in row or "test" in row)


def _suite_row(row: dict[str, Any]) -> tuple[tuple[str, ...], dict[str, Any] | None]:
    if type(row["suite"]) is not int or row["suite"] != FORMAT_VERSION:
        raise TextError(f"this version reads suites of format {FORMAT_VERSION}.")
    labels = row.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise TextError("'labels' must be a list of names.")
    return tuple(labels), known_plan(row.get("plan"))


def _case(row: dict[str, Any]) -> Case:
    texts = row["case"] if isinstance(row["case"], list) else [row["case"]]
    made: tuple[Text, ...] = tuple(tuple(t) if isinstance(t, list) else t for t in texts)
    if not made or not are_texts(made):
        raise TextError("'case' must be a text or a list of texts (a pair is a list of two).")
    label = row.get("label")
    several = label if isinstance(label, list) else [label]
    if label is not None and not (several and all(map(is_class, several))):
        raise TextError(f"'label' must be a class or a list of classes, got {brief(label)}.")
    return Case(made, tuple(label) if isinstance(label, list) else label)


TEXTS = TextFormat(read_json_lines, PLAIN.copy)
SUITE = SuiteFormat(read_suite, write_suite, is_suite)
