"""The pages about kinds of work, executed: every command and every block of Python on them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from mncover.cli import main
from mncover.cli.demo import HERE, demo_model
from tests import tiny

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^ *```(console|python)\n(.*?)^ *```$", re.M | re.S)


def sections(page: str) -> dict[str, str]:
    parts = re.split(r"^## (.*)$", (DOCS / page).read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def execute(text: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the blocks of a section in order; return what they printed, gates too."""
    names: dict[str, Any] = dict(places)
    blocks = BLOCK.findall(text)
    assert blocks
    capsys.readouterr()
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "page", "exec"), names)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line.strip().removeprefix("$ "))
            assert program == "mncover"
            assert main([places.get(word, word) for word in words]) == 0, line
    return "".join(capsys.readouterr())


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    suite, train = (str(HERE / name) for name in ("suite.jsonl", "calibration.txt"))
    return {"MODEL": str(demo_model()), "SUITE": suite, "TRAIN": train}


# What each kind of work leaves behind, and something that it prints.
DONE = {
    "Test a classifier in a build": (
        ["mncover.xml", "mncover-html/index.html"],
        "40 of 372 cases fail",
    ),
    "Explore in a notebook": (["notebook.mncover"], "Nobody could call this bad."),
    "Compare criteria": (["masks.safetensors", "both.json"], "mnCover"),
    "Decide whether to adopt it": (["smoke.jsonl", "trial.mncover"], "failures"),
}


@pytest.mark.parametrize("title", DONE)
def test_recipes_run_as_they_stand(
    title: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = execute(sections("recipes.md")[title], places, capsys)
    files, words = DONE[title]
    assert all(Path(name).is_file() for name in files)
    assert words in shown


def test_every_recipe_is_run_here() -> None:
    assert {*sections("recipes.md")} == {*DONE, "Test an LLM"}


SAID = {
    "Measure prompts": "by 30 texts",
    "Choices": "the choices good, bad",
    "From Python": "answers 2",
}


@pytest.mark.parametrize("title", SAID)
def test_the_page_about_llms_runs_as_it_stands(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    model, tokenizer = tiny.make("llama")
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    model.generation_config.pad_token_id = 0
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "llm")
    for seed, name in enumerate(("prompts.txt", "other.txt", "sample.txt")):
        Path(name).write_text("\n".join(tiny.texts(30, seed)) + "\n")
    rows = [{"text": text, "label": "bad"} for text in tiny.texts(30)]
    Path("labelled.jsonl").write_text("\n".join(map(json.dumps, rows)))
    shown = execute(sections("llm.md")[title], {"LLM": str(tmp_path / "llm")}, capsys)
    assert SAID[title] in shown
