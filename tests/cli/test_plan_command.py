"""`mncover plan`, from earlier runs to the estimates in every report."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data.store import CoverageData
from mncover.selection.planfile import plan_of
from mncover.selection.planned_runs import estimates_of
from mncover.suites.expectations import Expectation
from mncover.suites.formats import load_suite, save_suite
from mncover.suites.model import Case, Suite, Test
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, write_material

LABELS = ("LABEL_0", "LABEL_1", "LABEL_2")


def whole_suite(labels: tuple[str, ...] = LABELS) -> Suite:
    texts = iter(tiny.texts(400, seed=5))
    single = tuple(Case((next(texts),), i % 3) for i in range(8))
    many = tuple(Case((next(texts),), i % 3) for i in range(150))
    changed = tuple(Case((next(texts), next(texts))) for _ in range(60))
    return Suite(
        (
            Test("words", "MFT", Expectation("label"), single, "Vocabulary"),
            Test("sentences", "MFT", Expectation("label"), many, "Vocabulary"),
            Test("in [other] words", "INV", Expectation("inv"), changed, "Robustness"),
        ),
        labels,
    )


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    """Return material whose suite was run: the data file is run.mncover."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    made = write_material(tmp_path)
    save_suite(whole_suite(), made.suite)
    assert main(made.run("--quiet")) == 0
    return made


def small_run(material: Material, *more: str) -> list[str]:
    return [
        argument if argument != str(material.suite) else "small.jsonl"
        for argument in material.run("-o", "new.mncover", *more)
    ]


def rates_of(data: CoverageData) -> dict[str, tuple[float | None, float, float]]:
    return {one.test: (one.rate, one.low, one.high) for one in estimates_of(data)}


def planned(*more: str) -> list[str]:
    return ["plan", "run.mncover", "--budget", "25%", "-o", "small.jsonl", *more]


def test_a_plan_shows_what_each_way_to_draw_would_give(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(planned()) == 0
    shown = capsys.readouterr().out
    for word in ("Random", "Proportional", "Equal", "Planned", "All tests", "in [other] words"):
        assert word in shown
    # 2 % of the 218 cases would not leave every test two cases.
    assert [line.split()[0] for line in shown.splitlines() if line[:2] in ("2%", "5%", "10")] == [
        "5%",
        "10%",
    ]
    small = load_suite(Path("small.jsonl"))
    assert small.cases == round(0.25 * 218)
    assert small["words"].cases == whole_suite()["words"].cases  # small tests whole
    assert main(planned("--json", "--quiet")) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["run"] == small.cases
    assert sum(one["run"] for one in content["tests"]) == small.cases
    errors = content["expected_error"]
    assert errors["planned"] < errors["proportional"]


def test_drawn_cases_are_those_of_the_suite_and_the_seed_decides(material: Material) -> None:
    assert main(planned("--quiet", "--ids", "ids.json", "--ids", "ids.txt")) == 0
    first = Path("small.jsonl").read_bytes()
    suite, whole = load_suite(Path("small.jsonl")), whole_suite()
    ids = json.loads(Path("ids.json").read_text())
    for test in whole.tests:
        assert suite[test.name].cases == tuple(test.cases[i] for i in ids[test.name])
    plain = [int(line) for line in Path("ids.txt").read_text().split()]
    every = [case for test in whole.tests for case in test.cases]
    assert [every[i] for i in plain] == [case for test in suite.tests for case in test.cases]
    assert main(planned("--quiet")) == 0
    assert Path("small.jsonl").read_bytes() == first
    assert main(planned("--quiet", "--seed", "1")) == 0
    assert Path("small.jsonl").read_bytes() != first


def test_a_run_of_a_plan_reports_estimates_everywhere(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned("--quiet")) == 0
    capsys.readouterr()
    assert main(small_run(material)) == 0
    shown = capsys.readouterr().out
    assert "Whole test %" in shown
    assert "no test is significantly worse than the earlier run" in shown
    # The same model gives the same verdicts, so the truth is that of the whole run.
    whole = {c.name: c.failure_rate for c in Coverage.load("run.mncover").result().contexts}
    rates = rates_of(Coverage.load("new.mncover").data)
    assert list(rates) == [*whole, ""]
    for name, truth in whole.items():
        rate, low, high = rates[name]
        assert truth is not None
        assert rate is not None
        assert low <= truth <= high
        assert low <= rate <= high
    assert rates["words"] == (whole["words"],) * 3
    assert main(["json", "new.mncover"]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    assert [one["test"] for one in estimates] == [*whole, None]
    assert [one["estimated_failure_rate"] for one in estimates] == [r for r, _, _ in rates.values()]
    assert [one["exact"] for one in estimates] == [True, False, False, False]
    assert main(["report", "new.mncover", "--format", "markdown"]) == 0
    assert "| in \\[other\\] words |" in capsys.readouterr().out
    assert main(["html", "new.mncover", "--quiet"]) == 0
    page = Path("mncover-html/index.html").read_text()
    assert "Whole tests, estimated" in page
    assert f"of {218}" in page
    assert main(["report", "new.mncover", "--format", "junit"]) == 0
    root = ElementTree.fromstring(capsys.readouterr().out)
    found = root.findall("testsuite/properties/property[@name='estimated_failure_rate']")
    assert [float(one.get("value", "")) for one in found] == [rates[name][0] for name in whole]


def test_reports_of_other_runs_say_nothing_of_estimates(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["report", "run.mncover"]) == 0
    assert "Whole test" not in capsys.readouterr().out
    assert main(["json", "run.mncover"]) == 0
    assert json.loads(capsys.readouterr().out)["estimates"] == []


def test_predictions_made_elsewhere_give_the_same_estimates(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned("--quiet")) == 0
    assert main(small_run(material, "--quiet")) == 0
    data = Coverage.load("new.mncover").data
    order = np.argsort(data.table["index"], kind="stable")
    rows = data.table.probabilities[order].tolist()
    lines = [" ".join(f"{share:.9f}" for share in row) for row in rows]
    Path("said.txt").write_text("\n".join(lines) + "\n")
    capsys.readouterr()
    assert main(["suite", "judge", "small.jsonl", "said.txt", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [one["estimated_failure_rate"] for one in content["estimates"]] == pytest.approx(
        [rate for rate, _, _ in rates_of(data).values()]
    )
    assert main(["suite", "judge", "small.jsonl", "said.txt"]) == 0
    assert "95 % interval" in capsys.readouterr().out


def test_gates_check_estimates_and_leave_chance_alone(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned("--quiet")) == 0
    assert main(small_run(material, "--quiet")) == 0
    rate, low, high = rates_of(Coverage.load("new.mncover").data)["sentences"]
    assert rate is not None
    assert low > 0.03
    capsys.readouterr()
    for limit, code in ((low - 0.02, 2), ((low + rate) / 2, 0), (high, 0)):
        gate = f"sentences={100 * limit:.4f}%"
        assert main(["report", "new.mncover", "--max-failing-test", gate]) == code
        said = "".join(capsys.readouterr().err.split())
        estimated = f"sentences:anestimated{100 * rate:.2f}%ofallcasesfail"
        assert (estimated in said) == (code == 2)


def test_a_part_of_a_plan_estimates_its_tests_and_says_what_is_missing(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned("--quiet")) == 0
    capsys.readouterr()
    assert main(small_run(material, "--test", "sentences")) == 0
    shown = " ".join(capsys.readouterr().out.split())
    left = len(load_suite(Path("small.jsonl"))["in [other] words"].cases) + 8
    assert (
        f"Not run yet: {left} cases of the plan, so nothing is estimated for words, "
        "in [other] words." in shown
    )
    rate, low, high = rates_of(Coverage.load("new.mncover").data)["sentences"]
    truth = {c.name: c.failure_rate for c in Coverage.load("run.mncover").result().contexts}
    assert rate is not None
    assert truth["sentences"] is not None
    assert low <= truth["sentences"] <= high
    assert main(["json", "new.mncover"]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    assert [one["missing"] for one in estimates] == [8, 0, left - 8, left]
    assert [one["estimated_failure_rate"] for one in estimates] == [None, rate, None, None]
    gates = ["--max-failing", "1%", "--max-failing-test", "words=1%"]
    assert main(["report", "new.mncover", *gates]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "not all cases of the plan were run, so --max-failing was not checked" in said
    assert "words: not run, so --max-failing-test was not checked" in said


def test_parts_of_a_plan_give_all_estimates_once_they_are_combined(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(planned("--quiet")) == 0
    assert main(small_run(material, "--quiet")) == 0
    whole = rates_of(Coverage.load("new.mncover").data)
    files = []
    for number, part in enumerate((["words", "sentences"], ["in [other] words"])):
        files.append(f"{number}.mncover")
        named = [word for name in part for word in ("--test", name)]
        assert main([*small_run(material, "--quiet", *named), "-o", files[-1]]) == 0
        assert rates_of(Coverage.load(files[-1]).data)[""][0] is None
    assert main(["combine", *files, "-o", "both.mncover", "-q"]) == 0
    assert rates_of(Coverage.load("both.mncover").data) == whole
    capsys.readouterr()
    assert main(["report", "both.mncover"]) == 0
    assert "Not run yet" not in capsys.readouterr().out


def test_a_test_with_a_missing_case_is_not_estimated(material: Material) -> None:
    assert main(planned("--quiet")) == 0
    # Only a part of each test is run, as if somebody had stopped it.
    assert main(small_run(material, "--quiet", "--limit", "30")) == 0
    found = {one.test: one for one in estimates_of(Coverage.load("new.mncover").data)}
    small = load_suite(Path("small.jsonl"))
    assert found[""].run == 30
    assert found[""].missing == small.cases - 30
    for test in small.tests:
        assert found[test.name].run + found[test.name].missing == len(test.cases)
        assert found[test.name].rate is None
        assert (found[test.name].low, found[test.name].high) == (0.0, 1.0)


def test_two_earlier_runs_are_both_used(material: Material) -> None:
    Path("second.mncover").write_bytes(Path("run.mncover").read_bytes())
    command = ["plan", "run.mncover", "second.mncover", "--budget", "60", "-o", "small.jsonl", "-q"]
    assert main(command) == 0
    plan = plan_of(load_suite(Path("small.jsonl")))
    assert plan is not None
    assert plan.models == ("model", "model")
    assert plan.earlier.verdicts.shape == (2, 218)


def test_a_plot_is_drawn(material: Material) -> None:
    pytest.importorskip("matplotlib")
    assert main(["plan", "run.mncover", "--budget", "20%", "--plot", "error.svg", "-q"]) == 0
    assert Path("error.svg").read_text().startswith("<?xml")


def test_what_cannot_be_planned_is_refused_in_one_line(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "too small: every test needs 2 cases" in error_of(
        capsys, "plan", "run.mncover", "--budget", "1%"
    )
    assert "must end with .json or .txt" in error_of(capsys, "plan", "run.mncover", "--ids", "a.b")
    assert main(planned("--quiet")) == 0
    before = Path("small.jsonl").read_bytes()
    assert main(small_run(material, "--quiet")) == 0
    line = error_of(capsys, "plan", "new.mncover", "-o", "small.jsonl")
    assert "new.mncover: it is the run of a plan" in line
    save_suite(Suite(whole_suite().tests[1:], LABELS), material.suite)
    assert main(material.run("-o", "other.mncover", "--quiet")) == 0
    line = error_of(capsys, "plan", "run.mncover", "other.mncover", "-o", "small.jsonl")
    assert "they are runs of different suites" in line
    material.suite.write_text('{"text": "good film"}\n{"text": "bad film"}\n')
    assert main(material.run("-o", "texts.mncover", "--quiet")) == 0
    line = error_of(capsys, "plan", "texts.mncover", "-o", "small.jsonl")
    assert "it is no run of a test suite" in line
    assert Path("small.jsonl").read_bytes() == before  # nothing is overwritten


def test_an_edited_plan_and_other_classes_are_refused_before_anything_runs(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    save_suite(whole_suite(labels=()), material.suite)
    assert main(material.run("--quiet")) == 0
    assert main(planned("--quiet")) == 0
    config = json.loads((material.model / "config.json").read_text())
    config["id2label"] = {"0": "a", "1": "b", "2": "c"}
    config["label2id"] = {"a": 0, "b": 1, "c": 2}
    (material.model / "config.json").write_text(json.dumps(config))
    line = error_of(capsys, *small_run(material))
    assert "(a, b, c) are not those that the plan was made with (LABEL_0, LABEL_1, LABEL_2)" in line
    lines = Path("small.jsonl").read_text().splitlines()
    Path("small.jsonl").write_text("\n".join(lines[:-1]) + "\n")
    line = error_of(capsys, *small_run(material))
    assert "one of them was edited; make it again with `mncover plan`" in line
    assert not Path("new.mncover").exists()
