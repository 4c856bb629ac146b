"""`mncover select`: the reduced suite that it writes, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.selection.budgets import best
from mncover.selection.cases import cases_of
from mncover.selection.scores import score_cases
from mncover.suites.formats import load_suite, read_records
from tests import tiny
from tests.cli.test_commands import error_of
from tests.cli.test_run_suites import material  # noqa: F401
from tests.folders import Material, suite_of, write_material


def test_select_writes_a_suite_that_runs_again(
    material: Material,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(material.run("-q"))
    assert main(["select", "--budget", "20%", "-o", "few.jsonl"]) == 0
    shown = capsys.readouterr().out
    assert "few.jsonl: 6 of 32 cases." in shown
    result = Coverage.load("run.mncover").result()
    kept = min(result.failing, sum(min(2, outcome.failing) for outcome in result.outcomes))
    assert f"Left out: 26 cases, {result.failing - kept} of which fail." in shown
    assert "'failing' takes known failures first" in shown
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
    assert Coverage.load("few.mncover").result().share("cover") > 0


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


def test_select_of_texts_without_verdicts_says_what_it_took_and_compares_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = write_material(tmp_path).run("-q")
    command[2] = "texts.txt"
    Path("texts.txt").write_text("\n".join(tiny.texts(30, seed=8)))
    assert main(command) == 0
    for by, more in (("diverse", []), ("entropy", ["--by", "entropy"])):
        assert main(["select", "--budget", "20%", *more, "-o", "few.txt"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert shown == (
            f"'{by}' takes 6 of 30 cases. None is judged, so nothing can be said about failures; "
            "`mncover next` helps to find them. few.txt: 6 of 30 cases."
        )
        assert main(["select", "--budget", "20%", *more, "--json"]) == 0
        unknown = dict.fromkeys(("failing", "low", "high", "tests"))
        assert json.loads(capsys.readouterr().out) == {
            **{"cases": 30, "judged": 0, "failing": 0},
            "chosen": {"method": by, "cases": 6, **unknown},
            "left_out": {"cases": 24, "failing": None},
            "others": [],
        }


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
    monkeypatch.chdir(tmp_path)
    made, rows = write_material(tmp_path), rows_of(12)
    source = Path(f"texts.{kind}")
    written(kind, rows, source)
    command = made.run("-q")
    command[2] = str(source)
    assert main(command) == 0
    assert main(["select", "--budget", "3", "--overall", "-o", f"few.{kind}", "-q"]) == 0
    found = cases_of(datafile.read(Path("run.mncover")))
    usual = "diverse" if kind == "txt" else "failing"  # lines of text have no labels
    chosen = found.number[best(score_cases(found, usual), 3)]
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


def test_select_says_why_a_share_of_small_tests_is_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    main(write_material(tmp_path).run("-q"))
    assert main(["select", "--budget", "3%"]) == 0  # of 30 texts in three contexts
    said = capsys.readouterr().err
    assert "3 % of 30 cases would be 1, but every test keeps at least one: 3." in said
    for budget in (["3%", "--overall"], ["20%"], ["1"]):
        assert main(["select", "--budget", *budget]) == 0
        assert "at least one" not in capsys.readouterr().err


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
