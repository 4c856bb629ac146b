"""Language models at the command line: choices are classes in every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.engine.loading import quiet_loading
from tests import causal, tiny
from tests.cli.test_commands import error_of
from tests.folders import Material

ASKED = ["--max-length", "30", "--template", r"it was {text} .\n so it is", "--choices"]


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    """A tiny causal language model, a file of labelled texts, and training texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    model, tokenizer = causal.make("llama")
    with quiet_loading():
        model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    rows = [
        {"text": text, "label": ["very good", "bad"][i % 2], "context": "ab"[i % 2]}
        for i, text in enumerate(tiny.texts(30, seed=8))
    ]
    Path("suite.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("train.txt").write_text("\n".join(tiny.texts(20, seed=9)))
    return Material(tmp_path, Path("model"), Path("suite.jsonl"), Path("train.txt"))


def run(material: Material, *more: str) -> list[str]:
    model, suite, train = map(str, (material.model, material.suite, material.train))
    return ["run", model, suite, "--train", train, *more]


def test_choices_are_classes_from_run_to_next(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(run(material, *ASKED, "very good,bad", "--context", "context")) == 0
    assert "by the choices very good, bad" in capsys.readouterr().out
    cov = Coverage.load("run.mncover")
    assert cov.data.identity.labels == ("very good", "bad")
    table = cov.data.table
    wrong = int((table["label"] != table["prediction"]).sum())
    assert 0 < wrong < 30
    assert main(["report", "run.mncover", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(context["failing"] for context in found["contexts"]) == wrong
    assert found["prompting"]["choices"] == ["very good", "bad"]
    for command in (
        ["report", "run.mncover", "--failures", "3"],
        ["report", "run.mncover", "--format", "junit"],
        ["html", "run.mncover", "-o", "pages"],
        ["select", "run.mncover", "--by", "entropy", "--budget", "20%", "-o", "few.jsonl"],
        ["next", "run.mncover", "-n", "5", "--judge"],
        ["found", "run.mncover"],
        ["debug", "data", "run.mncover"],
    ):
        assert main(command) == 0, command
    assert "very good" in capsys.readouterr().out


def test_settings_in_pyproject_hold_for_the_command_line(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['choices = "very good,bad"', 'template = "{text} ,"', "chat = true"]
    Path("pyproject.toml").write_text("\n".join(["[tool.mncover]", *lines, "max_length = 30"]))
    assert main(run(material, "-q", "--normalise", "length")) == 0
    prompting = Coverage.load("run.mncover").data.identity.prompting
    assert (prompting.chat, prompting.normalise) == (True, "length")
    model, suite, train = map(str, (material.model, material.suite, material.train))
    again = ["compare", model, suite, train, "--train", train, "--draws", "2", "-q"]
    assert main(again) == 0
    Path("pyproject.toml").write_text('[tool.mncover]\nchat = "yes"')
    assert error_of(capsys, *run(material)).endswith("'chat' must be true or false, got 'yes'.")


def test_files_of_other_choices_are_not_combined(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(run(material, "-q", *ASKED, "very good,bad", "-o", "one.mncover")) == 0
    assert main(run(material, "-q", *ASKED, "very good,not good", "--no-label")) == 0
    one, other = (Coverage.load(name).data for name in ("one.mncover", "run.mncover"))
    np.testing.assert_array_equal(one.total(), other.total())  # the inside is that of the prompts
    said = error_of(capsys, "combine", "one.mncover", "run.mncover", "-o", "both.mncover")
    assert "they differ in" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--choices", "good,"], "a choice is empty"),
        (["--choices", "good,bad", "--template", "so"], "has no {text}"),
        (["--normalise", "length"], "`normalise` is for `choices`"),
    ],
)
def test_mistakes_are_one_line(
    material: Material, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert says in error_of(capsys, *run(material, *options))
