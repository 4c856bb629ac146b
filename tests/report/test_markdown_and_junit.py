"""Reports for build servers, pull requests and notebooks."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data.display import display_percent
from mncover.suites.formats import save_suite
from tests import tiny
from tests.cli.test_commands import error_of
from tests.cli.test_run_suites import material  # noqa: F401
from tests.folders import Material
from tests.report.test_html import SCRIPT, nasty_suite


@pytest.fixture
def measured(material: Material) -> Coverage:  # noqa: F811
    save_suite(nasty_suite(), material.suite)
    main(material.run("-q"))
    return Coverage.load("run.mncover")


def test_markdown_has_every_test_and_escapes_what_a_suite_brings(
    measured: Coverage, capsys: pytest.CaptureFixture[str]
) -> None:
    result = measured.result()
    assert main(["report", "--format", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert f"**Cover {display_percent(result.cover)} %**" in shown
    rows = [line for line in shown.splitlines() if line.startswith("| ")]
    assert len(rows) == 1 + 3
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 8 for row in rows)
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
    failing = sum(outcome.failing for outcome in result.outcomes)
    assert f"**{failing:,} of" in shown
    assert main(["report", "--format", "github"]) == 0
    assert "<details><summary>3 tests</summary>" in capsys.readouterr().out
    assert "format is text, markdown, github" in error_of(capsys, "report", "--format", "pdf")


def test_junit_has_every_case_with_its_verdict(measured: Coverage) -> None:
    assert main(["report", "--junit", "out.xml"]) == 0
    root = ElementTree.parse("out.xml").getroot()
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


def test_junit_leaves_out_what_xml_cannot_hold(material: Material) -> None:  # noqa: F811
    from dataclasses import replace

    suite = nasty_suite()
    odd = replace(suite.tests[0].cases[0], texts=("a \x00 b \x1b \ufffe c",))
    tests = (replace(suite.tests[0], name="odd \x01", cases=(odd, *suite.tests[0].cases)),)
    save_suite(replace(suite, tests=tests), material.suite)
    main(material.run("-q"))
    assert main(["report", "--junit", "out.xml"]) == 0
    names = [suite.get("name") for suite in ElementTree.parse("out.xml").getroot()]
    assert names == ["odd \ufffd"]


def test_a_tests_coverage_below_its_limit_ends_with_2(
    measured: Coverage, capsys: pytest.CaptureFixture[str]
) -> None:
    share = {c.name: 100 * c.cover for c in measured.result().contexts}["change names"]
    under, over = f"change names={share + 0.1}", f"change names={share - 0.1}"
    assert main(["report", "--fail-under-test", over]) == 0
    assert main(["report", "--fail-under-test", under]) == 2
    assert "change names: Cover" in capsys.readouterr().err
    assert main(["report", "--format", "github", "--fail-under-test", under]) == 2
    for wrong in ("change names", "change names=x", "=3", "change names=101"):
        assert "NAME=PERCENT" in error_of(capsys, "report", "--fail-under-test", wrong)
    assert "no test 'z' was run" in error_of(capsys, "report", "--fail-under-test", "z=3")


def test_notebooks_show_results_and_selections_as_tables(measured: Coverage) -> None:
    shown = measured.result()._repr_html_()
    assert shown.count("<tr>") == 1 + 3
    assert "<script" not in shown
    assert display_percent(measured.result().cover) in shown
    cov = Coverage(*tiny.make("bert"), max_length=10).calibrate(tiny.texts(4, 1), cache=False)
    selection = cov.filter(tiny.texts(60, seed=2))
    shown = selection._repr_html_()
    assert f"{len(selection.kept)} of 60 cases" in shown
    assert "more rows" in shown


def test_figures_show_the_results_numbers(measured: Coverage) -> None:
    result = measured.result()
    bars = measured.plot_contexts().axes[0].patches
    assert [bar.get_width() for bar in bars[:3]] == pytest.approx(
        [100 * context.cover for context in result.contexts]
    )
    lines = measured.plot_layers().axes[0].lines
    words = [site for site in result.sites if site.kind == "hidden"]
    assert list(lines[0].get_ydata()) == pytest.approx(
        [100 * site.count.share_of_reachable for site in words]
    )
    image = measured.plot_heads().axes[0].images[0].get_array()
    attention = [site for site in result.sites if site.kind == "attention"]
    assert image.shape == (len(attention), len(attention[0].heads))
    assert image[0, 0] == pytest.approx(100 * attention[0].heads[0].share_of_reachable)
