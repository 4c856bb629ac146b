"""The registry of reports: text, Markdown, JSON and JUnit say what the results say."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from mncover.coverage import Coverage
from mncover.criteria import CRITERIA
from mncover.data import datafile
from mncover.data.columns import Column
from mncover.data.gains import gains, novelty
from mncover.errors import DataFileError, SettingsError
from mncover.report import REPORTS
from mncover.report.columns import SORTS, View, columns_of, sorted_contexts
from mncover.report.html import write_html
from mncover.report.jsonreport import rows_to_json, to_json
from mncover.selection.planned_runs import full_result
from mncover.suites.rows import Rows
from mncover.types import display_percent
from tests import tiny
from tests.criteria.test_criteria import Boundary
from tests.folders import suite_of
from tests.masks.test_mncover import random_masks
from tests.report.conftest import SCRIPT, TRAIN, Measure, labelled_texts, nasty_suite


def shown(cov: Coverage, name: str, width: int = 80, **options: Any) -> str:
    """Return what a report prints on a console."""
    file = io.StringIO()
    REPORTS[name].show(View(cov.data, cov.result(), **options), Console(file=file, width=width))
    return file.getvalue()


@pytest.fixture(scope="module")
def masked(measure: Measure) -> Coverage:
    """Return what labelled texts cover by Cover and mnCover."""
    return measure(labelled_texts(), masks=random_masks(tiny.make("bert")[1], 1))


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Coverage:
    """Return what texts cover by three criteria, one of which no report knows."""
    monkeypatch.setitem(CRITERIA, "boundary", Boundary())
    model, tokenizer = tiny.make("bert")
    names = ["cover", "mncover", "boundary"]
    masks = random_masks(tokenizer, 1)
    cov = Coverage(model, tokenizer, max_length=12, masks=masks, criteria=names)
    cov.calibrate(TRAIN, cache=False)
    for number, context in enumerate("ab"):
        cov.update(tiny.texts(9, seed=number), context=context, gains=True)
    return cov


# Text.


def cells(output: str, name: str) -> list[str]:
    """Return the cells of the row of a name."""
    line = next(line for line in output.splitlines() if line.startswith(f"{name} "))
    return line.split()


def test_the_table_of_tests_has_the_results_numbers(masked: Coverage) -> None:
    result, output = masked.result(), shown(masked, "text")
    heading = "Test Texts Cover % mnCover Adds % Only % Out % Adds little Failing"
    assert " ".join(cells(output, "Test")) == heading
    for context in result.contexts:
        tallies = [context.by[name].tally for name in ("cover", "mncover")]
        shares = [t.share_of_reachable for t in (*tallies, context.main.new, context.main.own)]
        row = cells(output, context.name)
        assert context.outside is not None
        numbers = [display_percent(share) for share in (*shares, context.outside)]
        assert row[1:7] == [str(context.texts), *numbers]
        assert row[7:10] == [f"{context.adds_little},", str(context.little_failing), "fail"]
        assert row[10] == str(context.failing) == str(context.wrong)
    total = cells(output, "Total")
    shares = [c.tally.share_of_reachable for c in result.criteria.values()]
    assert total[1:4] == ["30", *map(display_percent, shares)]


def test_reports_of_two_criteria_fit_into_80_columns(masked: Coverage, measure: Measure) -> None:
    for cov in (masked, measure(suite_of())):
        output = shown(cov, "text", heads=True)
        assert max(map(len, output.splitlines())) <= 80
        row = cells(output, "Total")
        assert row[1] == str(cov.result().n_texts)  # nothing was folded into a second line


def test_layers_and_totals_go_over_the_criteria(three: Coverage) -> None:
    result, output = three.result(), shown(three, "text", 160)
    assert "Layer  mnCover %  Boundary %" in output
    sites = [[s for s in c.sites if s.kind == "hidden"] for c in result.criteria.values()]
    lines = re.findall(r"(?m)^    \d .*$", output)
    for layer, (main, others) in enumerate(zip(lines[:3], lines[3:], strict=True)):
        first, *rest = (display_percent(mine[layer].count.share_of_reachable) for mine in sites)
        assert main.split()[1] == first
        assert others.split()[1:] == rest
    for criterion in result.criteria.values():
        cells_or_bins = "cells" if criterion.name == "boundary" else "bins"
        share = display_percent(criterion.tally.share_of_reachable)
        assert f"{criterion.title} {share} % of the reachable {cells_or_bins}: " in output
        share = display_percent(criterion.tally.share)
        assert f"  {share} % of all {cells_or_bins}" in output
        assert f"{criterion.tally.word.covered:,} of" in output
    assert "those hit by words and pairs that masks keep" in output
    assert "values outside their range" in output


def test_a_criterion_that_is_not_known_here_is_shown_all_the_same(
    three: Coverage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(CRITERIA, "boundary")
    share = display_percent(three.result().share_of_reachable("boundary"))
    assert f"Boundary {share} % of the reachable" in shown(three, "text", sort="boundary")
    assert f"Boundary {share} %" in shown(three, "markdown")


def test_tests_are_sorted_by_any_column(three: Coverage) -> None:
    result = three.result()
    assert [c.name for c in sorted_contexts(result, "-name")] == ["b", "a"]
    for name in ("mncover", "boundary"):
        names = sorted(
            "ab", key=lambda n: next(c for c in result.contexts if c.name == n).share(name)
        )
        assert [c.name for c in sorted_contexts(result, name)] == names
    criteria = ", ".join(CRITERIA)
    known = f"suite, name, texts, {criteria}, adds, only, outside, adds-little, failing"
    with pytest.raises(SettingsError, match=f"cannot sort by '-size'; choose one of {known}"):
        sorted_contexts(result, "-size")
    assert {column.key for column in columns_of(result)} <= {*SORTS, "boundary"}


def test_a_criterion_that_was_not_measured_leaves_the_order(measured: Coverage) -> None:
    result = measured.result()
    assert sorted_contexts(result, "mncover") == list(result.contexts)


def test_failing_cases_are_shown_below_the_report(measured: Coverage, masked: Coverage) -> None:
    output = shown(measured, "text", 200, failures=2)
    failing = measured.result().outcomes[1].failing
    assert f"change names: {failing} of 10 fail; expects inv (tolerance 0.1)" in output
    assert len(re.findall(r"(?m)^case \d+ ", output)) == sum(
        min(2, outcome.failing) for outcome in measured.result().outcomes
    )
    one = masked.result().contexts[0]
    assert f"a: {one.failing} of {one.judged} fail" in shown(masked, "text", failures=1)
    assert "a: " not in shown(masked, "text")


# Markdown.


def test_markdown_has_every_test_and_escapes_what_a_suite_contains(measured: Coverage) -> None:
    result, output = measured.result(), shown(measured, "markdown")
    assert f"**Cover {display_percent(result.share_of_reachable('cover'))} %**" in output
    rows = [line for line in output.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 9 for row in rows)
    assert "<script" not in output
    assert "&lt;script&gt;" in output
    failing = sum(outcome.failing for outcome in result.outcomes)
    assert f"**{failing:,} of" in output
    assert "<details><summary>3 tests</summary>" in shown(measured, "github")


def test_markdown_has_a_line_and_a_column_for_each_criterion(three: Coverage) -> None:
    output = shown(three, "markdown")
    assert "| Test | Texts | Cover % | mnCover % | Boundary % | Adds % | Only % | Out % |" in output
    for criterion in three.result().criteria.values():
        share = display_percent(criterion.tally.share_of_reachable)
        cells_or_bins = "cells" if criterion.name == "boundary" else "bins"
        assert f"**{criterion.title} {share} %** of the reachable {cells_or_bins}" in output
        assert f"{display_percent(criterion.tally.share)} % of all {cells_or_bins}" in output


def test_markdown_counts_labelled_texts_as_cases(masked: Coverage) -> None:
    context = masked.result().contexts[0]
    share = display_percent(context.wrong / context.labelled, 1)
    assert f"| {context.wrong} ({share} %) |" in shown(masked, "markdown")


# JSON.


def test_json_has_every_number_by_criterion(three: Coverage) -> None:
    result, content = three.result(), json.loads(shown(three, "json", texts=True))
    assert content["format"] == 3
    assert content["criteria"] == [
        {"name": "cover", "title": "Cover", "cells": 10},
        {"name": "mncover", "title": "mnCover", "cells": 10},
        {"name": "boundary", "title": "Boundary", "cells": 2},
    ]
    for name, criterion in result.criteria.items():
        total = content["totals"]["criteria"][name]
        assert total["share"] == criterion.tally.share
        assert total["word"]["covered"] == criterion.tally.word.covered
        for found, context in zip(content["contexts"], result.contexts, strict=True):
            assert found["criteria"][name]["only_here"] == context.by[name].only_here
            assert found["criteria"][name]["attention"]["total"] == criterion.tally.attention.total
        for found, site in zip(content["sites"], criterion.sites, strict=True):
            assert found["site"] == site.name
            assert found["criteria"][name]["share_of_reachable"] == site.count.share_of_reachable
            heads = [head["covered"] for head in found["criteria"][name]["heads"]]
            assert heads == [head.covered for head in site.heads]
        shares = [row["gains"][name] for row in content["rows"]]
        assert shares == gains(three.data, name).tolist()
    assert [row["novelty"] for row in content["rows"]] == novelty(three.data).tolist()
    assert [row["text"] for row in content["rows"]] == list(three.data.table.texts)
    outside = three.data.table["outside"].tolist()
    assert [row["outside"] for row in content["rows"]] == outside
    for found, context in zip(content["contexts"], result.contexts, strict=True):
        assert found["test"] == found["context"] == context.name
        assert found["adds_little"] == found["redundant"] == context.adds_little
        assert (found["outside"], found["failing"]) == (context.outside, context.failing)
        new = context.by["cover"].new.share_of_reachable
        assert found["criteria"]["cover"]["adds_of_reachable"] == new
    for name in ("owner", "owned"):
        known = (three.data.table["owner"] >= 0).tolist()
        values = zip(known, three.data.table[name].tolist(), strict=True)
        assert [row[name] for row in content["rows"]] == [v if ok else None for ok, v in values]
    assert any(known)


def test_json_says_null_where_something_is_not_known() -> None:
    cov = Coverage(*tiny.make("gpt2"), max_length=12).calibrate(TRAIN, cache=False)
    cov.update(tiny.texts(3, 1))
    (context,) = to_json(cov.result())["contexts"]
    unknown = ("redundant", "adds_little", "outside", "accuracy", "failure_rate")
    assert [context[name] for name in unknown] == [None] * 5
    row = rows_to_json(cov.data)[0]
    names = ("case", "label", "prediction", "probabilities", "novelty", "outside", "owner", "owned")
    assert [row[name] for name in names] == [None] * 8
    assert row["gains"] == {"cover": None}


def test_json_is_one_line_unless_it_should_be_pretty(measured: Coverage) -> None:
    line, pretty = shown(measured, "json"), shown(measured, "json", pretty=True)
    assert len(line.splitlines()) == 1
    assert len(pretty.splitlines()) > 100
    assert json.loads(line) == json.loads(pretty) == to_json(measured.result())


# JUnit.


def test_junit_has_every_case_with_its_verdict(measured: Coverage) -> None:
    root = ElementTree.fromstring(shown(measured, "junit"))
    outcomes = measured.result().outcomes
    suites = list(root)
    assert [suite.get("name") for suite in suites] == [o.test.name for o in outcomes]
    for suite, outcome in zip(suites, outcomes, strict=True):
        found = {-1: "skipped", 0: "failure", 1: None}
        for case, verdict in zip(suite, outcome.verdicts, strict=True):
            assert (case[0].tag if len(case) else None) == found[int(verdict)]
        assert suite.get("failures") == str(outcome.failing)
        assert suite.get("skipped") == str(len(outcome.test.cases) - outcome.judged)
    assert root.get("tests") == str(sum(len(o.test.cases) for o in outcomes))
    text = next(iter(root.iter("failure"))).text or ""
    assert re.search(r"LABEL_\d \d+\.\d %: ", text)
    assert any(SCRIPT in (failure.text or "") for failure in root.iter("failure"))


def test_junit_has_every_labelled_text_with_what_was_expected_and_what_came(
    measure: Measure,
) -> None:
    rows = labelled_texts()
    labels = list(rows.labels)
    labels[4] = None
    cov = measure(replace(rows, labels=labels))
    root = ElementTree.fromstring(shown(cov, "junit"))
    table, names = cov.data.table, cov.data.identity.labels
    expected = {}
    for row, text in enumerate(table.texts):
        label, prediction = int(table["label"][row]), int(table["prediction"][row])
        sure = f"{100 * table.probabilities[row, prediction]:.1f}"
        wrong = f"expected {names[label]}, got {names[prediction]} {sure} %"
        if label >= 0:
            name = f"text {table['index'][row]}: {text}"
            expected[name] = None if label == prediction else wrong
    found = {case.get("name"): case for case in root.iter("testcase")}
    messages = {n: c[0].get("message") if len(c) else None for n, c in found.items()}
    assert messages == expected
    failures = sum(message is not None for message in expected.values())
    assert (root.get("tests"), root.get("failures")) == ("29", str(failures))
    assert [suite.get("name") for suite in root] == ["a", "b", "c"]
    assert [suite.get("tests") for suite in root] == ["10", "9", "10"]


def test_junit_says_what_a_text_is_compared_with(measured: Coverage) -> None:
    root = ElementTree.fromstring(shown(measured, "junit"))
    answer = r"LABEL_\d \d+\.\d %"
    patterns = [rf"expected LABEL_\d, got {answer}"]
    for expects in (r"inv \(tolerance 0\.1\)", r"monotonic up .* unless LABEL_1 before"):
        patterns += [rf"expected {expects}, got {answer}(, {answer})* after {answer}"]
    for suite, pattern in zip(root, patterns, strict=True):
        messages = [failure.get("message") or "" for failure in suite.iter("failure")]
        assert messages
        assert all(re.fullmatch(pattern, message) for message in messages)


def test_junit_of_no_case_is_refused(measure: Measure) -> None:
    with pytest.raises(DataFileError, match="nothing in it has a label or an expectation"):
        shown(measure(Rows.make(tiny.texts(3, 1))), "junit")
    with pytest.raises(DataFileError, match="the model has no classes"):
        shown(measure(nasty_suite(), "gpt2"), "junit")


def test_junit_leaves_out_what_xml_cannot_hold(measure: Measure) -> None:
    suite = nasty_suite()
    odd = replace(suite.tests[0].cases[0], texts=("a \x00 b \x1b \ufffe c",))
    tests = (replace(suite.tests[0], name="odd \x01", cases=(odd, *suite.tests[0].cases)),)
    root = ElementTree.fromstring(shown(measure(replace(suite, tests=tests)), "junit"))
    assert [suite.get("name") for suite in root] == ["odd \\x01"]


# Notebooks.


def test_notebooks_show_results_and_selections_as_tables(measured: Coverage) -> None:
    shown = measured.result()._repr_html_()
    assert shown.count("<tr>") == 1 + 3
    assert "<script" not in shown
    assert display_percent(measured.result().share_of_reachable("cover")) in shown
    cov = Coverage(*tiny.make("bert"), max_length=10).calibrate(tiny.texts(4, 1), cache=False)
    selection = cov.filter(tiny.texts(60, seed=2))
    shown = selection._repr_html_()
    assert f"{len(selection.kept)} of 60 cases" in shown
    assert "more rows" in shown


@pytest.mark.parametrize("of", [nasty_suite, labelled_texts])
def test_reports_of_rows_on_disk_are_those_of_rows_in_memory(
    of: Callable[[], Any], measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "run.mncover"
    datafile.write(measure(of()).data, source)
    found = []
    for few in (10**9, 0):
        monkeypatch.setattr("mncover.data.table.FEW", few)
        data, folder = datafile.read(source), tmp_path / str(few)
        assert isinstance(data.table.texts, Column) == (few == 0)
        assert isinstance(data.union(data).table.texts, Column) == (few == 0)
        folder.mkdir()
        datafile.write(data, folder / "again.mncover")
        datafile.write(data.union(data), folder / "united.mncover")
        write_html(data, Path("run.mncover"), folder / "html")
        view = View(data, full_result(data), failures=3, texts=True)
        for name, report in REPORTS.items():
            with open(folder / name, "w", encoding="utf-8", errors="replace") as file:
                report.show(view, Console(file=file, width=90))
        made = {one.relative_to(folder): one for one in folder.rglob("*") if one.is_file()}
        found.append({name: _undated(one.read_bytes()) for name, one in made.items()})
        assert (folder / "again.mncover").read_bytes() == source.read_bytes()
    assert len(found[0]) > 6
    assert found[0] == found[1]


def _undated(content: bytes) -> bytes:
    return re.sub(rb'timestamp="[^"]*"', b"", content)
