"""The WIMask layer by hand: draws, messages, logits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from mncover.engine.masking import PairTable
from mncover.masks.settings import LearningSettings
from mncover.masks.wimask import (
    Logits,
    WIMask,
    draw_bernoulli,
    inserted,
    kl_to_half,
    normalised,
    pass_through,
    predict,
    straight_through,
)
from tests.masks.test_learning import subject_of


def test_kl_to_a_half_by_hand() -> None:
    logits = torch.tensor([0.0, math.log(3.0), -math.log(3.0), 200.0, -200.0])
    quarter = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    expected = [0.0, quarter, quarter, math.log(2), math.log(2)]
    assert kl_to_half(logits).tolist() == pytest.approx(expected, abs=1e-6)


def test_the_kl_has_a_finite_gradient_everywhere() -> None:
    logits = torch.tensor([0.0, 60.0, -60.0, 200.0], requires_grad=True)
    kl_to_half(logits).sum().backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_draws_are_ones_as_often_as_their_probability_says() -> None:
    random = torch.Generator().manual_seed(0)
    n = 200_000
    for p in (0.05, 0.5, 0.9):
        logits = torch.full((n,), math.log(p / (1 - p)))
        for temperature in (0.3, 1.0, 3.0):
            drawn = draw_bernoulli(logits, torch.rand(n, generator=random), temperature)
            assert ((drawn == 0) | (drawn == 1)).all()
            assert float(drawn.mean()) == pytest.approx(p, abs=5 * math.sqrt(p * (1 - p) / n))


def test_a_draw_has_the_gradient_of_its_soft_form() -> None:
    logits = torch.tensor([0.3, -2.0], requires_grad=True)
    uniform = torch.tensor([0.6, 0.2])
    draw_bernoulli(logits, uniform, 0.5).sum().backward()  # type: ignore[no-untyped-call]
    soft = ((logits.detach() + torch.log(uniform / (1 - uniform))) / 0.5).sigmoid()
    torch.testing.assert_close(logits.grad, soft * (1 - soft) / 0.5)


def test_cutting_at_a_half_keeps_the_gradient_of_the_probability() -> None:
    logits = torch.tensor([0.5, -0.5], requires_grad=True)
    cut = straight_through(logits)
    assert cut.tolist() == [1.0, 0.0]
    cut.sum().backward()  # type: ignore[no-untyped-call]
    p = logits.detach().sigmoid()
    torch.testing.assert_close(logits.grad, p * (1 - p))


def test_both_places_of_a_pair_get_the_same_draw() -> None:
    logits = Logits(torch.zeros(4, 6), torch.zeros(4, 6, 6), torch.ones(4, 6), torch.ones(4, 6, 6))
    words, pairs = logits.draw(1.0, torch.Generator().manual_seed(0))
    assert torch.equal(pairs, pairs.mT)
    assert 0 < float(pairs.mean()) < 1
    assert 0 < float(words.mean()) < 1


def test_message_passing_by_hand() -> None:
    x = torch.tensor([[[1.0, 2.0], [3.0, -4.0], [10.0, 10.0]]])
    pairs = torch.tensor([[[1.0, 1, 0], [1, 1, 0], [0, 0, 1]]])
    words = torch.tensor([[1.0, 1.0, 0.0]])
    swap = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    # The mean of the first two is (2, -1), swapped (-1, 2), and ReLU leaves (0, 2).
    expected = [[[1.0, 4.0], [3.0, -2.0], [0.0, 0.0]]]
    assert pass_through(x, words, pairs, swap, "mean").tolist() == expected
    assert pass_through(x, words, pairs, None, "mean").tolist() == [
        [[1.0, 2.0], [3.0, -4.0], [0.0, 0.0]]
    ]


def test_both_normalisations_by_hand() -> None:
    pairs = torch.tensor([[[1.0, 1, 1], [1, 1, 0], [1, 0, 1]]])  # degrees 3, 2, 2
    mean = normalised(pairs, "mean")[0]
    assert mean[0].tolist() == pytest.approx([1 / 3] * 3)
    assert mean[1].tolist() == pytest.approx([0.5, 0.5, 0])
    both = normalised(pairs, "symmetric")[0]
    assert both[0].tolist() == pytest.approx([1 / 3, 1 / math.sqrt(6), 1 / math.sqrt(6)])
    assert both[1].tolist() == pytest.approx([1 / math.sqrt(6), 0.5, 0])


def test_special_tokens_same_words_and_unseen_pairs_are_certain() -> None:
    table = PairTable(torch.tensor([2 * 10 + 3]), torch.tensor([0]), 10)
    settings = LearningSettings(word_hidden=0, start_pairs=-1.5, start_words=0.7)
    layer = WIMask(table, 4, 1.0, settings)
    logits = layer.logits(torch.tensor([[0, 2, 3, 2, 5]]), torch.zeros(1, 5, 4))
    assert logits.words[0].tolist() == pytest.approx([60, 0.7, 0.7, 0.7, 0.7])
    assert logits.pairs[0, 1].tolist() == [60, 60, -1.5, 60, 60]
    assert logits.word_learnt[0].tolist() == [False, True, True, True, True]
    assert logits.pair_learnt[0].int().tolist() == [
        [0, 0, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0],
        [0, 0, 0, 0, 0],
    ]
    assert torch.equal(logits.pairs, logits.pairs.mT)


def test_no_hook_survives_an_exception() -> None:
    subject = subject_of()

    def fail(ids: Any, x: Any) -> Any:
        raise RuntimeError

    with pytest.raises(RuntimeError), inserted(subject, fail):
        predict(subject, subject.encode(["good film"], 10))
    assert not any(m._forward_hooks for m in subject.model.modules())
