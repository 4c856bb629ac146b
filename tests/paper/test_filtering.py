"""Experiment 1: Tables 1, 2 and 6, from files to files, and against plain arithmetic."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.cli import main
from mncover.data import datafile
from mncover.data.store import CoverageData
from mncover.engine.running import Job, run_suite
from mncover.paper.filtering import (
    PAPER_REDUCTIONS,
    QQP_TESTS,
    SENTIMENT_TESTS,
    Judged,
    beyond_chance,
    reached_tests,
    significant,
    table_row,
)
from mncover.paper.protocols import at_budget, random_at_budget
from mncover.selection.cases import cases_of
from mncover.suites.formats import load_suite, save_suite
from mncover.suites.model import Suite
from tests.cli.test_commands import error_of
from tests.cli.test_run_suites import material, suite_of  # noqa: F401
from tests.folders import Material, assemble, write_material
from tests.paper.test_protocols import F, N, P, of


def test_the_tables_have_the_papers_tests_and_the_released_suites_have_them_all(
    shared: Path,
) -> None:
    assert (len(SENTIMENT_TESTS), len(QQP_TESTS)) == (23, 9)
    for name, tests in (("sentiment", SENTIMENT_TESTS), ("qqp", QQP_TESTS)):
        suite = load_suite(shared / "data" / "checklist" / f"{name}_suite.tar.gz")
        assert set(tests) <= {test.name for test in suite.tests}


def test_a_corrected_estimate_by_hand() -> None:
    # The earlier model failed cases 0 and 1, of which both are taken; now only case 0 fails.
    now, then = of(F, P, P, P), of(F, F, P, P)
    found = at_budget(now, np.array([4.0, 3.0, 2.0, 1.0]), 0.5, then)
    assert found.failure_rate == 0.5
    assert found.error == 0.25
    # 0.5 earlier on all; the cases taken fail half as often as before: 0.5 + (0.5 - 1) = 0.
    assert found.adjusted_error == pytest.approx(0 - 0.25)
    same = at_budget(then, np.array([4.0, 3.0, 2.0, 1.0]), 0.5, then)
    assert same.adjusted_error == 0
    assert math.isnan(at_budget(now, np.zeros(4), 0.5).adjusted_error)


def test_chance_at_a_budget_is_the_mean_over_all_draws() -> None:
    import itertools

    verdicts = of(F, P, P, F, P, N)
    found = random_at_budget(verdicts, 0.4)
    rates = [np.mean(verdicts[list(taken)] == F) for taken in itertools.combinations(range(5), 2)]
    assert found.budget == 2
    assert found.failure_rate == pytest.approx(np.mean(rates))
    assert found.error == pytest.approx(np.sqrt(np.mean((np.array(rates) - 0.4) ** 2)))
    assert found.found == pytest.approx(np.mean(rates) * 2 / 2)


def papers_tests(suite: Suite) -> Suite:
    """Return the tests of a suite under names of the paper's first tests."""
    named = zip(suite.tests, ("change names", "typos", "reducers"), strict=True)
    return replace(suite, tests=tuple(replace(test, name=name) for test, name in named))


@pytest.fixture
def command(material: Material) -> list[str]:  # noqa: F811
    save_suite(papers_tests(suite_of()), material.suite)
    files = {"model": material.model, "suite": material.suite, "train": material.train}
    options = [x for name, path in files.items() for x in (f"--{name}", str(path))]
    return ["reproduce", "table1", *options, "--max-length", "12", "--texts", "10", "-o", "out"]


def test_table1_is_what_its_data_files_say(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "the paper's protocol" in shown.out
    assert "no test 'protected: race', so it is left out" in shown.err.replace("\n", " ")
    content = json.loads(Path("out/table1.json").read_text())
    assert [row["test"] for row in content["rows"]] == ["change names", "typos", "reducers"]
    assert len(content["missing"]) == 20
    suite = papers_tests(suite_of())
    for number, row in enumerate(content["rows"], start=1):
        data = datafile.read(Path(f"out/data/{number:02d}.mncover"))
        cases, own = cases_of(data), row["own"]
        test = suite[row["test"]]
        gains = cases.scores("gain")
        starts = np.cumsum([0, *(len(case.texts) for case in test.cases)])[:-1]
        candidates = int((starts < 10).sum())
        assert row["candidates"] == candidates
        kept = [i for i in range(candidates) if gains[i] > 0]
        edges = [np.quantile(gains[kept], q / 10) for q in range(1, 11)]
        rates = []
        for edge in edges:
            mine = [cases.verdicts[i] for i in kept if gains[i] >= edge]
            judged = [v for v in mine if v != -1]
            rates.append(judged.count(0) / len(judged) if judged else math.nan)
        if not np.isnan(rates).all():
            assert own["paper"]["cover"]["maximum"] == pytest.approx(np.nanmax(rates))
            assert own["paper"]["cover"]["mean"] == pytest.approx(np.nanmean(rates))
        least = sum(gains[i] >= edges[0] for i in kept)
        assert own["paper"]["cover"]["reduction"] == pytest.approx(1 - least / len(test.cases))
        assert set(own["clean"]) == {"10", "20", "40"}
        assert {"gain", "novelty", "entropy", "deep_gini", "random"} <= set(own["clean"]["20"])
        assert "failing" not in own["clean"]["20"]
        assert "mncover" not in own["paper"]


def test_csv_and_json_hold_the_same_numbers_and_the_average_last(command: list[str]) -> None:
    main([*command, "-q"])
    content = json.loads(Path("out/table1.json").read_text())
    with Path("out/table1.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert rows[-1]["test"] == "average"
    rates = [row["own"]["failure_rate"] for row in content["rows"]]
    assert [float(row["own_failure_rate"]) for row in rows[:-1]] == pytest.approx(rates)
    assert float(rows[-1]["own_failure_rate"]) == pytest.approx(np.mean(rates))
    assert content["average"]["own"]["failure_rate"] == pytest.approx(np.mean(rates))
    lifts = [row["own"]["clean"]["20"]["gain"]["lift"] for row in content["rows"]]
    known = [lift for lift in lifts if lift is not None]
    assert content["average"]["own"]["clean"]["20"]["gain"]["lift"] == pytest.approx(np.mean(known))
    assert "average" in Path("out/table1.txt").read_text()


def test_a_model_that_judges_itself_judges_the_same(command: list[str]) -> None:
    model = command[command.index("--model") + 1]
    assert main([*command, "--judge", model, "-q"]) == 0
    for row in json.loads(Path("out/table1.json").read_text())["rows"]:
        own, other = row["own"], row["other"]
        assert own["paper"] == other["paper"]
        assert own["failing"] == other["failing"]
        assert other["clean"]["20"]["failing"]["found"] in (None, pytest.approx(1)) or (
            other["clean"]["20"]["failing"]["failure_rate"] == 1
        )
        assert other["clean"]["20"]["gain"]["adjusted_error"] == pytest.approx(0)


def test_the_folder_of_another_models_table_judges_like_that_model(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other").mkdir()
    other = write_material(tmp_path / "other", "distilbert")
    theirs = [*command[:-2], "-o", "theirs", "-q"]
    theirs[theirs.index("--model") + 1] = str(other.model)
    assert main(theirs) == 0
    tables = []
    for judge in (str(other.model), "theirs"):
        assert main([*command, "--judge", judge, "-q"]) == 0
        tables.append(json.loads(Path("out/table1.json").read_text())["rows"])
    assert tables[0] == tables[1]
    assert [row["own"]["failing"] for row in tables[0]] != [
        row["other"]["failing"] for row in tables[0]
    ]
    Path("theirs/data/02.mncover").write_bytes(Path("theirs/data/01.mncover").read_bytes())
    assert "something else than all of 'typos'" in error_of(
        capsys, *command, "--judge", "theirs", "-q"
    )


def test_what_is_measured_is_not_measured_again(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mncover.paper import filtering_run

    main([*command, "-q"])
    first = Path("out/table1.json").read_bytes()
    calls: list[Any] = []

    def counted(job: Job) -> CoverageData:
        calls.append(job)
        return run_suite(job)

    monkeypatch.setattr(filtering_run, "run_suite", counted)
    main([*command, "-q"])
    assert not calls
    assert Path("out/table1.json").read_bytes() == first
    Path("out/data/02.mncover").write_bytes(b"damaged")
    main([*command, "-q"])
    assert [job.output.name for job in calls] == ["02.mncover"]
    assert Path("out/table1.json").read_bytes() == first
    main([*command, "--classes", "numbers", "-q"])
    assert len(calls) == 4  # judged in another way: another measurement


def test_a_suite_without_the_papers_tests_is_refused(
    material: Material,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = suite_of()
    save_suite(replace(other, tests=other.tests[:1]), material.suite)
    files = ["--suite", str(material.suite), "--train", str(material.train)]
    assert "none of the tests of table6" in error_of(
        capsys, "reproduce", "table6", "--model", str(material.model), *files
    )


def judged(failing: int, of_all: int, rate: float, low: float, high: float, p: float) -> Judged:
    from mncover.paper.protocols import BudgetOutcome, PaperOutcome

    outcome = BudgetOutcome(10, rate, 1.0, low, high, rate, 0.0)
    paper = PaperOutcome(0, 0, 0, 0, 0, 0, 0, 0, 0, p, 1 - p)
    verdicts = (of_all, of_all, failing, failing / of_all)
    return Judged(*verdicts, {"cover": paper}, {"20": {"gain": outcome}}, {})


def test_what_the_summary_counts() -> None:
    rows = [
        judged(5, 10, 0.9, 0.2, 0.8, 0.01),  # better
        judged(5, 10, 0.1, 0.2, 0.8, 0.9),  # worse
        judged(5, 10, 0.5, 0.2, 0.8, 0.04),  # as chance
        judged(10, 10, 1.0, 1.0, 1.0, 0.001),  # everything fails: says nothing
        judged(0, 10, 0.0, 0.0, 0.0, 0.001),  # nothing fails: says nothing
    ]
    assert beyond_chance(rows, "20", "gain") == (1, 1, 3)
    assert significant(rows, "cover") == (2, 3)
    assert significant(rows, "cover", "mean_p_value") == (0, 3)
    assert reached_tests(rows, "20", "gain") == (4, 4)


@pytest.mark.parametrize("name", ["change names", "typos"])
def test_the_papers_reductions_come_out_to_two_decimals(
    name: str, shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They need only that every candidate adds coverage; here for a real model."""
    monkeypatch.chdir(tmp_path)
    assemble(shared, "minilm-sst2", tmp_path / "model")
    whole = load_suite(shared / "data" / "checklist" / "sentiment_suite.tar.gz")
    test = whole[name]
    starts = np.cumsum([0, *(len(case.texts) for case in test.cases)])[:-1]
    candidates = int((starts < 1500).sum())
    few = Suite((replace(test, cases=test.cases[:candidates]),), whole.labels)
    save_suite(few, Path("suite.jsonl"))
    texts = [text for case in test.cases[-40:] for text in case.texts]
    Path("train.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    command = ["run", "model", "suite.jsonl", "--train", "train.jsonl", "--max-length", "64", "-q"]
    assert main(command) == 0
    cases = cases_of(datafile.read(Path("run.mncover")))
    # The cases that the paper's protocol never looks at count, but need not be run for it.
    padded = np.concatenate([cases.verdicts, np.full(len(test.cases) - candidates, N)])
    row = table_row(name, cases, 1500)
    kept = 1 - (1 - row.own.paper["cover"].reduction) * candidates / len(padded)
    assert round(100 * kept, 2) == PAPER_REDUCTIONS[name]
    assert row.own.paper["cover"].redundancy == 0
