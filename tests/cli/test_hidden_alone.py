"""Commands on models without attention weights, or with them in some layers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mncover.cli import main
from tests import tiny
from tests.architectures import make

ALONE = "MambaForCausalLM is measured on hidden states alone: it returns no attention weights."


def saved(name: str, folder: Path) -> list[str]:
    """Write a model and texts; return the arguments of a run."""
    for part in make(name):
        part.save_pretrained(folder / name)
    (folder / "train.txt").write_text("\n".join(tiny.texts(30, 1)))
    (folder / "suite.txt").write_text("\n".join(tiny.texts(10, 2)))
    texts = [str(folder / "suite.txt"), "--train", str(folder / "train.txt")]
    return [str(folder / name), *texts, "--max-length", "16", "-o", str(folder / "run.mncover")]


def test_a_model_without_attention_is_run_and_reported_and_this_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = saved("mamba", tmp_path)
    capsys.readouterr()
    assert main(["run", *arguments]) == 0
    found = capsys.readouterr()
    assert found.err.count(ALONE) == 1
    assert found.out.count("Hidden states alone: no attention was measured") == 1
    data = arguments[-1]
    assert main(["report", data, "--heads"]) == 0
    assert "Attention heads" not in capsys.readouterr().out
    assert main(["html", data, "-o", str(tmp_path / "html")]) == 0
    page = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    assert "Words, by layer" in page
    assert "Attention, by layer" not in page


def test_nothing_is_said_if_nothing_is_to_be_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = saved("mamba", tmp_path)
    capsys.readouterr()
    assert main(["run", *arguments, "--quiet"]) == 0
    assert "alone" not in capsys.readouterr().err
    assert main(["run", *saved("llama", tmp_path)]) == 0
    found = capsys.readouterr()
    assert "hidden states alone" not in (found.out + found.err).lower()


def test_debug_says_why_attention_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, *_ = saved("mamba", tmp_path)
    assert main(["debug", "model", model, "--max-length", "16"]) == 0
    assert "not read: it returns no attention weights" in capsys.readouterr().out


def test_the_layers_of_a_hybrid_that_have_attention_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, *_ = saved("jamba", tmp_path)
    assert main(["debug", "model", model, "--max-length", "16"]) == 0
    shown = capsys.readouterr().out
    assert "attention.2 [4, 16, 16]" in shown
    assert "attention.1" not in shown
