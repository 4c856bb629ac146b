"""Gates from the command line: exit codes, what they name, and settings in pyproject.toml."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.engine.loading import quiet_loading
from mncover.selection.cases import cases_of
from mncover.suites.formats import save_suite
from mncover.suites.judging import FAILS, PASSES
from mncover.types import Text
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material

Shown = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Data files of a suite and of labelled texts by two models, and of texts without labels."""
    folder = tmp_path_factory.mktemp("gates")
    found = write_material(folder)
    other, tokenizer = tiny.make("bert", seed=1)
    with quiet_loading():
        other.save_pretrained(folder / "other")
    tokenizer.save_pretrained(folder / "other")
    run = found.run("-q")
    save_suite(suite_of(), folder / "tests.jsonl")
    for model in ("model", "other"):
        for suite in ("suite", "tests"):
            run[1:3] = [str(folder / model), str(folder / f"{suite}.jsonl")]
            assert main([*run, "-o", str(folder / f"{model}-{suite}.mncover")]) == 0
    run[1:3] = [str(folder / "model"), str(folder / "suite.jsonl")]
    assert main([*run, "--no-label", "-o", str(folder / "bare.mncover")]) == 0
    return found


@pytest.fixture(autouse=True)
def folder(made: Material, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for path in made.folder.glob("*.mncover"):
        shutil.copy(path, tmp_path)


def wrong_texts(name: str) -> tuple[int, int]:
    """Count wrong and labelled texts from the rows of the JSON: the independent way."""
    assert main(["json", name, "--texts", "-o", "out.json"]) == 0
    rows = json.loads(Path("out.json").read_text())["rows"]
    known = [row for row in rows if row["label"] is not None]
    return sum(row["label"] != row["prediction"] for row in known), len(known)


def test_failing_labelled_texts_end_with_2(capsys: Shown) -> None:
    wrong, labelled = wrong_texts("model-suite.mncover")
    assert 0 < wrong < labelled == 30
    report = ["report", "model-suite.mncover", "--max-failing"]
    assert main([*report, str(wrong)]) == 0
    assert main([*report, str(wrong - 1)]) == 2
    assert f"{wrong} of 30 cases fail" in capsys.readouterr().err
    assert main([*report, f"{100 * wrong / 30 + 0.01:.2f}%"]) == 0
    assert main([*report, f"{100 * wrong / 30 - 0.01:.2f}%"]) == 2


def test_failing_cases_of_a_test_end_with_2(capsys: Shown) -> None:
    result = Coverage.load("model-tests.mncover").result()
    words = {context.name: context for context in result.contexts}["words"]
    limit = "words={}".format
    report = ["report", "model-tests.mncover", "--max-failing-test"]
    assert main([*report, limit(words.failing)]) == 0
    assert main([*report, limit(words.failing - 1)]) == 2
    assert f"words: {words.failing} of {words.judged} cases fail" in capsys.readouterr().err
    assert main(["json", "model-tests.mncover", "--max-failing-test", limit("1%")]) == 2
    refused = error_of(capsys, *report, "wrods=3")
    assert "no test 'wrods': did you mean 'words'?" in refused
    assert "NAME=5% or NAME=12" in error_of(capsys, *report, "words")
    assert "a percentage ends with %" in error_of(capsys, *report, limit("0.05"))


def test_every_broken_gate_is_named_and_a_gate_that_holds_is_not(capsys: Shown) -> None:
    gates = ["--max-failing", "1%", "--max-failing-test", "words=0", "--fail-under", "99"]
    gates += ["--max-failing-test", "change names=100%", "--fail-under-test", "words=98"]
    assert main(["report", "model-tests.mncover", *gates]) == 2
    lines = capsys.readouterr().err.splitlines()
    asked = ["--max-failing 1%", "--max-failing-test 0", "--fail-under 99", "--fail-under-test 98"]
    assert len(lines) == 4
    for line, gate in zip(lines, asked, strict=True):
        assert gate in line


def test_run_checks_what_it_ran_and_settings_come_from_pyproject(
    made: Material, capsys: Shown
) -> None:
    wrong, _ = wrong_texts("model-suite.mncover")
    assert main(made.run("-q", "--max-failing", str(wrong - 1))) == 2
    assert "more than --max-failing" in capsys.readouterr().err
    settings = '[tool.mncover]\nmax-failing = "{}"\nmax-failing-test = ["a=10", "b={}"]\n'
    Path("pyproject.toml").write_text(settings.format("100%", "10"))
    assert main(made.run("-q")) == 0
    assert main(["report", "--max-failing", "0"]) == 2
    Path("pyproject.toml").write_text(settings.format("100%", "0"))
    assert main(["report"]) == 2
    assert "b: " in capsys.readouterr().err
    assert main(["report", "--max-failing-test", "b=10"]) == 0  # the command line wins
    Path("pyproject.toml").write_text("[tool.mncover]\nmax-failing-test = [3]\n")
    assert "must be a list of strings, got [3]" in error_of(capsys, "report")


def test_a_gate_on_what_nothing_is_expected_of_is_refused_before_work_and_never_holds(
    made: Material, capsys: Shown
) -> None:
    assert main(["report", "bare.mncover", "--max-failing", "100%"]) == 2
    assert "no case is judged" in capsys.readouterr().err
    refused = error_of(capsys, *made.run("--no-label", "--max-failing", "5%", "-o", "no.mncover"))
    assert "no text has a label" in refused
    assert not Path("no.mncover").exists()


def new_failures(suite: str) -> set[tuple[str, tuple[Text, ...]]]:
    """Return what passed by `model` and fails by `other`: by plain comparison of verdicts."""
    found = []
    for model in ("model", "other"):
        cases = cases_of(datafile.read(Path(f"{model}-{suite}.mncover")))
        keys = [(cases.tests[cases.test[i]], cases.texts(i)) for i in range(len(cases))]
        found.append(dict(zip(keys, cases.verdicts.tolist(), strict=True)))
    before, now = found
    return {key for key in now if (before[key], now[key]) == (PASSES, FAILS)}


@pytest.mark.parametrize("suite", ["suite", "tests"])
def test_new_failures_are_listed_and_end_with_2(suite: str, capsys: Shown) -> None:
    expected = new_failures(suite)
    old, new = f"model-{suite}.mncover", f"other-{suite}.mncover"
    gate = ["--since", old, "--fail-on-new-failures"]
    assert main(["report", new, "--format", "json", *gate]) == 2
    captured = capsys.readouterr()
    found = json.loads(captured.out)["changes"]["newly_failing"]
    assert {(one["test"], tuple(one["texts"])) for one in found} == expected
    assert found
    assert "--fail-on-new-failures" in captured.err
    for one in found:
        assert f"expected {one['expected']}, got {one['got']}" in captured.err
    assert main(["report", new, "--since", old]) == 0  # shown, but no gate
    shown = capsys.readouterr().out
    assert f"Since {old}: {len(found)} new failure" in shown
    assert found[0]["texts"][0] in shown
    assert main(["report", new, "--format", "markdown", *gate]) == 2
    captured = capsys.readouterr()
    assert captured.out.count("| case ") + captured.out.count("| text ") == len(found)
    assert "- **FAILED**: " in captured.out
    assert len(captured.err.splitlines()) == 1  # the table has the cases
    assert main(["report", old, "--since", old, "--fail-on-new-failures"]) == 0


def test_run_compares_with_the_file_that_it_replaces(made: Material, capsys: Shown) -> None:
    run = made.run("-q", "--since", "run.mncover", "--fail-on-new-failures")
    shutil.copy("model-suite.mncover", "run.mncover")
    run[1] = str(made.folder / "other")
    assert main(run) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(new_failures("suite")) == sum(": expected " in line for line in lines)
    assert main(run) == 0  # it was replaced


def test_files_that_cannot_be_compared_are_said_so(made: Material, capsys: Shown) -> None:
    gate = ["--fail-on-new-failures", "--since"]
    assert main(["report", "model-tests.mncover", *gate, "model-suite.mncover"]) == 2
    captured = capsys.readouterr()
    assert "no case can be compared with model-suite.mncover" in captured.err
    assert "32 not in that file. 30 cases of that file not run here." in captured.out
    missing = error_of(capsys, "report", "model-tests.mncover", *gate, "gone.mncover")
    assert "gone.mncover: no such data file" in missing
    assert "name it with --since" in error_of(capsys, "report", "model-tests.mncover", gate[0])
    refused = error_of(capsys, *made.run("-o", "no.mncover", *gate, "gone.mncover"))
    assert "gone.mncover: no such data file" in refused
    assert not Path("no.mncover").exists()


def test_json_has_every_gate_only_if_there_are_some(capsys: Shown) -> None:
    report = ["report", "model-tests.mncover", "--format", "json"]
    assert main(report) == 0
    assert {"gates", "changes"}.isdisjoint(json.loads(capsys.readouterr().out))
    assert main([*report, "--max-failing", "100%", "--fail-under", "99"]) == 2
    gates = json.loads(capsys.readouterr().out)["gates"]
    assert [(one["gate"], one["test"], one["holds"]) for one in gates] == [
        ("--max-failing", None, True),
        ("--fail-under", None, False),
    ]
