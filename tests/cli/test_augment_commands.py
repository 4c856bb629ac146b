"""`mncover augment` and `mncover transform` from the command line, and the account they print."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mncover.augment.outcome import Yield, conclusion, suite_of, yield_of
from mncover.augment.recipes import make_suite
from mncover.augment.records import Accepted, Augmented
from mncover.cli import main
from mncover.selection.chance import wilson
from mncover.suites.formats.jsonlines import read_suite
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, write_material


def test_a_failure_is_a_text_that_gets_another_class_than_its_seed() -> None:
    accepted = [
        Accepted(0, "a", ("A",), 1.0, 0.1),
        Accepted(1, "b", ("A",), 1.0, 0.1),
        Accepted(2, "c", ("B", "A"), 1.0, 0.1),  # seed 0, the second time
    ]
    found = Augmented(4, accepted)
    found.tally.similar = 8
    one = yield_of("guided", found, [1, 0, 0], [1, 1])
    assert (one.failures, one.seeds, one.model_calls, one.per_thousand) == (2, 2, 8, 250.0)
    assert one.low < 250 < one.high
    suite = suite_of(accepted, ["x", "y"])
    assert [(t.name, t.kind, len(t.cases)) for t in suite.tests] == [
        ("A", "INV", 2),
        ("B", "INV", 1),
    ]
    assert suite["B"].cases[0].texts == ("x", "c")
    (test,) = suite_of([Accepted(0, "a", ("WordSwapQWERTY",), 1.0)], ["x"]).tests
    assert test.name == "Word Swap QWERTY"
    assert "WordSwapQWERTY" in test.description


def test_the_conclusion_follows_from_the_intervals() -> None:
    def found(failures: int) -> Yield:
        low, high = wilson(failures, 100)
        return Yield("", 100, 100, failures, failures, 10 * failures, 1000 * low, 1000 * high)

    assert "more failures than" in conclusion([found(60), found(10)])
    assert "fewer failures than" in conclusion([found(10), found(60)])
    assert "overlap" in conclusion([found(12), found(10)])


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return write_material(tmp_path)


def command(material: Material, output: str, *more: str) -> list[str]:
    plain = ["--transform", "RandomSwap", "--transform", "WordSwapQWERTY"]
    options = ["--train", str(material.train), "--max-length", "16", "--similarity", "0.3"]
    seeds = str(material.suite)
    return ["augment", str(material.model), seeds, "-o", output, *options, *plain, *more]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_augment_writes_texts_with_their_seeds_labels_and_an_account(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(material, "new.jsonl")) == 0
    printed = capsys.readouterr().out
    rows, seeds = rows_of(Path("new.jsonl")), rows_of(material.suite)
    assert rows
    for row in rows:
        assert row["label"] == seeds[row["seed"]]["label"]
        assert row["text"] != seeds[row["seed"]]["text"]
        assert set(row["transforms"]) <= {"RandomSwap", "WordSwapQWERTY"}
        assert row["similarity"] >= 0.3
        assert row["gain"] > 0
    report = json.loads(Path("new.jsonl.report.json").read_text())
    assert report["accepted"] == len(rows)
    assert f"{len(rows)} new texts from 30 seeds" in printed
    assert not Path("new.jsonl.partial").exists()


def test_seeds_can_be_written_too_in_their_own_fields_and_compressed(material: Material) -> None:
    pairs = Path("pairs.tsv")
    lines = [f"{a}\t{b}\t1" for a, b in tiny.texts(10, seed=2, pairs=True)]
    pairs.write_text("\n".join(["premise\thypothesis\tlabel", *lines]))
    arguments = command(material, "new.jsonl.gz", "--include-seeds", "--rounds", "2")
    arguments[2] = str(pairs)
    assert main(arguments) == 0
    with gzip.open("new.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert [f"{r['premise']}\t{r['hypothesis']}\t{r['label']}" for r in rows[:10]] == lines
    assert len(rows) > 20  # each seed was changed twice, or nearly
    assert {row["seed"] for row in rows[10:]} <= set(range(10))


def test_tests_are_a_suite_that_run_takes_and_failures_stand_beside_unguided_ones(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(material, "new.jsonl", "--target", "tests")) == 0
    printed = capsys.readouterr().out
    guided, unguided = json.loads(Path("new.jsonl.report.json").read_text())["failures"]
    assert guided["model_calls"] == unguided["model_calls"] > 0
    assert "unguided" in printed
    assert not Path("new.jsonl.partial").exists()
    suite = read_suite(Path("new.jsonl"))
    assert suite.cases == guided["texts"]
    run = ["run", str(material.model), "new.jsonl", "--train", str(material.train)]
    assert main([*run, "--max-length", "16"]) == 0
    assert main(["json", "run.mncover", "-o", "run.json"]) == 0
    tests = json.loads(Path("run.json").read_text())["tests"]
    assert sum(test["failing"] for test in tests) == guided["failures"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--guide", "mncover"], "masks"),
        (["--guide", "x"], "guide must be"),
        (["--target", "x"], "--target"),
        (["--target", "tests", "--include-seeds"], "include-seeds"),
        (["--transform", "Nothing"], "Nothing"),
        (["-o", "new.csv"], "name it .jsonl"),
        (["--similarity", "2"], "--similarity"),
        (["--similarity", "1", "--max-iter", "1"], "no text was accepted"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    material: Material, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert words in error_of(capsys, *command(material, "new.jsonl", *more))
    assert not Path("new.jsonl").exists()


def test_transform_lists_and_tries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", "list"]) == 0
    assert "WordSwapQWERTY" in capsys.readouterr().out
    assert main(["transform", "WordSwapExtend", "It isn't bad."]) == 0
    assert capsys.readouterr().out == "It is not bad.\n"
    assert main(["transform", "WordSwapExtend", "Fine.", "--pair", "It isn't bad."]) == 0
    assert capsys.readouterr().out == "Fine.\tIt is not bad.\n"
    assert main(["transform", "WordSwapExtend", "Fine."]) == 0
    assert "nothing to change" in capsys.readouterr().err
    assert main(["transform", "WordSwapExtend"]) == 1
    assert "give a text" in capsys.readouterr().err


def test_a_recipe_makes_a_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe, output = tmp_path / "recipe.toml", tmp_path / "suite.jsonl"
    recipe.write_text("[[tests]]\nname = 'typos'\ntexts = ['Fine.', 'Good!']\nperturb = ['typos']")
    assert main(["suite", "make", str(recipe), "-o", str(output)]) == 0
    assert "1 test" in capsys.readouterr().out
    assert read_suite(output) == make_suite(recipe)
    recipe.write_text("not toml")
    assert "cannot be read" in error_of(capsys, "suite", "make", str(recipe), "-o", "x.jsonl")
    assert "cannot be read" in error_of(capsys, "suite", "make", "gone.toml", "-o", "x.jsonl")


def test_a_search_draws_from_what_is_named(material: Material) -> None:
    seeds = ["augment", str(material.model), str(material.suite), "-o", "new.jsonl"]
    options = ["--train", str(material.train), "--max-length", "16", "--similarity", "0"]
    assert main([*seeds, *options, "--transform", "typos"]) == 0
    assert {name for row in rows_of(Path("new.jsonl")) for name in row["transforms"]} == {"typos"}
