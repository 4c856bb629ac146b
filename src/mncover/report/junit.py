"""The judged cases of a data file as JUnit XML, which build servers show. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

import numpy as np
from rich.console import Console

from mncover.data.estimate import Estimate
from mncover.data.harmless import in_xml
from mncover.data.store import CoverageData
from mncover.errors import DataFileError
from mncover.report.columns import View
from mncover.report.failures import LONGEST, CaseWords
from mncover.report.plans import estimates_to_json
from mncover.report.screen import print_verbatim
from mncover.selection.cases import Cases, cases_by_run
from mncover.suites.judging import FAILS, NOT_JUDGED
from mncover.types import shorten

Positions = list[int]  # of cases


def show(view: View, console: Console) -> None:
    """Print the cases of the test suites and the labelled texts in a data file."""
    print_verbatim(to_junit(view.data, view.result.estimates), console)


def to_junit(data: CoverageData, estimates: Sequence[Estimate] = ()) -> str:
    """Return XML with a test suite for each test or context, and a test case for each case.

    A case that the expectation does not apply to is skipped, and a text without a label is left
    out. Data without any case is refused. What is estimated for a whole test is a property of it.
    """
    root = ElementTree.Element("testsuites", name="mncover")
    for run, cases in zip(data.runs, cases_by_run(data), strict=True):
        words = CaseWords(cases)
        for positions in _by_test(cases):
            suite = _suite(cases, words, positions, run.part)
            _add_estimates(suite, cases.tests[cases.test[positions[0]]], estimates)
            root.append(suite)
    if not len(root):
        why = "nothing in it has a label or an expectation"
        raise DataFileError(f"{why}, so there is no case to write as JUnit XML")
    for name in ("tests", "failures"):
        root.set(name, str(sum(int(suite.get(name, 0)) for suite in root)))
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content.decode("utf-8").replace("##", "#&#35;")  # a command to some build servers


def _add_estimates(suite: ElementTree.Element, test: str, estimates: Sequence[Estimate]) -> None:
    """Add what is estimated for a test as its properties."""
    for one in estimates_to_json([one for one in estimates if one.test == test]):
        about = suite.find("properties")
        if about is None:
            about = ElementTree.Element("properties")
            suite.insert(0, about)
        for name, value in one.items():
            if name != "test" and value is not None:
                ElementTree.SubElement(about, "property", name=name, value=str(value))


def _by_test(cases: Cases) -> Iterator[Positions]:
    """Yield the cases of each test; of plain texts those that have a label."""
    mine = cases.test.copy()
    if cases.outline is None:
        mine[cases.verdicts == NOT_JUDGED] = -1
    for number in np.unique(mine[mine >= 0]):
        yield np.flatnonzero(mine == number).tolist()


def _suite(cases: Cases, words: CaseWords, positions: Positions, part: str) -> ElementTree.Element:
    name = in_xml(cases.tests[cases.test[positions[0]]])
    verdicts = cases.verdicts[positions]
    failing, skipped = (str((verdicts == kind).sum()) for kind in (FAILS, NOT_JUDGED))
    counts = {"tests": str(len(positions)), "failures": failing, "skipped": skipped}
    suite = ElementTree.Element("testsuite", {"name": name, **counts})
    if part:
        about = ElementTree.SubElement(suite, "properties")
        ElementTree.SubElement(about, "property", name="part", value=in_xml(part))
    for position, verdict in zip(positions, verdicts.tolist(), strict=True):
        text = shorten(cases.texts(position)[0], 80)
        called = in_xml(f"{words.name(position)}: {text}")
        case = ElementTree.SubElement(suite, "testcase", classname=name, name=called)
        if verdict == NOT_JUDGED:
            ElementTree.SubElement(case, "skipped")
        elif verdict == FAILS:
            _fail(case, words, position)
    return suite


def _fail(case: ElementTree.Element, words: CaseWords, position: int) -> None:
    """Say what was expected and what came, and below it the answer to each text."""
    found = words.failure(position)
    message = in_xml(f"expected {found.expected}, got {found.got}")
    failure = ElementTree.SubElement(case, "failure", message=message)
    answers = zip(words.answers(position), found.texts, strict=True)
    failure.text = in_xml("\n".join(f"{said}: {shorten(text, LONGEST)}" for said, text in answers))
