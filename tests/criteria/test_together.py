"""Several criteria in one run: merging, files, choices, curves, masks, every report."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.criteria import CRITERIA
from mncover.data.store import CoverageData
from mncover.errors import MismatchError
from tests import tiny
from tests.engine.test_laws import POOL, TRAIN, slowly, some_texts
from tests.folders import Material, write_material
from tests.masks.test_mncover import random_masks, slow_masks, tokens
from tests.slow import count
from tests.slow_criteria import SlowCriteria

NAMES = [name for name in CRITERIA if name != "mncover"]
POSITIONS = pytest.mark.parametrize("positions", ["each", "any", "mean"])


@lru_cache(maxsize=6)
def engine_of(positions: str, kernels: str = "cpu") -> Any:
    options: Any = {"max_length": 10, "positions": positions, "kernels": kernels}
    cov = Coverage(*tiny.make("bert"), criteria=NAMES, **options)
    return cov.calibrate(TRAIN, cache=False, yardstick=False)._engine


def fresh(positions: str, kernels: str = "cpu") -> Coverage:
    engine = engine_of(positions, kernels)
    return Coverage._of(CoverageData(engine.identity()), engine)


def assert_same_maps(one: Coverage, other: Coverage) -> None:
    for name in NAMES:
        np.testing.assert_array_equal(one.data.total(name), other.data.total(name))


@POSITIONS
@slowly
@given(texts=some_texts, cut=st.integers(0, 12))
def test_measuring_in_parts_and_merging_is_measuring_at_once(
    positions: str, texts: list[str], cut: int
) -> None:
    whole = fresh(positions).update(texts)
    a, b = fresh(positions).update(texts[:cut], "a"), fresh(positions).update(texts[cut:], "b")
    assert_same_maps(whole, a | b)
    assert_same_maps(a | b, b | a)
    assert_same_maps(a | a, a)


@POSITIONS
@pytest.mark.parametrize("kernels", ["cpu", "torch"])
def test_gains_sum_to_totals(positions: str, kernels: str) -> None:
    cov = fresh(positions, kernels).update(POOL, ["a", "b", "c"] * 15, gains=True)
    for name in NAMES:
        tally = cov.result().criteria[name].tally
        new = cov.data.table.new[name].sum(axis=1).tolist()
        assert new == [tally.word.covered, tally.attention.covered]
        adds = sum(context.by[name].adds for context in cov.result().contexts)
        assert adds == pytest.approx(tally.share)


@POSITIONS
def test_a_file_gives_everything_back(positions: str, tmp_path: Path) -> None:
    cov = fresh(positions).update(POOL, ["a", "b", "c"] * 15, gains=True)
    cov.save(tmp_path / "x.mncover")
    again = Coverage.load(tmp_path / "x.mncover")
    assert again.result() == cov.result()
    assert again.data.identity == cov.data.identity
    assert_same_maps(cov, again)
    other = fresh("each" if positions == "mean" else "mean").update(POOL[:3])
    with pytest.raises(MismatchError, match=r"ranges|positions"):
        _ = again | other


@POSITIONS
def test_curves_end_at_what_all_texts_cover(positions: str) -> None:
    cov = fresh(positions)
    curves = {c.criterion: c for c in cov.curve("x", POOL, thresholds=())}
    result = fresh(positions).update(POOL).result()
    assert list(curves) == NAMES
    for name, curve in curves.items():
        assert curve.share == pytest.approx(result.share(name))


@pytest.mark.parametrize("positions", ["any", "mean"])
@pytest.mark.parametrize("kernels", ["cpu", "torch"])
def test_masks_leave_tokens_out_of_what_is_shared(positions: str, kernels: str) -> None:
    model, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 3)
    options: Any = {"max_length": 9, "positions": positions, "kernels": kernels}
    cov = Coverage(model, tokenizer, masks=masks, **options).calibrate(TRAIN[:9], cache=False)
    texts = POOL[:8]
    gains = cov.gain(texts, "mncover")
    cov.update(texts, gains=True)
    slow, rule = SlowCriteria(model, tokenizer, 10, 9, positions), slow_masks(masks)
    slow.calibrate(TRAIN[:9])
    plain = [slow.hits("cover", text) for text in texts]
    every = slow.tokens

    def kept(text: Any) -> Any:
        """Leave out the tokens that do not count, and their rows of attention."""
        keep = [rule.word(one) for one in tokens(tokenizer, text, 9)]
        hidden, attention = every(text)
        hidden = [[state for state, k in zip(h, keep, strict=True) if k] for h in hidden]
        rows = [[i for i, k in enumerate(keep) if k]] * len(attention)
        return hidden, [
            [[[*row, float(i)] for i, row in enumerate(head) if i in mine] for head in heads]
            for heads, mine in zip(attention, rows, strict=True)
        ]

    slow.tokens = kept  # type: ignore[method-assign]
    slow.row_has_its_number = True
    masked = [slow.hits("cover", text) for text in texts]
    assert masked != plain
    for name, hits in (("cover", plain), ("mncover", masked)):
        tally = cov.result().criteria[name].tally
        whole = set().union(*hits)
        assert tally.word.covered == count(whole, "hidden")
        assert tally.attention.covered == count(whole, "attention")
    total = tally.word.total + tally.attention.total
    np.testing.assert_allclose(gains, [len(mine) / total for mine in masked])


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return write_material(tmp_path)


def test_every_report_shows_every_criterion(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(material.run("-q", "--criteria", ",".join(NAMES), "--positions", "mean")) == 0
    result = Coverage.load("run.mncover").result()
    shares = {name: f"{100 * result.share_of_reachable(name):.2f}" for name in NAMES}
    assert main(["report"]) == 0
    shown = capsys.readouterr().out
    assert "mean over positions" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert main(["report", "--format", "markdown"]) == 0
    markdown = capsys.readouterr().out
    for name, share in shares.items():
        assert f"{CRITERIA[name].title} {share} %" in shown
        assert f"**{CRITERIA[name].title} {share} %**" in markdown
    assert main(["json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["settings"]["positions"] == "mean"
    assert list(content["totals"]["criteria"]) == NAMES
    assert [list(site["criteria"]) for site in content["sites"]] == [NAMES] * 3 + [["cover"]] * 2
    assert main(["html", "-o", "pages"]) == 0
    page = Path("pages/index.html").read_text()
    assert all(CRITERIA[name].title in page for name in NAMES)
    assert main(["report", "--format", "junit"]) == 0
    capsys.readouterr()
    assert main(["report", "--format", "junit"]) == 0
    ElementTree.fromstring(capsys.readouterr().out)
    assert main(["report", "--missing"]) == 0
    assert main(["report", "--metric", "tknc", "--fail-under", "99.9"]) == 2
    assert "TKNC" in capsys.readouterr().err
    assert main(["report", "--metric", "nc:0.25", "--fail-under", "1"]) == 1
    assert (
        main(["select", "--by", "gain", "--metric", "mdsc", "--budget", "5", "-o", "s.jsonl"]) == 0
    )
    assert main(["combine", "run.mncover", "run.mncover", "-o", "both.mncover"]) == 0
    assert Coverage.load("both.mncover").result().criteria == result.criteria


def test_hidden_states_alone_leave_the_model_its_attention(material: Material) -> None:
    cov = Coverage(str(material.model), max_length=12, sites="hidden", positions="mean")
    seen = []
    kept = cov.engine.subject.model.bert.encoder.layer[0].register_forward_hook(
        lambda *_: seen.append(cov.engine.subject.model.config._attn_implementation)
    )
    cov.calibrate(TRAIN, cache=False).update(POOL)
    kept.remove()
    assert set(seen) == {"sdpa"}
    result = cov.result()
    assert {site.kind for site in result.sites} == {"hidden"}
    assert result.attention.total == 0
    assert main(material.run("--sites", "hidden", "--criteria", "cover,snac,tknc")) == 0
    assert main(["report", "--heads"]) == 0
    assert main(["html", "-o", "pages"]) == 0
    assert main(["report", "--missing"]) == 0


def test_criteria_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["criteria"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name} " in shown for name in CRITERIA)
    assert main(["criteria", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(CRITERIA)
    assert listed["tknc"]["number"]["default"] == 3
    assert listed["cover"]["number"] is None
    assert "DeepXplore" in listed["nc"]["source"]


@pytest.mark.parametrize("sites", ["hidden", "all"])
def test_the_length_of_a_text_takes_no_memory_of_its_square(sites: str) -> None:
    """A text of 8,192 tokens: its weights alone would take 2 GB for eight heads."""
    config = hf.LlamaConfig(
        vocab_size=len(tiny.VOCABULARY),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=8192,
    )
    torch.manual_seed(0)
    tokenizer = tiny.tokenizer(special_tokens=False)
    tokenizer.model_max_length = 8192
    long = " ".join(tiny.WORDS * 250)
    cov = Coverage(
        *(hf.LlamaForCausalLM(config), tokenizer),
        max_length=8192,
        positions="any",
        sites=sites,
        criteria=["cover", "tknc", "nbc"],
    )
    assert cov.engine.taps.fused is (sites == "all")
    assert cov.engine.setups.room.memory < 2**20
    before = _peak()
    cov.calibrate([*TRAIN, long], cache=False, yardstick=False).update([long], gains=True)
    assert int(cov.data.table["length"].max()) == 8192
    assert cov.result().cover > 0.3
    assert _peak() - before < 600e6


def _peak() -> float:
    import resource

    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
