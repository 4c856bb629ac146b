"""Attention computed together with its bins: as the model's own, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from mncover.coverage import Coverage
from mncover.engine.kernels import KERNELS
from mncover.engine.kernels.base import Block, Bounds
from mncover.errors import ActivationError
from tests import tiny

pytestmark = pytest.mark.skipif(
    not KERNELS["triton"].fits(torch.device("cpu")), reason="Triton is not installed"
)
COVERED = ("bert", "distilbert", "albert", "gpt2", "llama")
CONTEXTS = ["a", "a", "b", "a", "b", "c", "c", "c"]


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Triton's interpreter runs one program at a time, however many there are."""
    monkeypatch.setattr("mncover.engine.kernels.gpu.READERS", 4)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def texts(n: int = 8) -> list[Any]:
    return tiny.texts(n, seed=3, longest=14)


def covered(model: Any, tokenizer: Any, kernels: str, **more: Any) -> Coverage:
    cov = Coverage(model, tokenizer, max_length=20, kernels=kernels, progress=False, **more)
    return cov.calibrate(texts(6), cache=False)


def maps_of(cov: Coverage) -> list[Any]:
    return [cov.data.map_of(name, "cover") for name in cov.data.contexts]


def ranges_of(cov: Coverage) -> tuple[Any, Any]:
    ranges = cov.engine.require_ranges()
    return ranges.low, ranges.high


def assert_close(one: Coverage, other: Coverage, tolerance: float = 2e-5) -> None:
    for mine, theirs in zip(ranges_of(one), ranges_of(other), strict=True):
        known = np.isfinite(mine)
        np.testing.assert_array_equal(known, np.isfinite(theirs))
        np.testing.assert_allclose(mine[known], theirs[known], atol=tolerance)


@pytest.mark.parametrize("name", COVERED)
def test_fused_attention_gives_the_values_of_the_models_own(name: str) -> None:
    model, tokenizer = tiny.make(name)
    fused, eager = (covered(model, tokenizer, kernels) for kernels in ("triton", "torch"))
    assert fused.engine.taps.fused
    assert not eager.engine.taps.fused
    assert_close(fused, eager)
    for one in (fused, eager):
        one.update(texts())
    found, expected = (one.data.table.probabilities for one in (fused, eager))
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("name", ["bert", "qwen3"])
def test_whatever_is_measured_with_fused_attention_agrees_with_itself(name: str) -> None:
    model, tokenizer = tiny.make(name)
    mine, contexts = texts(5), ["a", "a", "b", "c", "c"]
    cov = covered(model, tokenizer, "triton")
    cov.update(mine, context=contexts, gains=True)
    plain = Coverage(model, tokenizer, max_length=20, kernels="triton", progress=False)
    plain.engine.use_ranges(cov.engine.require_ranges())
    plain.update(mine, context=contexts)
    assert cov.data.contexts == plain.data.contexts
    for one, other in zip(maps_of(cov), maps_of(plain), strict=True):
        np.testing.assert_array_equal(one, other)
    # By codes, as one text after the other adds to the first ones.
    gains = cov.engine.gain("cover", *cov.data.table.new["cover"])
    assert cov.gain(mine).tolist() == [0] * 5
    walked = cov.filter([mine[:3], *([text] for text in mine[3:])], threshold=1e-9)
    np.testing.assert_allclose(walked.gains, [gains[:3].sum(), *gains[3:]], rtol=1e-12)


@pytest.mark.parametrize("threshold", [0.0, 1e-3])
def test_filters_agree_with_the_compiled_loops_of_the_cpu(threshold: float) -> None:
    model, tokenizer = tiny.make("bert")
    cases = [[text] for text in texts(6)] + [texts(8)[5:], texts(2)]
    found = [
        covered(model, tokenizer, kernels).filter(cases, threshold) for kernels in ("triton", "cpu")
    ]
    assert found[0].kept == found[1].kept
    np.testing.assert_allclose(found[0].gains, found[1].gains, atol=2e-3)


def bloom() -> Any:
    config = transformers.BloomConfig(vocab_size=40, hidden_size=16, n_layer=2, n_head=2)
    return transformers.BloomModel(config)


SIZES = {
    "vocab_size": 40,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def gemma2() -> Any:
    config = transformers.Gemma2Config(**SIZES, head_dim=8, attn_logit_softcapping=1.0)
    return transformers.Gemma2Model(config)


def mistral() -> Any:
    return transformers.MistralModel(transformers.MistralConfig(**SIZES, sliding_window=5))


NOT_COVERED = {
    "alibi": (bloom, "outputs"),
    "soft cap": (gemma2, "softcap"),
    "sliding window": (mistral, "a window of 5 tokens"),
    "mpnet": (tiny.mpnet, "outputs"),
    "deberta": (tiny.deberta, "outputs"),
    "local attention": (tiny.modernbert, "a window of"),
    "position bias": (tiny.t5_encoder, "position_bias"),
}


@pytest.mark.parametrize("name", NOT_COVERED)
def test_what_is_not_covered_falls_back_says_why_and_is_right(name: str) -> None:
    make, why = NOT_COVERED[name]
    torch.manual_seed(0)
    model, tokenizer = make().eval(), tiny.tokenizer()
    found, expected = (covered(model, tokenizer, kernels) for kernels in ("triton", "torch"))
    assert not found.engine.taps.fused
    assert why in found.engine.taps.eager_because
    for mine, theirs in zip(ranges_of(found), ranges_of(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    for one in (found, expected):
        one.update(texts(), context=CONTEXTS, gains=True)
    for mine, theirs in zip(maps_of(found), maps_of(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    new, theirs = (one.data.table.new["cover"] for one in (found, expected))
    np.testing.assert_array_equal(new, theirs)


def test_more_bins_than_bits_are_counted_by_torch_operations() -> None:
    model, tokenizer = tiny.make("bert")
    found, expected = (covered(model, tokenizer, k, bins=70) for k in ("triton", "torch"))
    assert not found.engine.taps.fused
    for one in (found, expected):
        one.update(texts(), gains=True)
    np.testing.assert_array_equal(maps_of(found)[0], maps_of(expected)[0])


def test_a_model_in_double_precision_is_measured_with_its_own_attention() -> None:
    model, tokenizer = tiny.make("bert")
    found, expected = (covered(model.double(), tokenizer, k) for k in ("triton", "torch"))
    assert "float64" in found.engine.taps.eager_because
    for mine, theirs in zip(ranges_of(found), ranges_of(expected), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("kernels", ["triton", "torch"])
def test_what_a_call_that_failed_has_left_is_not_told_to_the_next(kernels: str) -> None:
    cov = covered(*tiny.make("bert"), kernels)
    engine, site = cov.engine, cov.engine.layout.sites[0]
    values = torch.full((1, 1, site.touched(4)), float("nan"))
    block = Block(site, 4, values, torch.zeros(1, dtype=torch.int32))
    engine.kernels.widen(block, Bounds(*(one.clone() for one in engine.setups.bounds)))
    cov.update(texts())
    assert len(cov.data.table) == len(texts())


@pytest.mark.parametrize("gains", [False, True])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_value_that_is_not_finite_is_an_error_that_names_layer_and_text(
    layer: int, gains: bool
) -> None:
    model, tokenizer = tiny.make("bert")
    cov = covered(model, tokenizer, "triton")
    word = tiny.WORDS[7]
    mine = [text for text in texts(30) if word not in text.split()][:5]
    row = model.bert.embeddings.word_embeddings.weight
    if layer == 0:
        row.data[tiny.VOCABULARY[word]] = float("nan")
        site = "hidden.0"
    else:
        model.bert.encoder.layer[0].attention.self.query.weight.data[:] = float("inf")
        site = "attention.1"
    odd = f"{mine[0]} {word}" if layer == 0 else mine[0]
    given = [*mine[1:3], odd, *mine[3:]] if layer == 0 else [odd]
    with pytest.raises(ActivationError, match=f'in {site} for the text "{odd[:20]}'):
        cov.update(given, gains=gains)
    assert not len(cov.data.table)


@pytest.mark.parametrize(("length", "chip"), [(16, 80), (64, 90), (128, 80), (300, 90)])
def test_the_programs_compile_for_a_gpu(length: int, chip: int) -> None:
    """There need not be one; Triton brings its compiler along."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "PYTHONPATH": "src"}
    command = [sys.executable, "-m", "tests.engine.compile_programs", str(length), str(chip)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    shared = [int(line.split()[-2]) for line in done.stdout.splitlines()]
    assert len(shared) == 6
    assert max(shared) <= 160 * 1024  # what an A100 has for a program
    assert length > 128 or "waits" not in done.stdout  # states are loaded ahead, in whole words
