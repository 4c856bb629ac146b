"""Discovery: its figures against a slow recount on a tiny model, and what it writes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.store import CoverageData
from mncover.paper import discovery
from mncover.paper.discovery import (
    Discovery,
    Outcome,
    discover,
    discovery_tables,
    draw_pool,
    explanation,
    spread_of,
    ways_for,
)
from mncover.selection import batches
from mncover.selection.cases import Cases, cases_of
from mncover.suites.formats import save_suite
from mncover.suites.judging import FAILS, NOT_JUDGED
from mncover.suites.rows import Rows
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material

BUDGETS = (0.1, 0.25, 0.5)
WAYS = ["entropy", "margin", "gain", "novelty", "diverse", "next"]
WAYS += [f"next, {how}" for how in ("no exploring", "inside alone", "outputs alone")]


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "TREES", 5)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> CoverageData:
    cov = Coverage(*tiny.make("bert"), max_length=12, progress=False)
    rows = Rows.of_suite(Path("suite.jsonl"), suite_of())
    train = Rows.make(tiny.texts(30, seed=9), labels=[i % 3 for i in range(30)])
    return cov.run(rows, tmp_path_factory.mktemp("runs") / "run.mncover", train).data


@pytest.fixture(scope="module")
def found(data: CoverageData) -> Discovery:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "TREES", 5)
        return discover(data, pools=3, per_test=9, budgets=BUDGETS, progress=False)


def slow_figures(pool: Cases, chosen: Any) -> tuple[float, float, float]:
    """Return lift, share of the best possible and tests reached by counting one by one."""
    fails = [bool(v == FAILS) for v in pool.verdicts]
    hits = [case for case in chosen if fails[case]]
    lift = (len(hits) / len(chosen)) / (sum(fails) / len(fails))
    best = sum(sorted(fails, reverse=True)[: len(chosen)])
    return lift, len(hits) / best, len({int(pool.test[case]) for case in hits})


def of(found: Discovery, way: str, budget: float) -> Outcome:
    (one,) = [one for one in found.outcomes if (one.way, one.budget) == (way, budget)]
    return one


def test_the_figures_of_every_way_are_those_of_a_slow_recount(
    data: CoverageData, found: Discovery
) -> None:
    cases = cases_of(data)
    ways = ways_for(cases)
    assert list(ways) == WAYS
    assert [one.way for one in found.outcomes] == [w for w in ("random", *WAYS) for _ in BUDGETS]
    pools = [draw_pool(cases, 9, seed) for seed in range(3)]
    for name, way in ways.items():
        whole = [
            way(pool, [round(budget * len(pool)) for budget in BUDGETS], seed)
            for seed, pool in enumerate(pools)
        ]
        for budget in BUDGETS:
            figures = [
                slow_figures(pool, chosen[: round(budget * len(pool))])
                for pool, chosen in zip(pools, whole, strict=True)
            ]
            mine = of(found, name, budget)
            means = (mine.lift.mean, mine.of_best.mean, mine.tests.mean)
            assert means == pytest.approx(np.mean(figures, axis=0)), (name, budget)


def test_random_is_the_average_of_many_draws(data: CoverageData, found: Discovery) -> None:
    pools = [draw_pool(cases_of(data), 9, seed) for seed in range(3)]
    rng = np.random.default_rng(0)
    for budget in BUDGETS:
        drawn = [
            slow_figures(pool, rng.permutation(len(pool))[: round(budget * len(pool))])
            for pool in pools
            for _ in range(1500)
        ]
        mine = of(found, "random", budget)
        error = np.std(drawn, axis=0) / math.sqrt(len(drawn)) + 1e-9
        off = np.mean(drawn, axis=0) - (mine.lift.mean, mine.of_best.mean, mine.tests.mean)
        assert (np.abs(off) < 4.5 * error).all()
        assert mine.lift.mean == pytest.approx(1)


def test_a_pool_has_judged_cases_of_every_test_and_each_once(data: CoverageData) -> None:
    cases = cases_of(data)
    few = draw_pool(cases, 4, 0)
    assert len(set(few.number.tolist())) == len(few)
    assert (few.verdicts != NOT_JUDGED).all()
    for test in range(3):
        judged = int(((cases.test == test) & (cases.verdicts != NOT_JUDGED)).sum())
        assert int((few.test == test).sum()) == min(4, judged)
    assert (draw_pool(cases, 4, 0).number == few.number).all()
    assert (draw_pool(cases, 4, 1).number != few.number).any()


def test_the_pools_are_described(data: CoverageData, found: Discovery) -> None:
    pools = [draw_pool(cases_of(data), 9, seed) for seed in range(3)]
    assert found.cases == np.mean([len(pool) for pool in pools])
    rates = [np.mean(pool.verdicts == FAILS) for pool in pools]
    assert found.failure_rate == pytest.approx(np.mean(rates))
    kinds = [len(set(pool.test[pool.verdicts == FAILS].tolist())) for pool in pools]
    assert found.failing_tests == np.mean(kinds)


def test_spreads_by_hand() -> None:
    # Student's t with 2 degrees of freedom: 4.3027; standard deviation 1, over the root of 3.
    assert spread_of([1, 2, 3]).mean == 2
    assert spread_of([1, 2, 3]).high - 2 == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    one = spread_of([5.0])
    assert one.mean == 5
    assert math.isnan(one.low)
    assert math.isnan(one.high)


def test_hidden_verdicts_reach_no_way_that_learns_nothing(data: CoverageData) -> None:
    cases = cases_of(data)
    hidden = replace(cases, verdicts=np.full_like(cases.verdicts, NOT_JUDGED), test=cases.test * 0)
    for name, way in ways_for(cases).items():
        if not name.startswith("next"):
            assert (way(cases, [4, 9], 1) == way(hidden, [4, 9], 1)).all(), name


def test_without_signatures_the_ways_that_look_inside_are_left_out(data: CoverageData) -> None:
    cases = cases_of(data)
    table = replace(data.table, signatures=np.empty((len(data.table), 0), dtype=np.float16))
    bare = CoverageData(data.identity)
    bare.table, bare.runs = table, data.runs
    ways = ways_for(replace(cases, data=bare))
    assert list(ways) == ["entropy", "margin", "gain", "novelty", "next, outputs alone"]


def test_a_table_of_each_figure_has_a_row_for_each_way(found: Discovery) -> None:
    lift, best, tests = discovery_tables(found).values()
    mine = of(found, "random", 0.1)
    half = mine.tests.high - mine.tests.mean
    for table, cell in (
        (lift, "1.00 ± 0.00"),
        (best, f"{100 * mine.of_best.mean:.0f} ± "),
        (tests, f"{mine.tests.mean:.1f} ± {half:.1f}"),
    ):
        assert list(table.columns[0].cells) == ["random", *WAYS]
        assert [str(column.header) for column in table.columns[1:]] == ["10%", "25%", "50%"]
        assert str(next(iter(table.columns[1].cells))).startswith(cell)
    assert f"3 pools of {found.cases:.0f} cases, of which" in explanation(found)
    assert f" % fail in {found.failing_tests:.0f} tests." in explanation(found)


def test_one_pool_has_no_interval_and_one_test_no_table_of_tests(data: CoverageData) -> None:
    found = replace(discover(data, 1, 9, (0.5,), progress=False), failing_tests=1.0)
    lift, best = discovery_tables(found).values()
    assert [
        str(cell) for table in (lift, best) for cell in table.columns[1].cells if "±" in str(cell)
    ] == []
    assert "interval" not in explanation(found)


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    return write_material(tmp_path)


def command(material: Material, suite: str, *more: str) -> list[str]:
    files = ["--model", str(material.model), "--suite", suite, "--train", str(material.train)]
    return ["reproduce", "discovery", *files, "--max-length", "12", "--pools", "2", *more]


def test_the_command_writes_a_table_json_and_figures(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    save_suite(suite_of(), Path("tests.jsonl"))
    assert main(command(material, "tests.jsonl", "--cases", "8", "-o", "out")) == 0
    shown = capsys.readouterr().out
    names = {"discovery.txt", "discovery.json", "discovery.png", "discovery.svg", "run.mncover"}
    assert {path.name for path in Path("out").iterdir()} == names
    written = json.loads(Path("out/discovery.json").read_text())
    pool = draw_pool(cases_of(datafile.read(Path("out/run.mncover"))), 8, 0)
    assert (written["pools"], written["cases"]) == (2, len(pool))
    assert {one["budget"] for one in written["outcomes"]} == set(discovery.BUDGETS)
    for text in (shown, Path("out/discovery.txt").read_text()):
        assert f"2 pools of {len(pool)} cases" in text
        assert text.count("next, inside alone") == 3
        assert "…" not in text  # nothing was cut
    # A second time the run is there already.
    before = Path("out/run.mncover").stat().st_mtime_ns
    assert main(command(material, "tests.jsonl", "--cases", "8", "-o", "out", "-q")) == 0
    assert Path("out/run.mncover").stat().st_mtime_ns == before
    assert not capsys.readouterr().out


def test_a_plain_file_of_labelled_texts_works(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": text, "label": i % 3} for i, text in enumerate(tiny.texts(40, seed=8))]
    Path("plain.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    assert main(command(material, "plain.jsonl")) == 0
    written = json.loads(Path("discovery/discovery.json").read_text())
    assert written["cases"] == 32  # four fifths of the file
    assert written["failing_tests"] == 1
    assert "Tests with a failure" not in capsys.readouterr().out


def test_the_json_of_a_single_pool_has_null_for_its_intervals(material: Material) -> None:
    save_suite(suite_of(), Path("tests.jsonl"))
    assert main(command(material, "tests.jsonl", "--pools", "1", "-q")) == 0
    text = Path("discovery/discovery.json").read_text()
    assert "NaN" not in text
    lift = json.loads(text)["outcomes"][0]["lift"]
    assert lift == {"mean": 1.0, "low": None, "high": None}


def test_a_run_without_failures_is_refused_with_one_line(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plain.txt").write_text("\n".join(tiny.texts(10)))  # nobody knows what is right
    error = error_of(capsys, *command(material, "plain.txt", "-q"))
    assert "no case of the run is known to fail" in error
