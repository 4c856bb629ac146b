"""Texts that share a row with others have the states that they have alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st

from mncover import Coverage
from mncover.augment.judge import embedded
from mncover.augment.packing import PACKED, Packing, find_packing, groups_of, packs
from mncover.engine.engine import Engine
from mncover.engine.probe import find_taps
from mncover.engine.subject import MIN_TOKENS, Subject
from mncover.errors import ActivationError
from tests import tiny
from tests.masks.test_mncover import random_masks

MAX_LENGTH = 32
# Their positions or their attention cannot be told text by text, or see too near a window.
APART = ["bart_classifier", "deberta", "modernbert", "mpnet", "t5_encoder", "t5_generator"]
TOGETHER = sorted(set(tiny.BUILDERS) - set(APART))


def engine_for(model: Any, tokenizer: Any, **options: Any) -> Engine:
    cov = Coverage(model, tokenizer, bins=20, max_length=MAX_LENGTH, **options)
    return cov.calibrate(tiny.texts(40, seed=1, longest=28), cache=False).engine


def mixed() -> list[Any]:
    """Return texts of one word and of too many, pairs, and some twice."""
    texts = tiny.texts(50, seed=2, longest=36)
    return [*texts, *tiny.texts(20, seed=3, longest=9, pairs=True), *texts[:5]]


def packing_of(engine: Engine) -> Packing:
    packing = find_packing(engine.taps, MAX_LENGTH)
    assert packing is not None
    return packing


def seen(engine: Engine, packing: Packing | None, texts: list[Any]) -> list[tuple[bytes, bytes]]:
    """Return codes and mean of every text, to the last bit."""
    found = []
    for window, means in embedded(engine, packing, texts):
        for row, mean in enumerate(means):
            codes = b"".join(engine.codes(window, row, name).tobytes() for name in engine.criteria)
            found.append((codes, mean.tobytes()))
    return found


@pytest.mark.parametrize("architecture", TOGETHER)
@pytest.mark.parametrize("batch_size", [1, 5, 32])
def test_a_text_in_a_pack_has_bit_for_bit_the_states_that_it_has_alone(
    architecture: str, batch_size: int
) -> None:
    engine = engine_for(*tiny.make(architecture), batch_size=batch_size)
    packing = packing_of(engine)
    assert packing.reach == MAX_LENGTH
    together = seen(engine, packing, mixed())
    assert together == seen(engine, None, mixed())
    assert len(set(together)) > 50


@pytest.mark.parametrize("architecture", APART)
def test_models_whose_texts_cannot_be_packed_are_found_out(architecture: str) -> None:
    engine = engine_for(*tiny.make(architecture))
    assert find_packing(engine.taps, MAX_LENGTH) is None
    texts = tiny.texts(10, seed=2)
    assert [window.texts for window, _ in embedded(engine, None, texts)] == [texts]


def test_a_model_with_a_window_is_packed_as_far_as_the_window_reaches() -> None:
    config = hf.ModernBertConfig(
        **{**tiny._SIZES, "num_hidden_layers": 3},
        local_attention=34,
        global_attn_every_n_layers=3,
    )
    torch.manual_seed(0)
    model = tiny.wild(hf.ModernBertForSequenceClassification(config))
    engine = engine_for(model, tiny.tokenizer())
    packing = packing_of(engine)
    assert packing.reach == MAX_LENGTH // 2
    lengths = engine.subject.encode(mixed(), MAX_LENGTH).lengths
    assert min(lengths) < packing.reach < max(lengths)
    assert seen(engine, packing, mixed()) == seen(engine, None, mixed())


def test_what_masks_leave_out_of_a_pack_is_what_they_leave_out_of_a_batch() -> None:
    model, tokenizer = tiny.make("bert")
    engine = engine_for(model, tokenizer, masks=random_masks(tokenizer, 2))
    together = seen(engine, packing_of(engine), mixed())
    assert together == seen(engine, None, mixed())
    bare = engine_for(model, tokenizer)
    plain = seen(bare, packing_of(bare), mixed())
    assert all(one[0].startswith(other[0]) for one, other in zip(together, plain, strict=True))


def test_nothing_is_packed_where_several_threads_share_a_batch() -> None:
    model, tokenizer = tiny.make("llama")
    taps = find_taps(Subject(model, tokenizer))
    assert find_packing(taps, MAX_LENGTH) is not None
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    model.config.rope_parameters = {"rope_type": "dynamic", "rope_theta": 10000.0}
    assert find_packing(taps, MAX_LENGTH) is None
    torch.set_num_threads(before)


def test_a_pack_is_one_call_of_the_model() -> None:
    engine = engine_for(*tiny.make("bert"))
    calls: list[torch.Size] = []
    texts = tiny.texts(12, seed=5, longest=3)
    packing = packing_of(engine)  # before calls are counted
    handle = engine.subject.model.register_forward_hook(
        lambda module, args, kwargs, output: calls.append(kwargs["input_ids"].shape),
        with_kwargs=True,
    )
    workers = engine.subject.workers
    assert len(seen(engine, packing, texts)) == 12
    assert 1 <= len(calls) <= workers
    assert {shape[0] for shape in calls} == {1}
    calls.clear()
    seen(engine, None, texts)
    assert len(calls) == len(set(engine.subject.encode(texts, MAX_LENGTH).lengths.tolist()))
    handle.remove()


def test_the_text_with_a_nan_is_named_also_in_a_pack() -> None:
    model, tokenizer = tiny.make("bert")
    engine = engine_for(model, tokenizer)
    packing = packing_of(engine)
    with torch.no_grad():
        model.base_model.embeddings.word_embeddings.weight[tiny.VOCABULARY["awful"]] = torch.nan
    texts = ["the film", "a plot was slow", "an awful film", "good food and service !"]
    with pytest.raises(ActivationError, match='"an awful film"'):
        list(embedded(engine, packing, texts))
    assert model.config._attn_implementation != PACKED


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_attention_and_hooks_are_put_back_however_a_pack_ends(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_for(*tiny.make("bert"))
    packing = packing_of(engine)
    before = engine.subject.model.config._attn_implementation

    def fail(*args: Any) -> None:
        raise error("in the middle")

    monkeypatch.setattr(engine.kernels, "encode", fail)
    with pytest.raises(error):
        list(embedded(engine, packing, mixed()))
    assert engine.subject.model.config._attn_implementation == before
    assert not any(module._forward_hooks for module in engine.subject.model.modules())


@given(
    st.lists(st.integers(0, 128), max_size=80),
    st.integers(1, 40),
    st.integers(64, 600),
    st.integers(1, 8),
)
def test_packs_hold_every_text_with_tokens_once_the_longest_first(
    lengths: list[int], most_texts: int, most_tokens: int, n: int
) -> None:
    found = packs(lengths, most_texts, most_tokens, n)
    order = [row for rows in found for row in rows]
    assert sorted(order) == [row for row, length in enumerate(lengths) if length]
    assert [lengths[row] for row in order] == sorted(filter(None, lengths), reverse=True)
    for rows in found:
        assert 0 < len(rows) <= most_texts
        # cut at the middle of a text: half of one too many at either end
        most = max(most_tokens, 4 * MIN_TOKENS)  # few tokens are not cut
        assert sum(lengths[row] for row in rows) <= most + max(lengths)
        groups = groups_of(rows, lengths)
        assert [row for group in groups for row in group] == rows
        assert len(groups) == len({lengths[row] for row in rows})
        assert all(len({lengths[row] for row in group}) == 1 for group in groups)


def test_packs_are_as_many_as_run_at_a_time_but_not_for_a_handful_of_tokens() -> None:
    def sizes(lengths: list[int], n: int) -> list[int]:
        return [sum(lengths[row] for row in rows) for rows in packs(lengths, 32, 352, n)]

    assert sizes([20] * 10, 2) == [100, 100]
    assert sizes([20] * 10, 1) == [200]
    assert sizes([10] * 5, 2) == [50]
    assert sizes([22] * 64, 2) == [352] * 4
    assert sorted(sizes([25] * 64, 2)) == [250, 250, 275, 275, 275, 275]  # not five: two workers


def test_texts_of_no_tokens_have_a_mean_of_zeros() -> None:
    engine = engine_for(*tiny.make("llama"))
    ((window, means),) = embedded(engine, packing_of(engine), ["", "good film", ""])
    assert window.length(0) == 0
    assert not means[0].any()
    assert np.linalg.norm(means[1]) == pytest.approx(1.0)
