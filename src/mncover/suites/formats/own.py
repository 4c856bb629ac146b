"""The project's own suite format: JSON Lines, a line for the suite, each test and each case.

docs/suites.md describes it. What is written comes back the same. No torch here.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mncover.data.files import replacing
from mncover.errors import TextError
from mncover.suites.expectations import Expectation
from mncover.suites.model import KINDS, Case, Label, Suite, Test
from mncover.types import Text, is_text

FORMAT_VERSION = 1


def write_suite(suite: Suite, path: Path) -> None:
    """Write a suite; a name that ends with .gz is compressed. Equal suites make equal files."""
    content = b"".join(json_line(row) for row in _rows(suite))
    with replacing(path) as temporary:
        zipped = path.name.endswith(".gz")
        temporary.write_bytes(gzip.compress(content, mtime=0) if zipped else content)


def json_line(row: dict[str, Any]) -> bytes:
    """Return a line that people can read; what UTF-8 cannot carry is escaped."""
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:
        return json.dumps(row).encode() + b"\n"


def _rows(suite: Suite) -> Iterator[dict[str, Any]]:
    yield {"suite": FORMAT_VERSION, "labels": list(suite.labels)}
    for test in suite.tests:
        row = {"test": test.name, "type": test.kind, "expectation": test.expectation.to_json()}
        row |= {"capability": test.capability} if test.capability else {}
        row |= {"description": test.description} if test.description else {}
        yield row
        for case in test.cases:
            yield _case_row(case)


def _case_row(case: Case) -> dict[str, Any]:
    texts = [list(text) if isinstance(text, tuple) else text for text in case.texts]
    row: dict[str, Any] = {"case": texts}
    if case.label is not None:
        row["label"] = list(case.label) if isinstance(case.label, tuple) else case.label
    return row


def read_suite(path: Path) -> Suite:
    """Read a suite; every complaint names the file and the line."""
    reader = _Reader()
    for number, row in _lines(path):
        try:
            reader.take(row)
        except TextError as error:
            raise TextError(f"{path}, line {number}: {error}") from None
    try:
        return reader.done()
    except TextError as error:
        raise TextError(f"{path}: {error}") from None


def is_suite(path: Path) -> bool:
    """Return whether a JSON Lines file is a suite of tests rather than a list of texts."""
    try:
        for _, row in _lines(path):
            return "suite" in row or "test" in row
    except TextError:
        return False
    return False


class _Reader:
    """Puts rows together, one after the other."""

    def __init__(self) -> None:
        self.labels: tuple[str, ...] = ()
        self.tests: list[Test] = []  # without their cases, which are below
        self.cases: list[list[Case]] = []

    def take(self, row: dict[str, Any]) -> None:
        """Take a row of any kind."""
        if "suite" in row:
            self.labels = _suite_row(row)
        elif "test" in row:
            self.tests.append(_test_row(row))
            self.cases.append([])
        elif "case" not in row:
            raise TextError("a line must have 'suite', 'test' or 'case'.")
        elif not self.tests:
            raise TextError("a case comes before any test.")
        else:
            self.cases[-1].append(_case(row))

    def done(self) -> Suite:
        """Return the suite; refuse one without tests, or a test without cases."""
        if not self.tests:
            raise TextError("the file holds no test.")
        for test, cases in zip(self.tests, self.cases, strict=True):
            if not cases:
                raise TextError(f"the test {test.name!r} has no cases.")
        made = zip(self.tests, self.cases, strict=True)
        return Suite(tuple(replace(test, cases=tuple(c)) for test, c in made), self.labels)


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    opener = gzip.open if path.name.endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, _object(path, number, line)
    except FileNotFoundError as error:
        raise TextError(f"{path}: no such file.") from error
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise TextError(f"{path}: cannot be read ({error}).") from error


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TextError(f"{path}, line {number}: not JSON ({error}).") from None
    if not isinstance(row, dict):
        raise TextError(f"{path}, line {number}: expected an object, got {line.strip():.60}.")
    return row


def _suite_row(row: dict[str, Any]) -> tuple[str, ...]:
    if row["suite"] != FORMAT_VERSION:
        raise TextError(f"this version reads suites of format {FORMAT_VERSION}.")
    labels = row.get("labels", [])
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise TextError("'labels' must be a list of names.")
    return tuple(labels)


def _test_row(row: dict[str, Any]) -> Test:
    kind = row.get("type", "MFT")
    if kind not in KINDS:
        raise TextError(f"'type' must be one of {', '.join(KINDS)}, got {kind!r}.")
    words = [row["test"], row.get("capability", ""), row.get("description", "")]
    if not all(isinstance(word, str) for word in words) or not words[0]:
        raise TextError("'test', 'capability' and 'description' must be text, 'test' not empty.")
    default = "label" if kind == "MFT" else "inv"
    expectation = Expectation.from_json(row.get("expectation", default))
    return Test(words[0], kind, expectation, (), words[1], words[2])


def _case(row: dict[str, Any]) -> Case:
    texts = row["case"] if isinstance(row["case"], list) else [row["case"]]
    made: tuple[Text, ...] = tuple(tuple(t) if isinstance(t, list) else t for t in texts)
    if not made or not all(is_text(text) for text in made):
        raise TextError("'case' must be a text or a list of texts (a pair is a list of two).")
    return Case(made, _label(row.get("label")))


def _label(value: Any) -> Label:
    one = value if isinstance(value, list) else [value]
    if value is None:
        return None
    if not one or not all(isinstance(x, int | str) and not isinstance(x, bool) for x in one):
        raise TextError(f"'label' must be a class or a list of classes, got {value!r:.60}.")
    return tuple(one) if isinstance(value, list) else one[0]
