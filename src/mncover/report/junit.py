"""The cases of a suite as JUnit XML, which build servers show. No torch here."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from mncover.data.files import replacing
from mncover.data.store import CoverageData
from mncover.report.describe import describe_expectation
from mncover.suites.judging import FAILS, NOT_JUDGED, Outcome, in_suite_classes, judged_cases
from mncover.suites.model import Outline
from mncover.types import shorten

LONGEST = 300


def write_junit(data: CoverageData, path: Path) -> tuple[int, int]:
    """Write a test suite for each test and a test case for each case; return failing and all.

    A case that the expectation does not apply to is skipped.
    """
    root = ElementTree.Element("testsuites", name="mncover")
    failing = total = 0
    for outline, outcome, rows in judged_cases(data):
        root.append(_suite(data, outline, outcome, rows))
        failing += outcome.failing
        total += len(outcome.test.cases)
    root.set("tests", str(total))
    root.set("failures", str(failing))
    with replacing(path) as temporary:
        ElementTree.ElementTree(root).write(temporary, encoding="utf-8", xml_declaration=True)
    return failing, total


def _suite(
    data: CoverageData, outline: Outline, outcome: Outcome, rows: list[list[int]]
) -> ElementTree.Element:
    name, cases = _clean(outcome.test.name), outcome.test.cases
    skipped = len(cases) - outcome.judged
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(outcome.failing),
        skipped=str(skipped),
    )
    expects = _clean(describe_expectation(outcome.test.expectation, outline.labels))
    for number, (verdict, mine) in enumerate(zip(outcome.verdicts, rows, strict=True)):
        text = _clean(shorten(data.table.texts[mine[0]], 80))
        case = ElementTree.SubElement(
            suite, "testcase", classname=name, name=f"case {number}: {text}"
        )
        if verdict == NOT_JUDGED:
            ElementTree.SubElement(case, "skipped")
        elif verdict == FAILS:
            failure = ElementTree.SubElement(case, "failure", message=f"expects {expects}")
            failure.text = _said(data, outline, mine)
    return suite


def _said(data: CoverageData, outline: Outline, rows: list[int]) -> str:
    """Return the texts of a case with what the model said, a line each."""
    identity = data.identity
    answers = in_suite_classes(
        data.table.probabilities[rows], identity.labels, outline.labels, outline.classes
    )
    names = outline.labels or identity.labels
    lines = []
    for i, row in enumerate(rows):
        said = int(answers.classes[i])
        share = f"{names[said]} {100 * answers.probabilities[i, said]:.1f} %" if said >= 0 else "-"
        lines.append(f"{share}: {shorten(data.table.texts[row], LONGEST)}")
    return _clean("\n".join(lines))


def _clean(text: str) -> str:
    """Return a text without what XML cannot hold."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
