"""The cases of a suite as JUnit XML, which build servers show. No torch here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from rich.console import Console

from mncover.data.estimate import Estimate
from mncover.data.store import CoverageData
from mncover.report.columns import View, print_verbatim
from mncover.report.describe import answers_to, describe_expectation, said
from mncover.report.plans import estimates_to_json
from mncover.suites.judging import FAILS, NOT_JUDGED, Outcome, judged_cases
from mncover.suites.model import Outline
from mncover.types import shorten

LONGEST = 300  # characters of a text


def show(view: View, console: Console) -> None:
    """Print the cases of the test suites in a data file."""
    print_verbatim(to_junit(view.data, view.result.estimates), console)


def to_junit(data: CoverageData, estimates: Sequence[Estimate] = ()) -> str:
    """Return XML with a test suite for each test and a test case for each case.

    A case that the expectation does not apply to is skipped. What is estimated for a whole test is
    a property of it.
    """
    root = ElementTree.Element("testsuites", name="mncover")
    failing = total = 0
    for outline, outcome, rows in judged_cases(data):
        mine = [one for one in estimates if one.test == outcome.test.name]
        root.append(_suite(data, outline, outcome, rows, mine))
        failing += outcome.failing
        total += len(outcome.test.cases)
    root.set("tests", str(total))
    root.set("failures", str(failing))
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content.decode("utf-8")


def _suite(
    data: CoverageData,
    outline: Outline,
    outcome: Outcome,
    rows: list[list[int]],
    estimates: Sequence[Estimate],
) -> ElementTree.Element:
    name, cases = _clean(outcome.test.name), outcome.test.cases
    suite = ElementTree.Element(
        "testsuite",
        name=name,
        tests=str(len(cases)),
        failures=str(outcome.failing),
        skipped=str(len(cases) - outcome.judged),
    )
    for one in estimates:
        about = ElementTree.SubElement(suite, "properties")
        for name, value in estimates_to_json([one])[0].items():
            if name != "test" and value is not None:
                ElementTree.SubElement(about, "property", name=name, value=str(value))
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
    answers, classes = answers_to(data, outline, rows), outline.labels or data.identity.labels
    lines = []
    for row, (name, share) in zip(rows, said(answers, classes), strict=True):
        answer = f"{name} {100 * share:.1f} %" if name else "-"
        lines.append(f"{answer}: {shorten(data.table.texts[row], LONGEST)}")
    return _clean("\n".join(lines))


def _clean(text: str) -> str:
    """Return a text without what XML cannot hold."""
    return re.sub("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", text)
