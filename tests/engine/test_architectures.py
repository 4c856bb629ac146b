"""Every architecture: sites are Hugging Face's own, and counts equal the slow implementation's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

from mncover.coverage import Coverage
from mncover.engine.probe import find_taps
from mncover.engine.subject import Subject
from mncover.errors import ModelError
from tests import tiny
from tests.architectures import (
    LEFT_OUT,
    NOT_CAUSAL,
    PAGE,
    REFUSED,
    TABLE,
    make,
    page_table,
    page_with_table,
)
from tests.slow import SlowCover, count, states

ALL = sorted(tiny.BUILDERS)
PROMISED = """
    bart big_bird bloom convbert deberta-v2 falcon flaubert funnel gemma2 gemma3 gpt_neox gptj
    longformer mamba mistral mixtral mobilebert modernbert nystromformer phi3 qwen2 qwen3 rembert
    roformer squeezebert t5 xlnet
"""


def assert_equals_slow(name: str, bins: int, max_length: int, pairs: bool, n: int = 12) -> None:
    assert_model_equals_slow(*tiny.make(name), None, bins, max_length, pairs, n)


def assert_model_equals_slow(
    model: Any,
    tokenizer: Any,
    layers: tuple[int, ...] | None,
    bins: int = 10,
    max_length: int = 16,
    pairs: bool = False,
    n: int = 6,
) -> None:
    train, tests = tiny.texts(n, 1, pairs=pairs), tiny.texts(n, 2, pairs=pairs)
    tests += train[:2]  # values on the very edge of their range
    cov = Coverage(model, tokenizer, bins=bins, max_length=max_length)
    result = cov.calibrate(train, cache=False).update(tests).result()
    slow = SlowCover(model, tokenizer, bins, max_length, layers)
    slow.calibrate(train)
    hits = slow.union(tests)
    assert result.word.covered == count(hits, "hidden") > 0
    assert result.attention.covered == count(hits, "attention")
    assert (result.attention.covered > 0) == (layers != ())
    assert result.word.reachable == slow.reachable("hidden")
    assert result.attention.reachable == slow.reachable("attention")
    for site in result.sites:
        assert site.count.covered == count(hits, site.kind, site.layer)
        for head, found in enumerate(site.heads):
            assert found.covered == count(hits, site.kind, site.layer, head)


@pytest.mark.parametrize("name", ALL)
def test_covered_bins_equal_the_slow_implementation(name: str) -> None:
    assert_equals_slow(name, bins=10, max_length=16, pairs=False)


@pytest.mark.parametrize("name", [n for n in ALL if n not in tiny.DECODERS])
def test_covered_bins_of_pairs_equal_the_slow_implementation(name: str) -> None:
    assert_equals_slow(name, bins=7, max_length=20, pairs=True)


@pytest.mark.parametrize("bins", [2, 16, 17, 32, 33, 64, 65, 255, 256, 1000])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_covered_bins_equal_the_slow_implementation_for_any_number_of_bins(
    name: str, bins: int
) -> None:
    assert_equals_slow(name, bins=bins, max_length=12, pairs=False, n=6)


@pytest.mark.parametrize("max_length", [3, 5, 40])
@pytest.mark.parametrize("name", ["bert", "llama", "t5_encoder"])
def test_covered_bins_equal_the_slow_implementation_for_any_length(
    name: str, max_length: int
) -> None:
    assert_equals_slow(name, bins=10, max_length=max_length, pairs=False, n=6)


@pytest.mark.parametrize("name", ALL)
def test_taps_see_exactly_hugging_faces_own_states(name: str) -> None:
    model, tokenizer = tiny.make(name)
    subject = Subject(model, tokenizer)
    taps = find_taps(subject)
    text = "the film was not very good , but i liked it !"
    seen: dict[tuple[str, int], torch.Tensor] = {}
    inputs = subject.inputs(subject.encode([text], 64))
    with taps.open() as forward:
        forward(inputs, lambda kind, layer, v: seen.update({(kind, layer): v[0].float()}))
    hidden, attention, causal = states(model, tokenizer, text, 64)
    assert taps.causal == causal == (name in tiny.DECODERS)
    assert len(seen) == len(hidden) + len(attention)
    for layer, values in enumerate(hidden):
        torch.testing.assert_close(seen["hidden", layer], values, rtol=0, atol=1e-6)
    for layer, values in attention.items():
        torch.testing.assert_close(seen["attention", layer], values, rtol=0, atol=1e-6)


def test_most_architectures_are_read_by_hooks_and_not_by_their_outputs() -> None:
    ways = {name: find_taps(Subject(*tiny.make(name))).way for name in ALL}
    by_outputs = {name for name, way in ways.items() if way == "outputs"}
    assert by_outputs == {"mpnet", "deberta"}  # they declare nothing


@pytest.mark.parametrize("name", ALL)
def test_outputs_are_bit_equal_with_and_without_taps(name: str) -> None:
    model, tokenizer = tiny.make(name)
    subject = Subject(model, tokenizer)
    taps = find_taps(subject)
    inputs = subject.inputs(subject.encode(["the plot was slow ."], 64))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        plain = subject.call(subject.runner, inputs)
    with taps.open() as forward:
        tapped = forward(inputs, lambda kind, layer, values: None)
    for key in set(plain) & {"logits", "last_hidden_state", "pooler_output"}:
        assert torch.equal(plain[key], tapped[key])
    assert "logits" in plain or "last_hidden_state" in plain


@pytest.mark.parametrize("name", ALL)
def test_a_model_is_left_as_it_was_found(name: str) -> None:
    model, tokenizer = tiny.make(name)
    before = fingerprint(model)
    model.train()
    cov = Coverage(model, tokenizer, max_length=16)
    cov.calibrate(tiny.texts(3), cache=False).update(tiny.texts(3))
    assert model.training
    model.eval()
    assert fingerprint(model) == before


def fingerprint(model: Any) -> list[object]:
    hooks = [
        (name, len(m._forward_hooks), len(m._forward_pre_hooks), m.training)
        for name, m in model.named_modules()
    ]
    marks = [k for m in model.modules() for k in m.__dict__ if "hooks_installed" in k]
    return [hooks, marks, model.config._attn_implementation]


@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_no_hook_survives_an_exception_in_a_reader(name: str) -> None:
    model, tokenizer = tiny.make(name)
    subject = Subject(model, tokenizer)
    taps = find_taps(subject)
    before = fingerprint(model)

    def fail(*args: object) -> None:
        raise RuntimeError("reader broke")

    with pytest.raises(RuntimeError, match="reader broke"), taps.open() as forward:
        forward(subject.inputs(subject.encode(["good"], 64)), fail)
    assert fingerprint(model) == before


def test_no_hook_survives_an_exception_in_the_model() -> None:
    model, tokenizer = tiny.make("bert")
    subject = Subject(model, tokenizer)
    taps = find_taps(subject)
    before = fingerprint(model)
    with pytest.raises(IndexError), taps.open() as forward:
        forward({"input_ids": torch.tensor([[10**6]])}, lambda *a: None)
    assert fingerprint(model) == before


@pytest.mark.parametrize("name", sorted(TABLE))
def test_an_architecture_is_measured_as_the_table_says(name: str) -> None:
    row = TABLE[name]
    model, tokenizer = make(name, row.causal)
    if row.refused:
        with pytest.raises(ModelError, match=re.escape(row.because)) as refusal:
            Coverage(model, tokenizer, max_length=16)
        assert "\n" not in str(refusal.value)
        return
    taps = find_taps(Subject(model, tokenizer))
    assert taps.causal == row.causal
    assert row.because in taps.note
    assert bool(row.because) == bool(taps.note)
    sites = taps.layout(16).sites
    assert tuple(site.layer for site in sites if site.kind == "attention") == row.layers
    assert_model_equals_slow(model, tokenizer, row.layers)


def test_the_table_has_every_architecture_that_was_promised() -> None:
    assert set(PROMISED.split()) <= TABLE.keys()


def test_the_page_has_the_table() -> None:
    written = PAGE.read_text(encoding="utf-8")
    assert written == page_with_table(), "python -m tests.architectures --write"
    assert page_table() in written
    for name in {*LEFT_OUT, *NOT_CAUSAL, *REFUSED}:
        assert re.search(rf"^\|.*\b{name}\b", written, re.M), name


def test_something_that_is_no_model_is_refused() -> None:
    with pytest.raises(ModelError, match="must be a Hugging Face model"):
        Coverage(object(), tiny.tokenizer())
    with pytest.raises(ModelError, match="tokenizer"):
        Coverage(tiny.make("bert")[0])
