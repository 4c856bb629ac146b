"""The WIMask layer and its learning: by hand, by frequency, and on a model with planted words."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mncover.engine.batches import batches_by_length
from mncover.engine.loading import fingerprint_model
from mncover.engine.masking import PairTable
from mncover.engine.subject import Subject
from mncover.errors import MaskError, SettingsError, TextError
from mncover.masks.checkpoint import Checkpoint
from mncover.masks.fidelity import agreement, fidelity_on, predict
from mncover.masks.learning import Learner, _key, _sample, frozen, learn_masks
from mncover.masks.masks import Masks
from mncover.masks.settings import LearningSettings, chosen_settings
from mncover.masks.wimask import (
    Logits,
    WIMask,
    draw_bernoulli,
    inserted,
    kl_to_half,
    normalised,
    pass_through,
    straight_through,
)
from tests import tiny

QUICK = LearningSettings(epochs=2, batch_size=16, held_out=20, max_length=20, word_hidden=8)
CLASSIFIERS = ["bert", "roberta", "distilbert", "albert", "electra", "deberta", "modernbert"]
CLASSIFIERS += ["llama_classifier", "bart_classifier"]


def subject_of(name: str = "bert") -> Subject:
    return Subject(*tiny.make(name))


def learner_of(settings: LearningSettings = QUICK, name: str = "bert", n: int = 80) -> Learner:
    subject = subject_of(name)
    return Learner(subject, _sample(subject, tiny.texts(n, 1), settings), settings)


# The parts, by hand.


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
    layer = WIMask(table, width=4, scale=1.0, hidden=0)
    layer.start(0, pair_logit=-1.5, word_logit=0.7, message=0.1)
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


def test_the_terms_of_the_loss_by_hand() -> None:
    settings = replace(
        QUICK, kl_words=2.0, kl_pairs=3.0, sparse_pairs=5.0, sparse_words=7.0, words_kept=0.25
    )
    learner = learner_of(settings)
    third = math.log(3.0)
    logits = Logits(
        words=torch.tensor([[60.0, third, 0.0]]),
        pairs=torch.tensor([[[60.0, third, 60.0], [third, 60.0, -third], [60.0, -third, 60.0]]]),
        word_learnt=torch.tensor([[False, True, True]]),
        pair_learnt=torch.tensor([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]]) > 0,
    )
    quarter = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    # Words: KL of 3/4 and 1/2. Pairs: KL of 3/4 and 1/4, mean probability 1/2. All words are
    # kept at the start, three quarters more than asked.
    expected = 2 * (quarter / 2) + 3 * quarter + 5 * 0.5 + 7 * 0.75
    assert float(learner.regulariser(logits).detach()) == pytest.approx(expected, abs=1e-5)


# Learning.


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_learning_leaves_the_model_bit_for_bit_as_it_was(name: str) -> None:
    subject = subject_of(name)
    subject.model.train()
    before, state = (
        fingerprint_model(subject.model),
        {n: (p.requires_grad, p.grad) for n, p in subject.model.named_parameters()},
    )
    masks = learn_masks(subject, tiny.texts(40, 1), replace(QUICK, epochs=1))
    assert fingerprint_model(subject.model) == before
    assert subject.model.training
    for parameter, (wanted, grad) in state.items():
        now = subject.model.get_parameter(parameter)
        assert (now.requires_grad, now.grad) == (wanted, grad)
    assert not any(m._forward_hooks for m in subject.model.modules())
    assert len(masks.pair_keys) > 0
    assert 0 <= masks.facts["held-out fidelity"] <= 1


def test_gradients_reach_pairs_message_and_word_network_and_nothing_else() -> None:
    learner = learner_of()
    with frozen(learner.subject):
        before = {n: p.detach().clone() for n, p in learner.layer.named_parameters()}
        for number in range(3):  # the first step moves the network's last layer away from zero
            learner.step(learner._steps()[number], number, 1.0)
        for name, parameter in learner.layer.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name
            assert not torch.equal(parameter, before[name]), name
        assert all(p.grad is None for p in learner.subject.model.parameters())


def test_texts_of_pairs_are_learnt_from_too() -> None:
    subject = subject_of()
    masks = learn_masks(subject, tiny.texts(40, 1, pairs=True), replace(QUICK, max_length=30))
    assert masks.word_counts.sum() > 0


def test_the_same_seed_learns_the_same_and_another_seed_something_else() -> None:
    texts = tiny.texts(60, 1)
    one, two = (learn_masks(subject_of(), texts, QUICK) for _ in range(2))
    other = learn_masks(subject_of(), texts, replace(QUICK, seed=1))
    np.testing.assert_array_equal(one.word_scores, two.word_scores)
    np.testing.assert_array_equal(one.pair_scores, two.pair_scores)
    assert not np.array_equal(one.word_scores, other.word_scores)


def test_interrupted_learning_goes_on_and_ends_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, path = tiny.texts(60, 1), tmp_path / "m.partial"
    whole = learn_masks(subject_of(), texts, QUICK)
    step = Learner.step

    def interrupted(self: Learner, rows: list[int], number: int, pace: float) -> None:
        if number == 20:
            raise KeyboardInterrupt
        step(self, rows, number, pace)

    monkeypatch.setattr(Learner, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learn_masks(subject_of(), texts, QUICK, checkpoint=path)
    assert path.exists()
    calls: list[int] = []

    def counting(self: Learner, rows: list[int], number: int, pace: float) -> None:
        calls.append(number)
        step(self, rows, number, pace)

    monkeypatch.setattr(Learner, "step", counting)
    again = learn_masks(subject_of(), texts, QUICK, checkpoint=path)
    assert min(calls) > 10  # nothing that was finished is done twice
    np.testing.assert_array_equal(again.word_scores, whole.word_scores)
    np.testing.assert_array_equal(again.pair_scores, whole.pair_scores)
    np.testing.assert_array_equal(again.message, whole.message)
    assert path.exists()  # until whoever asked has saved the masks


def test_a_checkpoint_of_other_learning_or_a_damaged_one_is_not_used(tmp_path: Path) -> None:
    from mncover.masks.checkpoint import Progress

    learner, texts, path = learner_of(), tiny.texts(80, 1), tmp_path / "m.partial"
    key = _key(learner.subject, texts, QUICK)
    Checkpoint(path, key).save(Progress(step=3), learner.layer, learner.optimizer)
    assert Checkpoint(path, key).load(learner.layer, learner.optimizer) is not None
    other = _key(learner.subject, texts, replace(QUICK, seed=5))
    assert Checkpoint(path, other).load(learner.layer, learner.optimizer) is None
    path.write_bytes(path.read_bytes()[:100])
    assert Checkpoint(path, key).load(learner.layer, learner.optimizer) is None


def test_learning_stops_when_held_out_fidelity_no_longer_rises() -> None:
    steps: list[int] = []
    settings = replace(QUICK, epochs=50, patience=2, words_kept=1.0)
    learner = learner_of(settings)
    learner.held_out_fidelity = lambda: 0.5  # type: ignore[method-assign]
    with frozen(learner.subject):
        learner.fit(lambda n: steps.append(n))
    total = len(learner._steps())
    interval = total // (50 * 4)
    assert len(steps) - 1 == 3 * interval  # the first look is the best, two more are patient


def planted_texts(n: int, seed: int) -> list[str]:
    """Return texts of words that say nothing, and one that does: `good` or `bad`."""
    rng = np.random.default_rng(seed)
    idle = [word for word in tiny.WORDS if word not in ("good", "bad")]
    found = []
    for _ in range(n):
        words = list(rng.choice(idle, rng.integers(2, 10)))
        words.insert(rng.integers(len(words) + 1), ("good", "bad")[rng.integers(2)])
        found.append(" ".join(words))
    return found


@pytest.fixture(scope="module")
def planted() -> Subject:
    """A tiny BERT trained to tell texts with `good` from those with `bad`."""
    model, tokenizer = tiny.make("bert")
    model.config.num_labels = 2
    torch.manual_seed(0)
    subject = Subject(type(model)(model.config).eval(), tokenizer)
    texts = planted_texts(600, 3)
    encodings = subject.encode(texts, 20)
    goal = np.array([int("good" in text.split()) for text in texts])
    optimizer = torch.optim.Adam(subject.model.parameters(), lr=5e-3)
    batches = list(batches_by_length([e.length for e in encodings], 16))
    for place in np.random.default_rng(0).integers(len(batches), size=400):
        rows = batches[place]
        answer = subject.model(**subject.tensors([encodings[i] for i in rows])).logits
        loss = torch.nn.functional.cross_entropy(answer, torch.from_numpy(goal[rows]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert np.mean(predict(subject, encodings) == goal) > 0.98
    return subject


def test_the_words_that_decide_are_found(planted: Subject) -> None:
    settings = replace(
        QUICK, epochs=12, words_kept=0.3, sparse_words=0.3, word_rate=0.01, held_out=60
    )
    masks = learn_masks(planted, planted_texts(600, 4), settings)
    score = dict(zip(masks.words, masks.word_scores, strict=True))
    idle = [float(score[w]) for w in tiny.WORDS if w not in ("good", "bad")]
    # One of the two is enough to tell the classes apart.
    assert max(score["good"], score["bad"]) > np.quantile(idle, 0.9)
    kept = masks.summary()
    assert kept.words_kept / kept.words < 0.5
    tests = planted_texts(300, 5)
    fidelity = fidelity_on(planted, masks, tests, 20)
    rolled = replace(masks, word_scores=np.roll(masks.word_scores, 7))
    assert fidelity > 0.95
    assert fidelity > fidelity_on(planted, rolled, tests, 20) + 0.1


def test_masks_that_keep_everything_and_send_no_message_have_full_fidelity() -> None:
    subject, texts = subject_of(), tiny.texts(50, 1)
    masks = learn_masks(subject, texts, QUICK)
    everything = replace(masks.with_thresholds(0.0, 0.0), message=None)
    assert fidelity_on(subject, everything, texts, 20) == 1.0


def test_fidelity_is_the_share_of_equal_predictions() -> None:
    subject = subject_of()
    encodings = subject.encode(tiny.texts(40, 6), 20)
    masks = replace(Masks.from_words(subject.tokenizer, ["good"]), message=None)
    plain = predict(subject, encodings)
    with inserted(
        subject,
        lambda ids, x: x * torch.from_numpy(masks.keep_words)[ids][..., None],
    ):
        masked = predict(subject, encodings)
    expected = float(np.mean(plain == masked))
    assert 0 < expected < 1
    assert agreement(subject, masks, encodings, plain) == expected


def test_no_hook_survives_an_exception() -> None:
    subject = subject_of()

    def fail(ids: Any, x: Any) -> Any:
        raise RuntimeError

    with pytest.raises(RuntimeError), inserted(subject, fail):
        predict(subject, subject.encode(["good film"], 10))
    assert not any(m._forward_hooks for m in subject.model.modules())


def test_masks_are_learnt_where_no_pair_is_frequent_enough() -> None:
    masks = learn_masks(subject_of(), tiny.texts(30, 1), replace(QUICK, min_count=10**6))
    assert len(masks.pair_keys) == 0
    assert masks.summary().pairs == 0
    assert fidelity_on(subject_of(), masks, tiny.texts(10, 2), 20) >= 0


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(MaskError, match="has no classes"):
        learn_masks(subject_of("gpt2"), tiny.texts(5), QUICK)
    half = subject_of()
    half.model.half()
    with pytest.raises(MaskError, match="float16"):
        learn_masks(half, tiny.texts(5), QUICK)
    with pytest.raises(TextError, match="at least two texts"):
        learn_masks(subject_of(), ["good"], QUICK)
    broken = subject_of()
    torch.nn.init.constant_(broken.model.classifier.bias, math.nan)
    with pytest.raises(MaskError, match="went astray in step 1"):
        learn_masks(broken, tiny.texts(60, 1), QUICK)


def test_settings_are_checked_and_read_from_text() -> None:
    assert chosen_settings(False, ["epochs=3", "pair-rate=0.1", "texts=all"]) == replace(
        LearningSettings(), epochs=3, pair_rate=0.1, texts=None
    )
    paper = chosen_settings(True, [])
    assert {paper.word_rate, paper.pair_rate, paper.message_rate} == {1e-5}
    assert {paper.kl_pairs, paper.kl_words, paper.sparse_pairs} == {0.001}
    assert paper.sparse_words == 0
    for text, message in (
        ("epoch=3", "no setting 'epoch'; known are texts, epochs"),
        ("epochs=x", "`epochs` cannot be 'x'"),
        ("epochs=0", "`epochs` must be a whole number from 1"),
        ("words_kept=1.5", "`words_kept` must be a number from 0 to 1"),
        ("word_rate=nan", "`word_rate` must be a number"),
        ("normalisation=sum", "`normalisation` must be mean or symmetric"),
    ):
        with pytest.raises(SettingsError, match=message):
            chosen_settings(False, [text])
