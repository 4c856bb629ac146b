"""Suites of tests run through a model: failures beside coverage, from run to report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.engine.loading import load_subject
from mncover.engine.windows import Windows
from mncover.suites.expectations import Expectation
from mncover.suites.formats import load_suite, save_suite
from mncover.suites.model import Case, Suite, Test
from tests.cli.test_commands import error_of
from tests.folders import Material, assemble, suite_of, write_material
from tests.suites.test_judging import plain_rate

LABELS = ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    made = write_material(tmp_path)
    save_suite(suite_of(), made.suite)
    return made


def plain_rates(material: Material, suite: Suite) -> dict[str, tuple[int, int]]:
    """Return failing and judged cases of each test, from a plain forward pass over each text."""
    subject = load_subject(str(material.model))
    rates = {}
    for test in suite.tests:
        rows = []
        for case in test.cases:
            for text in case.texts:
                encoding = subject.encode([text], 12)
                logits = subject.model(**subject.inputs(encoding)).logits[0]
                rows.append(logits.softmax(-1).tolist())
        rates[test.name] = plain_rate(test, rows)
    return rates


def test_failures_are_those_of_a_plain_script(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(material.run()) == 0
    shown = capsys.readouterr().out
    expected = plain_rates(material, suite_of())
    result = Coverage.load("run.mncover").result()
    found = {c.name: (c.failing, c.judged) for c in result.contexts}
    assert found == expected
    assert any(0 < failing < judged for failing, judged in found.values())
    assert "Failing" in shown
    assert "Vocabulary" in shown
    assert main(["json", "--texts"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert [test["capability"] for test in content["tests"]] == ["Vocabulary", "NER", "Vocabulary"]
    assert [len(t["failing_cases"]) for t in content["tests"]] == [f for f, _ in expected.values()]
    assert content["rows"][-1]["case"] == 31
    assert content["contexts"][0]["failure_rate"] == expected["words"][0] / expected["words"][1]


def test_coverage_and_order_are_those_of_the_same_texts_without_tests(material: Material) -> None:
    main(material.run("-q"))
    data = datafile.read(Path("run.mncover"))
    suite = suite_of()
    assert list(data.table.texts) == list(suite.each_text())
    assert data.contexts == [test.name for test in suite.tests]
    cov = Coverage(str(material.model), max_length=12)
    cov.calibrate(material.train.read_text().splitlines(), cache=False)
    for test in suite.tests:
        cov.update([text for case in test.cases for text in case.texts], context=test.name)
    for context in data.contexts:
        np.testing.assert_array_equal(data.map_of(context), cov.data.map_of(context))


def test_an_interrupted_run_judges_whole_cases_and_ends_the_same(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(material.run("-q", "-o", "whole.mncover"))
    monkeypatch.setattr("mncover.engine.windows.WINDOW_TEXTS", 4)
    measured, calls = Windows._measured, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return measured(*arguments)

    monkeypatch.setattr(Windows, "_measured", interrupted)
    assert main(material.run("-q")) == 130
    part = Coverage.load("run.mncover.partial").result()
    assert [c.judged for c in part.contexts] == [12, 2]  # 20 texts: 12 cases of 1, 2 of 3, 2 texts
    monkeypatch.setattr(Windows, "_measured", measured)
    assert main(material.run("-q")) == 0
    whole, again = (Coverage.load(f"{name}.mncover").result() for name in ("whole", "run"))
    assert [c.failing for c in again.contexts] == [c.failing for c in whole.contexts]


def test_another_expectation_is_another_suite(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    main(material.run("-q", "-o", "a.mncover"))
    loose = tuple(replace(t, expectation=Expectation("inv", tolerance=1)) for t in suite_of().tests)
    save_suite(Suite(loose, LABELS), material.suite)
    main(material.run("-q", "-o", "b.mncover"))
    a, b = (datafile.read(Path(f"{name}.mncover")) for name in "ab")
    assert a.runs[0].suite_fingerprint != b.runs[0].suite_fingerprint
    assert sum(c.failing for c in Coverage.load("b.mncover").result().contexts) == 0
    assert main(["combine", "a.mncover", "b.mncover", "-o", "ab.mncover"]) == 0
    both = Coverage.load("ab.mncover").result()
    assert len(both.outcomes) == 6


def test_classes_that_do_not_fit_are_refused_before_any_work(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    save_suite(replace(suite_of(), labels=("no", "yes")), material.suite)
    assert "do not fit the suite's (no, yes)" in error_of(capsys, *material.run())
    assert "correspond by" in error_of(capsys, *material.run("--classes", "magic"))
    assert not Path("run.mncover").exists()


def test_a_model_without_classes_is_measured_and_nothing_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = write_material(tmp_path, "gpt2")
    save_suite(suite_of(), made.suite)
    assert main(made.run("-q")) == 0
    result = Coverage.load("run.mncover").result()
    assert result.outcomes == ()
    assert result.share("cover") > 0


def test_a_table_whose_cases_do_not_fit_its_suite_is_refused(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    main(material.run("-q"))
    data = datafile.read(Path("run.mncover"))
    data.table.columns["case"][0] = 99
    datafile.write(data, Path("bad.mncover"))
    assert "do not fit its suite" in error_of(capsys, "report", "bad.mncover")


@pytest.mark.parametrize(
    ("name", "suite"),
    [("minilm-sst2", "sentiment"), ("granite-sst2", "sentiment"), ("minilm-mrpc", "qqp")],
)
def test_released_suites_fail_as_often_as_a_plain_script_says(
    name: str, suite: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample of every test on real models of two classes; benchmarks/suites.py does all."""
    from mncover.suites.judging import neutral_band

    monkeypatch.chdir(tmp_path)
    assemble(shared, name, tmp_path / "model")
    whole = load_suite(shared / "data" / "checklist" / f"{suite}_suite.tar.gz")
    small = replace(whole, tests=tuple(replace(t, cases=some_cases(t)) for t in whole.tests))
    save_suite(small, Path("suite.jsonl"))
    Path("train.jsonl").write_text(json.dumps({"text": "a film"}) if suite == "sentiment" else PAIR)
    command = ["run", "model", "suite.jsonl", "--train", "train.jsonl", "--max-length", "64", "-q"]
    assert main(command) == 0
    result = Coverage.load("run.mncover").result()
    subject = load_subject("model")
    for test, context in zip(small.tests, result.contexts, strict=True):
        rows = []
        for text in (text for case in test.cases for text in case.texts):
            with torch.inference_mode():
                logits = subject.model(**subject.inputs(subject.encode([text], 64))).logits[0]
            answer = logits.softmax(-1)
            band = neutral_band(np.array([answer[1].item()]))[0]
            rows.append(band.tolist() if suite == "sentiment" else answer.tolist())
        assert (context.failing, context.judged) == plain_rate(test, rows), test.name


PAIR = json.dumps({"s1": "How old are you?", "s2": "What is your age?"})


def some_cases(test: Test) -> tuple[Case, ...]:
    """Return up to two cases from all over a test, of not too many texts."""
    short = [case for case in test.cases if len(case.texts) <= 10]
    if not short:
        return (min(test.cases, key=lambda case: len(case.texts)),)
    return tuple(short[:: max(1, len(short) // 2)][:2])
