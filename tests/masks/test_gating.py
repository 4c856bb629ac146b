"""Attention between chosen words: against a slow definition, by hand, and a planted pair found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from mncover.engine.batches import batches_by_length
from mncover.engine.gating import _Gated, gated_attention, gating
from mncover.engine.masking import MaskTable, PairTable
from mncover.engine.subject import Subject
from mncover.errors import MaskError
from mncover.masks.cut import FIRST, RAMP, cut_at, exact_cut, share_at
from mncover.masks.learning import learn_masks
from mncover.masks.masks import Masks
from mncover.masks.paid import attention_paid
from mncover.masks.settings import LearningSettings
from mncover.masks.wimask import fidelity_on, predict
from tests import tiny
from tests.masks.test_learning import QUICK, subject_of
from tests.masks.test_mncover import V, random_masks

ARCHITECTURES = ["bert", "roberta", "distilbert", "modernbert", "llama_classifier", "gpt2"]


def gated_subject(name: str) -> Subject:
    if name != "gpt2":
        return subject_of(name)
    config = hf.GPT2Config(
        vocab_size=V, n_embd=16, n_layer=2, n_head=2, n_positions=70, num_labels=3, pad_token_id=0
    )
    torch.manual_seed(0)
    return Subject(hf.GPT2ForSequenceClassification(config).eval(), tiny.tokenizer())


def a_batch(subject: Subject, seed: int = 0) -> tuple[dict[str, Tensor], Tensor]:
    """Return texts of nine words as tensors, and a random gate for them."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(tiny.WORDS, 9)) for _ in range(4)]
    inputs = subject.tensors(subject.encode(texts, 20))
    n, length = inputs["input_ids"].shape
    upper = torch.from_numpy(rng.random((n, length, length)) < 0.4).triu(1)
    return inputs, (upper | upper.mT | torch.eye(length, dtype=torch.bool)).float()


def slow_attention(gate: Tensor) -> Any:
    """Return attention whose every row is a softmax over just those tokens that it may see."""

    def attention(
        module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, **how: Any
    ) -> tuple[Tensor, None]:
        n, heads, length, width = query.shape
        scale, output = how.get("scaling") or width**-0.5, torch.zeros(n, length, heads, width)
        for text in range(n):
            for head in range(heads):
                own = head * key.shape[1] // heads
                for i in range(length):
                    hidden = None if attention_mask is None else attention_mask[text, 0, i] < -1e30
                    seen = [
                        j
                        for j in range(length)
                        if gate[text, i, j] and not (hidden is not None and hidden[j])
                    ]
                    scores = (key[text, own, seen] @ query[text, head, i]) * scale
                    weights = scores.exp() / scores.exp().sum()
                    output[text, i, head] = weights @ value[text, own, seen]
        return output, None

    return attention


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_gated_answers_are_those_of_a_softmax_over_the_words_that_may_meet(name: str) -> None:
    subject = gated_subject(name)
    inputs, pairs = a_batch(subject)
    AttentionInterface.register("slow_gated", slow_attention(pairs))
    AttentionMaskInterface.register("slow_gated", eager_mask)
    with torch.inference_mode():
        plain = subject.model(**inputs).logits
        with subject.measuring("slow_gated"):
            expected = subject.model(**inputs).logits
        with gating(subject) as gate:
            gate.pairs = pairs
            found = subject.model(**inputs).logits
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    assert (found - plain).abs().max() > 1e-3


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_with_every_pair_on_the_model_answers_as_always(name: str) -> None:
    subject = gated_subject(name)
    inputs, pairs = a_batch(subject)
    before = subject.model.config._attn_implementation
    with torch.inference_mode():
        expected = subject.model(**inputs).logits
        with gating(subject) as gate:
            without = subject.model(**inputs).logits
            gate.pairs = torch.ones_like(pairs)
            ones = subject.model(**inputs).logits
        after = subject.model(**inputs).logits
    assert gate.layers == 2 * subject.model.config.num_hidden_layers
    assert subject.model.config._attn_implementation == before
    torch.testing.assert_close(without, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(ones, expected, atol=1e-5, rtol=1e-4)
    assert torch.equal(after, expected)


@pytest.mark.parametrize("name", ["bert", "llama_classifier"])
def test_with_every_pair_off_words_meet_special_tokens_and_themselves(name: str) -> None:
    subject = subject_of(name)
    nothing = random_masks(subject.tokenizer, 1, "drop")
    nothing = replace(nothing, pair_scores=nothing.pair_scores * 0)
    text = "film good bad film"
    inputs = subject.tensors(subject.encode([text], 20))
    with torch.inference_mode(), gating(subject) as gate:
        table = MaskTable(nothing, subject.device)
        gate.pairs = table.pairs_of(inputs["input_ids"]).float()
        weights = subject.model(**inputs, output_attentions=True).attentions
    hand = torch.eye(4, dtype=torch.bool)
    hand[0, 3] = hand[3, 0] = True  # the same word twice
    if name == "bert":  # [CLS] before, [SEP] behind
        hand = torch.nn.functional.pad(hand, (1, 1, 1, 1), value=True)
    else:
        hand = hand.tril()
    for layer in weights:
        assert torch.equal(layer[0] > 0, hand.expand_as(layer[0]))
        torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:-1]))


def test_a_row_whose_weights_all_vanish_gives_nothing_and_no_nan() -> None:
    query = torch.tensor([[[[100.0], [100.0]]]])
    key = torch.tensor([[[[0.0], [100.0]]]])
    subject = subject_of()
    with gating(subject) as gate:
        gate.pairs = torch.eye(2)[None]
        output, weights = gated_attention(None, query, key, torch.ones(1, 1, 2, 1), scaling=1.0)
    assert weights.tolist() == [[[[0.0, 0.0], [0.0, 1.0]]]]
    assert output.tolist() == [[[[0.0]], [[1.0]]]]


def test_the_slope_of_a_pair_is_what_switching_it_changes_where_it_is_off() -> None:
    random = torch.Generator().manual_seed(0)
    weights = torch.rand(2, 3, 5, 5, generator=random).softmax(-1).requires_grad_()
    slope = torch.randn(2, 3, 5, 5, generator=random)
    gate = (
        (torch.rand(2, 1, 5, 5, generator=random) < 0.5) | torch.eye(5, dtype=torch.bool)
    ).float()
    gate.requires_grad_()
    found = _Gated.apply(weights, gate)  # type: ignore[no-untyped-call]
    (found * slope).sum().backward()
    plain_weights, plain_gate = (t.detach().clone().requires_grad_() for t in (weights, gate))
    kept = plain_weights * plain_gate
    (kept / kept.sum(-1, keepdim=True) * slope).sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(weights.grad, plain_weights.grad)
    on = gate.detach() == 1
    assert gate.grad is not None
    assert plain_gate.grad is not None
    torch.testing.assert_close(gate.grad[on], plain_gate.grad[on])
    for text, _, i, j in (~on).nonzero().tolist():
        switched = gate.detach().clone()
        switched[text, 0, i, j] = 1
        kept = weights.detach() * switched
        change = (kept / kept.sum(-1, keepdim=True) - found.detach()) * slope
        assert float(gate.grad[text, 0, i, j]) == pytest.approx(float(change.sum()), abs=1e-5)


def test_fidelity_is_measured_in_the_way_that_the_masks_were_learnt() -> None:
    subject, texts = subject_of(), tiny.texts(60, 6)
    tokens = subject.encode(texts, 20)
    masks = replace(random_masks(subject.tokenizer, 3, "drop"), pairs="attention")
    plain, table, same = predict(subject, tokens), MaskTable(masks, subject.device), 0
    for row in range(len(texts)):
        inputs = subject.tensors(tokens.take([row]))
        ids = inputs.pop("input_ids")
        x = subject.model.get_input_embeddings()(ids) * table.tokens_of(ids)[..., None]
        with torch.inference_mode(), gating(subject) as gate:
            gate.pairs = table.pairs_of(ids).float()
            same += int(subject.model(**inputs, inputs_embeds=x).logits.argmax() == plain[row])
    assert fidelity_on(subject, masks, texts, 20) == pytest.approx(same / len(texts))
    assert same / len(texts) != fidelity_on(subject, replace(masks, pairs="messages"), texts, 20)
    with pytest.raises(MaskError, match="cannot be gated"):
        fidelity_on(subject_of("deberta"), masks, texts, 20)


def test_the_attention_paid_is_the_mean_over_layers_heads_and_places() -> None:
    subject, texts = subject_of(), tiny.texts(120, 2)
    tokens = subject.encode(texts, 20)
    keys = [5 * V + 9, 6 * V + 7, 10 * V + 12]
    table = PairTable(torch.tensor(keys), torch.arange(4), V)
    paid: dict[int, list[float]] = {key: [] for key in keys}
    for row in range(len(texts)):
        inputs = subject.tensors(tokens.take([row]))
        with torch.inference_mode(), subject.measuring():
            layers = subject.model(**inputs, output_attentions=True).attentions
        mean, ids = torch.stack(layers).mean((0, 1, 2)), inputs["input_ids"][0].tolist()
        for i, a in enumerate(ids):
            for j, b in enumerate(ids[i + 1 :], i + 1):
                if (key := min(a, b) * V + max(a, b)) in paid:
                    paid[key].append(float(mean[i, j] + mean[j, i]) * len(ids))
    expected = np.log([np.mean(paid[key]) for key in keys])
    expected = (expected - expected.mean()) / expected.std(ddof=1)
    assert attention_paid(subject, tokens, table).tolist() == pytest.approx(expected, abs=1e-3)


@given(
    logits=st.lists(st.floats(-20, 20), min_size=1, max_size=40),
    done=st.floats(0, 1),
    kept=st.floats(0.01, 1),
)
def test_the_cut_keeps_the_share_that_is_due(logits: list[float], done: float, kept: float) -> None:
    values = torch.tensor(logits)
    settings = LearningSettings(pairs_kept=kept, cooling=0.5)
    cut = cut_at(values, done, settings)
    share = float(((values.double() - cut.at) / cut.noise).sigmoid().mean())
    assert share == pytest.approx(min(share_at(done, kept), 1 - 1e-6), abs=1e-4)
    assert (values >= exact_cut(values, kept)).sum() >= round(kept * len(logits))


def test_the_share_falls_from_nearly_all_to_the_one_asked_for() -> None:
    shares = [share_at(done, 0.2) for done in (0.0, 0.2, 0.4, RAMP, 0.9)]
    assert shares == sorted(shares, reverse=True)
    assert (shares[0], shares[-2], shares[-1]) == (FIRST, 0.2, 0.2)
    assert share_at(0.0, 1.0) == 1.0
    values = torch.arange(10.0)
    assert [(values >= exact_cut(values, s)).sum().item() for s in (0, 0.3, 1)] == [0, 3, 10]
    assert exact_cut(torch.empty(0), 0.5) == 0.0


def meeting_texts(n: int, seed: int) -> list[str]:
    """Return texts that begin with `the`, half of them with `good` among words that say nothing."""
    rng = np.random.default_rng(seed)
    idle = [word for word in tiny.WORDS if word not in ("good", "the")]
    found = []
    for _ in range(n):
        words = list(rng.choice(idle, rng.integers(3, 8)))
        if rng.integers(2):
            words[rng.integers(len(words))] = "good"
        found.append(" ".join(["the", *words]))
    return found


@pytest.fixture(scope="module")
def meeting() -> Subject:
    """One layer that answers at the first word, `the`, which must see whether there is a `good`."""
    config = tiny.bert(num_hidden_layers=1, num_labels=2).config
    torch.manual_seed(0)
    model = hf.BertForSequenceClassification(config).eval()
    subject = Subject(model, tiny.tokenizer(special_tokens=False))
    texts = meeting_texts(400, 3)
    tokens = subject.encode(texts, 20)
    goal = np.array([int("good" in text.split()) for text in texts])
    # Far from certain and with small weights: where answers are saturated, gradients vanish.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.3)
    batches = batches_by_length(tokens.lengths, 64)
    for place in np.random.default_rng(0).integers(len(batches), size=150):
        rows = batches[place]
        answer = model(**subject.tensors(tokens.take(rows))).logits
        loss = cross_entropy(answer, torch.from_numpy(goal[rows]), label_smoothing=0.2)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert np.mean(predict(subject, tokens) == goal) > 0.98
    return subject


def test_the_one_pair_that_must_meet_is_found_and_all_others_are_dropped(meeting: Subject) -> None:
    settings = replace(
        QUICK, epochs=6, batch_size=32, words_kept=1.0, sparse_words=0.0, pairs_kept=0.002
    )
    masks = learn_masks(Masks, meeting, meeting_texts(400, 4), settings)
    summary = masks.summary()
    assert summary.pairs > 400
    assert summary.pairs_kept == 1
    assert summary.top_pairs[0][0] == "the \u2013 good"
    tests = meeting_texts(200, 5)
    alone = replace(masks, word_scores=np.ones_like(masks.word_scores), unseen="drop")
    other = replace(alone, pair_scores=np.roll(masks.pair_scores, 7))
    assert fidelity_on(meeting, alone, tests, 20) > 0.95
    assert fidelity_on(meeting, other, tests, 20) < 0.7
