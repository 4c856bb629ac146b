"""Choosing cases: by scores of a data file, greedily, and beside chance."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.errors import SettingsError
from mncover.selection.budgets import Limit, best, choose, groups_of, parse_budget
from mncover.selection.cases import Cases, cases_of
from mncover.selection.chance import compare_methods, count_failures
from mncover.suites.formats import load_suite
from tests import tiny
from tests.cli.test_commands import error_of
from tests.cli.test_run_suites import material, suite_of  # noqa: F401
from tests.folders import Material, write_material
from tests.slow import SlowCover


def of(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


def test_budgets_thresholds_and_quantiles_by_hand() -> None:
    scores = of(3, 0, 5, 5, 1)
    assert Limit(number=2).take(scores).tolist() == [2, 3]
    assert Limit(number=1).take(scores).tolist() == [2]  # of equal scores the first
    assert Limit(number=9).take(scores).tolist() == [0, 1, 2, 3, 4]
    assert Limit(share=0.4).take(scores).tolist() == [2, 3]
    assert Limit(share=0.01).take(scores).tolist() == [2]  # at least one
    assert Limit(threshold=0).take(scores).tolist() == [0, 2, 3, 4]
    assert Limit(threshold=3).take(scores).tolist() == [2, 3]
    # Of 1, 3, 5, 5 the median is 4.
    assert Limit(quantile=0.5).take(scores).tolist() == [2, 3]
    assert Limit(quantile=0).take(scores).tolist() == [0, 2, 3, 4]
    assert Limit(quantile=0.5).take(of(0, 0)).tolist() == []


def test_every_test_gives_its_share_or_the_whole_suite_does() -> None:
    scores, test = of(9, 8, 7, 1, 2, 3), np.array([0, 0, 0, 4, 4, 4])
    share = Limit(share=1 / 3)
    assert choose(scores, groups_of(test, overall=False), share).tolist() == [0, 5]
    assert choose(scores, groups_of(test, overall=True), share).tolist() == [0, 1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 30))
def test_the_best_are_those_of_a_sorted_list(values: list[int], k: int) -> None:
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert best(of(*values), k).tolist() == sorted(ranked[:k])


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-3", "ten", "2.5", "", "20 %%"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"budget|whole"):
        parse_budget(text)


@pytest.fixture
def cases(material: Material) -> Cases:  # noqa: F811
    main(material.run("-q"))
    return cases_of(datafile.read(Path("run.mncover")))


def test_scores_of_cases_are_those_of_the_slow_implementation(
    material: Material,  # noqa: F811
    cases: Cases,
) -> None:
    slow = SlowCover(*tiny.make("bert"), bins=10, max_length=12)
    slow.calibrate(material.train.read_text().splitlines())
    seen: set[Any] = set()
    total = cases.data.identity.layout
    bins = sum(total.neurons(site) for site in total.sites) * 10
    everything = [case for test in suite_of().tests for case in test.cases]
    gains, novelty, lengths = cases.scores("gain"), cases.scores("novelty"), cases.scores("length")
    assert len(everything) == len(cases) == 32
    for i, case in enumerate(everything[:14]):  # two tests, cases of one and of three texts
        hits = slow.union(list(case.texts))
        assert gains[i] == pytest.approx(len(hits - seen) / bins, rel=1e-12)
        texts = [tiny.make("bert")[1](text, truncation=True, max_length=12) for text in case.texts]
        tokens = [len(text["input_ids"]) for text in texts]
        assert lengths[i] == sum(tokens)
        touched = sum(site.touched(n) for n in tokens for site in cases.data.identity.layout.sites)
        assert novelty[i] == pytest.approx(len(hits - seen) / touched)
        seen |= hits


def test_uncertainty_of_a_case_is_that_of_its_most_uncertain_text(cases: Cases) -> None:
    for method in ("entropy", "deep_gini", "margin"):
        scores = cases.scores(method)
        for i, rows in enumerate(cases.rows):
            p = cases.data.table.probabilities[rows].astype(float)
            by_hand = {
                "entropy": max(-sum(x * np.log(x) for x in row) for row in p),
                "deep_gini": max(1 - sum(x * x for x in row) for row in p),
                "margin": max(1 - (sorted(row)[-1] - sorted(row)[-2]) for row in p),
            }
            assert scores[i] == pytest.approx(by_hand[method], abs=1e-6)


def test_chance_is_the_mean_over_all_draws(cases: Cases) -> None:
    groups = [np.arange(0, 6), np.arange(12, 17)]
    chosen = np.array([0, 1, 12])
    found = compare_methods(cases, chosen, groups)[-1]
    fails = cases.verdicts == 0
    draws = [
        fails[[*a, *b]].sum()
        for a in itertools.combinations(range(6), 2)
        for b in itertools.combinations(range(12, 17), 1)
    ]
    assert found.failing == pytest.approx(np.mean(draws))
    assert np.mean(np.array(draws) < found.low) <= 0.025
    assert np.mean(np.array(draws) > found.high) <= 0.025
    reached = [
        any(fails[list(a)]) + any(fails[list(b)])
        for a in itertools.combinations(range(6), 2)
        for b in itertools.combinations(range(12, 17), 1)
    ]
    assert found.tests == pytest.approx(np.mean(reached))


def test_every_method_takes_as_many_cases_of_each_test_as_were_chosen(cases: Cases) -> None:
    groups = groups_of(cases.test, overall=False)
    chosen = choose(cases.scores("gain"), groups, Limit(number=4))
    rows = {row.method: row for row in compare_methods(cases, chosen, groups)}
    assert rows["gain"].failing == count_failures(cases, chosen).failing
    assert {row.cases for row in rows.values()} == {12}
    assert list(rows)[-1] == "random"
    assert "mngain" not in rows  # there are no masks


def slow_greedy(slow: SlowCover, cases: list[list[str]], budget: int) -> list[int]:
    hits, seen, kept = [slow.union(case) for case in cases], set[Any](), list[int]()
    while len(kept) < budget:
        gains = [-1 if i in kept else len(h - seen) for i, h in enumerate(hits)]
        if max(gains) <= 0:
            break
        kept.append(gains.index(max(gains)))
        seen |= hits[kept[-1]]
    return kept


@pytest.mark.parametrize(("name", "bins"), [("bert", 10), ("gpt2", 3), ("llama", 100)])
def test_greedy_equals_trying_every_case_every_time(name: str, bins: int) -> None:
    model, tokenizer = tiny.make(name)
    texts = tiny.texts(24, seed=5)
    cases = [texts[i : i + 1 + i % 2] for i in range(0, 16)] + [[texts[0]], [texts[3], texts[3]]]
    slow = SlowCover(model, tokenizer, bins, 10)
    slow.calibrate(tiny.texts(8, seed=6))
    cov = Coverage(model, tokenizer, bins=bins, max_length=10)
    cov.calibrate(tiny.texts(8, seed=6), cache=False)
    found = cov.greedy(cases, budget=9)
    assert found.kept == slow_greedy(slow, cases, 9)
    everything = cov.greedy(cases)
    assert everything.kept == slow_greedy(slow, cases, 99)
    assert set(everything.kept) < set(range(len(cases)))  # copies add nothing
    gains = everything.gains[everything.kept]
    assert (np.diff(gains) <= 0).all()
    cov.update([text for case in cases for text in case])
    assert gains.sum() == pytest.approx(cov.result().cover)
    assert cov.greedy([]).kept == []


def test_greedy_says_how_much_room_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=10)
    cov.calibrate(tiny.texts(4, seed=6), cache=False)
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("mncover.selection.greedy.shutil.disk_usage", lambda path: usage)
    with pytest.raises(SettingsError, match="GB are free"):
        cov.greedy(tiny.texts(4, seed=5))


# The command.


def test_select_writes_a_suite_that_runs_again(
    material: Material,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(material.run("-q"))
    assert main(["select", "--budget", "20%", "-o", "few.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "few.jsonl: 6 of 32 cases." in shown
    assert "than chance would" in shown or "no fewer" in shown
    few, whole = load_suite(Path("few.jsonl")), suite_of()
    assert [len(test.cases) for test in few.tests] == [2, 2, 2]
    assert few.labels == whole.labels
    for test in few.tests:
        assert set(test.cases) <= set(whole[test.name].cases)
        assert test.expectation == whole[test.name].expectation
        assert (test.capability, test.description) == (
            whole[test.name].capability,
            whole[test.name].description,
        )
    command = [*material.run("-q", "-o", "few.mncover")]
    command[2] = "few.jsonl"
    assert main(command) == 0
    assert Coverage.load("few.mncover").result().cover > 0


def test_select_by_failing_keeps_the_failing_cases(material: Material) -> None:  # noqa: F811
    main(material.run("-q"))
    assert main(["select", "--by", "failing", "--threshold", "0.5", "-o", "few.jsonl", "-q"]) == 0
    outcomes = Coverage.load("run.mncover").result().outcomes
    kept = {test.name: test.cases for test in load_suite(Path("few.jsonl")).tests}
    for outcome in outcomes:
        failing = [c for c, v in zip(outcome.test.cases, outcome.verdicts, strict=True) if v == 0]
        assert list(kept.get(outcome.test.name, ())) == failing


@pytest.mark.parametrize("threshold", ["0", "0.002"])
def test_select_sequential_is_the_filter_of_each_test(
    threshold: str,
    material: Material,  # noqa: F811
) -> None:
    main(material.run("-q"))
    choice = ["--by", "sequential", "--threshold", threshold, "--train", str(material.train)]
    assert main(["select", *choice, "-o", "few.jsonl", "-q"]) == 0
    few = {test.name: list(test.cases) for test in load_suite(Path("few.jsonl")).tests}
    cov = Coverage(str(material.model), max_length=12)
    cov.calibrate(material.train.read_text().splitlines(), cache=False)
    for test in suite_of().tests:
        kept = cov.filter([list(case.texts) for case in test.cases], float(threshold)).kept
        assert few.get(test.name, []) == [test.cases[i] for i in kept]


def test_select_greedy_is_the_greedy_choice(material: Material) -> None:  # noqa: F811
    main(material.run("-q"))
    choice = ["--by", "greedy", "--budget", "5", "--overall", "--train", str(material.train)]
    assert main(["select", *choice, "-o", "few.jsonl", "-q"]) == 0
    cov = Coverage(str(material.model), max_length=12)
    cov.calibrate(material.train.read_text().splitlines(), cache=False)
    cases = [case for test in suite_of().tests for case in test.cases]
    kept = sorted(cov.greedy([list(case.texts) for case in cases], 5).kept)
    few = [case for test in load_suite(Path("few.jsonl")).tests for case in test.cases]
    assert few == [cases[i] for i in kept]


def test_select_prints_json_and_the_same_seed_chooses_the_same(
    material: Material,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(material.run("-q"))
    assert main(["select", "--by", "random", "--budget", "4", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["cases"] == 32
    assert content["chosen"]["cases"] == 12
    assert content["others"][-1]["method"] == "random"
    for name in ("a", "b"):
        options = ["--by", "random", "--seed", "7", "--budget", "4", "-q"]
        main(["select", *options, "-o", f"{name}.jsonl"])
    assert Path("a.jsonl").read_bytes() == Path("b.jsonl").read_bytes()


def rows_of(n: int) -> list[dict[str, Any]]:
    texts = tiny.texts(n, seed=8)
    return [
        {"id": f"row {i}", "text": text, "label": i % 3, "context": "ab"[i % 2]}
        for i, text in enumerate(texts)
    ]


def written(kind: str, rows: list[dict[str, Any]], path: Path) -> None:
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == "txt":
        path.write_text("".join(row["text"] + "\n\n" for row in rows))
    elif kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        delimiter = "," if kind == "csv" else "\t"
        lines = [delimiter.join(rows[0])]
        lines += [delimiter.join(f'"{value}"' for value in row.values()) for row in rows]
        path.write_text("\n".join(lines))


@pytest.mark.parametrize("kind", ["jsonl", "txt", "csv", "tsv", "parquet"])
def test_select_copies_whole_records_in_their_format(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mncover.suites.formats import read_records

    monkeypatch.chdir(tmp_path)
    made, rows = write_material(tmp_path), rows_of(12)
    source = Path(f"texts.{kind}")
    written(kind, rows, source)
    command = made.run("-q")
    command[2] = str(source)
    assert main(command) == 0
    assert main(["select", "--budget", "3", "--overall", "-o", f"few.{kind}", "-q"]) == 0
    found = cases_of(datafile.read(Path("run.mncover")))
    chosen = found.number[best(found.scores("gain"), 3)]
    records = [record for _, record in read_records(source)]
    assert [r for _, r in read_records(Path(f"few.{kind}"))] == [records[i] for i in chosen]
    if kind != "txt":
        assert "id" in records[0]


def test_select_refuses_what_it_cannot_do(
    material: Material,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(material.run("-q"))
    out = ["-o", "few.jsonl"]
    assert "one of --budget" in error_of(capsys, "select", *out)
    assert "one of --budget" in error_of(
        capsys, "select", "--budget", "3", "--threshold", "0", *out
    )
    assert "chosen by" in error_of(capsys, "select", "--by", "magic", "--budget", "3", *out)
    assert "--train" in error_of(capsys, "select", "--by", "greedy", "--budget", "3", *out)
    assert "what each text added to mnCover" in error_of(
        capsys, "select", "--by", "mngain", "--budget", "3", *out
    )
    assert "nothing to write" in error_of(capsys, "select", "--threshold", "2", *out)
    assert "ends with .jsonl" in error_of(capsys, "select", "--budget", "3", "-o", "few.pkl")
    other = ["--train", str(material.suite.with_name("other.txt"))]
    Path(other[1]).write_text("other texts\n")
    greedily = ["select", "--by", "greedy", "--budget", "3", *out]
    assert "ranges of other texts" in error_of(capsys, *greedily, *other)
    assert not Path("few.jsonl").exists()
    main(material.run("-q", "-o", "b.mncover"))
    main(["combine", "run.mncover", "b.mncover", "-o", "both.mncover"])
    assert "both.mncover: it holds 2 runs" in error_of(
        capsys, "select", "both.mncover", "--budget", "3", *out
    )


def test_select_refuses_a_file_of_texts_that_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = write_material(tmp_path)
    main(made.run("-q"))
    lines = made.suite.read_text().splitlines()
    select = ["select", "--budget", "30", "--overall", "-o", "few.jsonl"]
    made.suite.write_text("\n".join(lines[1:]))
    assert "29 texts, but 30 were run" in error_of(capsys, *select)
    made.suite.write_text("\n".join([lines[1], *lines[1:]]))
    assert "line 1: the text that was run" in error_of(capsys, *select)
    assert "suite.jsonl is .jsonl" in error_of(capsys, *select[:-1], "few.csv")
    made.suite.rename("moved.jsonl")
    assert "no such file" in error_of(capsys, *select)
    Path("moved.jsonl").write_text("\n".join(lines))
    assert main([*select, "--suite", "moved.jsonl", "-q"]) == 0
    assert Path("few.jsonl").read_text().splitlines() == lines
