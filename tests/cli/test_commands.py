"""The command line: what it prints, writes, refuses, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mncover
from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from tests.engine.test_laws import POOL, fresh
from tests.folders import Material, write_material

SOURCE = Path(mncover.__file__).parents[1]


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return write_material(tmp_path)


def error_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that must fail with 1 and one line on standard error; return the line."""
    capsys.readouterr()
    assert main(arguments) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("mncover: ")
    return lines[0]


def test_run_writes_what_the_library_measures(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(material.run()) == 0
    shown = capsys.readouterr().out
    assert "Cover" in shown
    assert "run.mncover" in shown
    rows = [json.loads(line) for line in material.suite.read_text().splitlines()]
    cov = Coverage(str(material.model), max_length=12)
    cov.calibrate(material.train.read_text().splitlines(), cache=False)
    cov.update(
        [r["text"] for r in rows], [r["context"] for r in rows], [r["label"] for r in rows], True
    )
    found = datafile.read(Path("run.mncover"))
    assert found.identity == cov.data.identity
    for context in "abc":
        np.testing.assert_array_equal(found.map_of(context), cov.data.map_of(context))
    for name, values in cov.data.table.columns.items():
        np.testing.assert_array_equal(found.table[name], values)


def test_report_and_json_show_the_numbers_of_the_result(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    main(material.run("-q"))
    assert capsys.readouterr().out == ""
    result = Coverage.load("run.mncover").result()
    assert main(["report"]) == 0
    shown = capsys.readouterr().out
    for context in result.contexts:
        share = f"{context.main.tally.share_of_reachable * 100:.2f}"
        assert re.search(rf"^{context.name} +10 +{share} ", shown, re.M)
    assert f"Cover {result.main.tally.share_of_reachable * 100:.2f} % of the reachable" in shown
    assert f"{result.main.tally.share * 100:.2f} % of all bins" in shown
    assert main(["json", "--texts"]) == 0
    content = json.loads(capsys.readouterr().out)
    totals = content["totals"]["criteria"]["cover"]
    assert totals["share"] == result.cover
    assert totals["word"]["covered"] == result.word.covered
    adds = [context["criteria"]["cover"]["adds"] for context in content["contexts"]]
    assert adds == [context.adds for context in result.contexts]
    assert len(content["rows"]) == 30
    assert sum(row["gains"]["cover"] for row in content["rows"]) == pytest.approx(result.cover)
    assert len(content["sites"][-1]["criteria"]["cover"]["heads"]) == 2
    assert main(["json", "-o", "out.json", "--pretty"]) == 0
    assert json.loads(Path("out.json").read_text())["texts"] == 30


def test_report_sorts_shows_heads_and_refuses_unknown_orders(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    main(material.run("-q"))
    covers = {c.name: c.main.tally.share for c in Coverage.load("run.mncover").result().contexts}
    main(["report", "--sort", "-cover", "--heads"])
    shown = capsys.readouterr().out
    order = re.findall(r"^([abc]) +10 ", shown, re.M)
    assert order == sorted("abc", key=lambda name: -covers[name])
    assert "Attention heads" in shown
    assert "cannot sort by 'size'" in error_of(capsys, "report", "--sort", "size")


def test_fail_under_exits_with_2(material: Material, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(material.run("-q", "--fail-under", "99")) == 2
    assert "below --fail-under 99" in capsys.readouterr().err
    assert main(["report", "--fail-under", "99"]) == 2
    assert main(["json", "--fail-under", "99"]) == 2
    assert main(["report", "--fail-under", "1"]) == 0


def test_combine_unites_files_and_refuses_strangers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    a, b = fresh().update(POOL[:5], "a"), fresh().update(POOL[5:9], "b")
    a.save("a.mncover")
    b.save("b.mncover")
    assert main(["combine", "a.mncover", "b.mncover", "-o", "ab.mncover"]) == 0
    assert "Combined 2 files" in capsys.readouterr().out
    np.testing.assert_array_equal(datafile.read(Path("ab.mncover")).total(), (a | b).data.total())
    fresh(bins=12).update(POOL[:1]).save("c.mncover")
    line = error_of(capsys, "combine", "a.mncover", "c.mncover", "-o", "ab.mncover")
    assert "a.mncover and c.mncover: cannot be combined: they differ in bins (10 and 12)." in line
    fresh("electra").update(POOL[:1]).save("d.mncover")
    assert "the model's weights" in error_of(
        capsys, "combine", "a.mncover", "d.mncover", "-o", "ab.mncover"
    )
    np.testing.assert_array_equal(datafile.read(Path("ab.mncover")).total(), (a | b).data.total())


def test_options_come_from_pyproject_and_the_command_line_wins(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pyproject.toml").write_text(
        '[tool.mncover]\nbins = 4\nmax-length = 9\ntrain = "train.txt"\noutput = "own.mncover"\n'
        "fail_under = 0.5\nattention_weight = 2\n"
    )
    assert main(["run", "model", "suite.jsonl", "--bins", "6", "-q"]) == 0
    settings = datafile.read(Path("own.mncover")).identity.settings
    assert (settings.bins, settings.max_length, settings.attention_weight) == (6, 9, 2.0)
    assert main(["report"]) == 0
    Path("pyproject.toml").write_text("[tool.mncover]\nbinns = 4\n")
    assert "no option 'binns'" in error_of(capsys, "report")
    Path("pyproject.toml").write_text('[tool.mncover]\nbins = "4"\n')
    assert "'bins' must be an integer, got '4'" in error_of(capsys, "report")
    Path("pyproject.toml").write_text("[tool.mncover\n")
    assert "pyproject.toml: cannot be read" in error_of(capsys, "report")
    Path("pyproject.toml").write_text("[tool]\nmncover = 3\n")
    assert "must be a table" in error_of(capsys, "report")


def test_mistakes_are_one_line_and_exit_1(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, model = str(material.suite), str(material.model)
    train = ["--train", str(material.train)]
    assert "--train" in error_of(capsys, "run", model, suite)
    assert "no such file" in error_of(capsys, "run", model, "none.jsonl", *train)
    assert "no such folder" in error_of(capsys, "run", "./none", suite, *train)
    assert "no config.json" in error_of(capsys, "run", ".", suite, *train)
    assert "`bins` must be" in error_of(capsys, "run", model, suite, *train, "--bins", "1")
    assert "at most 64" in error_of(capsys, "run", model, suite, *train, "--max-length", "100")
    assert "device 'abacus'" in error_of(
        capsys, "run", model, suite, *train, "--device", "abacus", "--max-length", "12"
    )
    assert "`dtype` must be" in error_of(capsys, "run", model, suite, *train, "--dtype", "int3")
    assert "no such data file" in error_of(capsys, "report", "none.mncover")
    assert "No such command" in error_of(capsys, "rport")
    assert "No such option" in error_of(capsys, "report", "--colour")
    assert "Invalid value for '--fail-under'" in error_of(capsys, "report", "--fail-under", "many")
    material.suite.write_text('{"text": "good", "label": "sideways"}')
    line = error_of(capsys, *material.run())
    assert "suite.jsonl, line 1: the label 'sideways' is none of" in line
    material.suite.write_text('{"text": "good"}\n{"text": 3}')
    assert "line 2: field 'text' must be text" in error_of(capsys, *material.run())
    assert not Path("run.mncover").exists()


def test_train_uses_the_suites_fields_only_if_it_has_them(material: Material) -> None:
    material.suite.write_text('{"opinion": "good film"}\n{"opinion": "bad film"}\n')
    Path("own.csv").write_text("opinion,text\ngood film,x\nbad film,x\n")
    run = ["run", "model", "suite.jsonl", "--text", "opinion", "--max-length", "9", "-q"]
    assert main([*run, "--train", "own.csv"]) == 0
    by_field = Coverage.load("run.mncover").data.identity.ranges_fingerprint
    assert main([*run, "--train", "train.txt"]) == 0
    assert Coverage.load("run.mncover").data.identity.ranges_fingerprint != by_field
    Path("same.txt").write_text("good film\nbad film\n")
    assert main([*run, "--train", "same.txt"]) == 0
    assert Coverage.load("run.mncover").data.identity.ranges_fingerprint == by_field


def test_labels_of_a_model_without_classes_are_left_out(tmp_path: Path) -> None:
    material = write_material(tmp_path, "gpt2")
    assert main(material.run("-q", "-o", str(tmp_path / "x.mncover"))) == 0
    table = datafile.read(tmp_path / "x.mncover").table
    assert set(table["label"]) == {-1}
    assert table.probabilities.shape == (30, 0)


def test_brackets_and_markup_in_context_names_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.mncover"
    fresh().update(POOL[:2], context="[red]name[/red]").save(path)
    assert main(["report", str(path)]) == 0
    assert "[red]name[/red]" in capsys.readouterr().out


def test_debug_shows_versions_sites_and_headers(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    main(material.run("-q"))
    assert main(["debug", "sys"]) == 0
    assert "transformers" in capsys.readouterr().out
    assert main(["debug", "model", str(material.model), "--max-length", "12"]) == 0
    shown = capsys.readouterr().out
    assert "read by         hooks" in shown
    assert "attention.2 [2, 12, 12]" in shown
    assert main(["debug", "data"]) == 0
    assert "'max_length': 12" in capsys.readouterr().out


def test_version_and_help_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.match(r"mncover \d+\.\d+", capsys.readouterr().out)
    for command in ("run", "report", "json", "combine", "demo", "debug"):
        assert main([command, "--help"]) == 0


def test_files_that_cannot_be_written_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.mncover"
    fresh().update(POOL[:2]).save(path)
    assert "a folder is there already" in error_of(capsys, "json", str(path), "-o", str(tmp_path))
    assert "a file is there already" in error_of(capsys, "demo", "--folder", str(path))


def test_a_cache_that_cannot_be_written_costs_no_work(
    material: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNCOVER_CACHE_DIR", "/proc/nowhere")
    assert main(material.run("-q")) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("mncover: warning: cannot cache the ranges in /proc/nowhere/ranges: ")
    assert "None" not in line
    assert Path("run.mncover").exists()


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_a_screen_without_unicode_gets_a_report(tmp_path: Path) -> None:
    path = tmp_path / "x.mncover"
    fresh().update(POOL[:2]).save(path)
    done = subprocess.run(
        [sys.executable, "-m", "mncover", "report", str(path)],
        env={"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"#." in done.stdout
