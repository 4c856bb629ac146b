"""`mncover select` with scores that look inside, `--other` and `--fit`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.engine.loading import quiet_loading
from mncover.suites.formats import save_suite
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import suite_of, write_material


def labelled_texts(path: Path, n: int, seed: int) -> None:
    rows = [{"text": t, "label": i % 3} for i, t in enumerate(tiny.texts(n, seed))]
    path.write_text("\n".join(json.dumps(row) for row in rows))


@dataclass(frozen=True)
class Runs:
    """Data files, and how they were made."""

    folder: Path
    model: Path
    other: Path

    def run(self, model: Path, texts: str, output: str, *more: str) -> None:
        """Run a file of texts through a model."""
        train = str(self.folder / "train.jsonl")
        options = ["--train", train, "--max-length", "12", "-o", str(self.folder / output)]
        assert main(["run", str(model), str(self.folder / texts), *options, "-q", *more]) == 0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Two models, and data files of the first one's answers and of the second one's."""
    folder = tmp_path_factory.mktemp("inside")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MNCOVER_CACHE_DIR", str(folder / "cache"))
        first = write_material(folder).model
        model, tokenizer = tiny.make("bert", seed=1)
        with quiet_loading():
            model.save_pretrained(folder / "other")
        tokenizer.save_pretrained(folder / "other")
        labelled_texts(folder / "train.jsonl", 60, 9)
        labelled_texts(folder / "dev.jsonl", 60, 21)
        runs = Runs(folder, first, folder / "other")
        runs.run(first, "suite.jsonl", "run.mncover")
        runs.run(first, "dev.jsonl", "dev.mncover")
        runs.run(runs.other, "suite.jsonl", "other.mncover")
        runs.run(runs.other, "dev.jsonl", "other_dev.mncover")
        parts = [str(folder / name) for name in ("other.mncover", "other_dev.mncover")]
        assert main(["combine", *parts, "-o", str(folder / "both.mncover")]) == 0
    return runs


@pytest.fixture(autouse=True)
def here(made: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made.folder)
    monkeypatch.setenv("COLUMNS", "120")


SELECT = ["select", "--budget", "5", "--overall", "--json"]


def asked(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    capsys.readouterr()
    assert main([*SELECT, *options]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def methods(found: dict[str, object]) -> set[str]:
    others = found["others"]
    assert isinstance(others, list)
    return {row["method"] for row in others}


def test_every_selection_compares_with_what_the_data_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain = asked(capsys)
    assert {"neighbours", "surprise", "entropy"} <= methods(plain)
    assert not {"second", "fitted"} & methods(plain)
    assert "fit" not in plain
    assert "second" in methods(asked(capsys, "--other", "other.mncover"))


@pytest.mark.parametrize("by", ["neighbours", "surprise"])
def test_select_by_the_inside_writes_a_file(by: str) -> None:
    assert main(["select", "--by", by, "--budget", "3", "--overall", "-o", "few.jsonl", "-q"]) == 0
    assert len(Path("few.jsonl").read_text().splitlines()) == 3


def test_select_by_a_second_model(capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(capsys, "--by", "second", "--other", "other.mncover")
    chosen = found["chosen"]
    assert isinstance(chosen, dict)
    assert (chosen["method"], chosen["cases"]) == ("second", 5)


def test_a_fit_to_texts_is_the_fit_to_their_data_file(capsys: pytest.CaptureFixture[str]) -> None:
    texts, data = asked(capsys, "--fit", "dev.jsonl"), asked(capsys, "--fit", "dev.mncover")
    for found in (texts, data):
        fit, chosen = found["fit"], found["chosen"]
        assert isinstance(fit, dict)
        assert isinstance(chosen, dict)
        assert chosen["method"] == "fitted"  # the default with --fit
        assert fit["cases"] == 60
        assert list(fit["weights"]) == ["entropy", "margin", "deep_gini", "neighbours", "surprise"]
        assert fit["auroc"]["low"] <= fit["auroc"]["value"] <= fit["auroc"]["high"]
    one, two = texts["fit"], data["fit"]
    assert isinstance(one, dict)
    assert isinstance(two, dict)
    assert one["weights"] == pytest.approx(two["weights"], abs=1e-3)
    found = asked(capsys, "--fit", "dev.mncover", "--by", "entropy")
    assert "fitted" in methods(found)


def test_a_second_model_is_part_of_the_fit_if_it_has_the_texts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = asked(capsys, "--fit", "dev.jsonl", "--other", "both.mncover")
    assert isinstance(whole["fit"], dict)
    assert "second" in whole["fit"]["weights"]
    assert main([*SELECT, "--fit", "dev.jsonl", "--other", "other.mncover"]) == 0
    shown = capsys.readouterr()
    assert "'second' is not part of the combination: other.mncover: it lacks 60 of 60" in shown.err
    assert "second" not in json.loads(shown.out)["fit"]["weights"]


def test_the_weights_and_the_figures_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SELECT[:-1], "--fit", "dev.mncover"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Fitted Weight" in shown
    assert "cross-validated: 0." in shown
    assert "entropy alone: 0." in shown


def test_select_refuses_what_does_not_fit_together(
    made: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    choose = SELECT[:-1]
    assert "second needs another model's data file" in error_of(capsys, *choose, "--by", "second")
    assert "fitted needs labelled texts" in error_of(capsys, *choose, "--by", "fitted")
    lacking = error_of(capsys, *choose, "--other", "dev.mncover")
    assert "dev.mncover: it lacks 30 of 30 texts" in lacking
    other = error_of(capsys, *choose, "--fit", "other.mncover")
    assert "other.mncover: it was run with another model" in other
    Path("plain.txt").write_text("\n".join(tiny.texts(5, seed=3)))
    unlabelled = error_of(capsys, *choose, "--fit", "plain.txt")
    assert "plain.txt: nothing in it has a label" in unlabelled
    field = error_of(capsys, *choose, "--fit", "dev.jsonl", "--label", "gold")
    assert "dev.jsonl, line 1: no field 'gold'" in field
    labelled_texts(Path("few.jsonl"), 6, 4)
    assert "at least 5 wrong" in error_of(capsys, *choose, "--fit", "few.jsonl")
    save_suite(suite_of(), Path("tests.jsonl"))
    tests = error_of(capsys, *choose, "--fit", "tests.jsonl")
    assert "tests.jsonl: run the test suite with `mncover run`" in tests
    made.run(made.model, "suite.jsonl", "bare.mncover", "--no-signatures")
    bare = error_of(capsys, "select", "bare.mncover", *choose[1:], "--by", "neighbours")
    assert "without --no-signatures" in bare
