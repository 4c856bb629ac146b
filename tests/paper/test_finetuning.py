"""Training targets: a rule is learnt, the seed decides everything, the schedule is kept."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mncover.engine.subject import Subject
from mncover.errors import ModelError, SettingsError, TextError
from mncover.paper.finetuning import FineTuning, TrainingSet, accuracy, batches, fine_tune
from tests import tiny

QUICK = FineTuning(epochs=12, learning_rate=5e-3, batch_size=16, max_length=32)
SHORT = FineTuning(epochs=1, batch_size=8, max_length=16)


def ruled(n: int, seed: int, pairs: bool = False) -> TrainingSet:
    """Return texts whose label is decided by a word: 'good', in a pair's second text."""
    words = [word for word in tiny.WORDS if word not in ("good", "bad")]
    rng = np.random.default_rng(seed)

    def one(word: str) -> str:
        chosen = [*rng.choice(words, rng.integers(1, 6)).tolist(), word]
        return " ".join(rng.permutation(chosen).tolist())

    labels = [int(label) for label in rng.integers(0, 2, n)]
    if pairs:
        texts: list[Any] = [(one("is"), one("good" if label else "bad")) for label in labels]
    else:
        texts = [one("good" if label else "bad") for label in labels]
    return TrainingSet(tuple(texts), tuple(labels))


def weights(subject: Subject) -> dict[str, torch.Tensor]:
    return dict(subject.model.state_dict())


@pytest.mark.parametrize("pairs", [False, True])
def test_a_trivial_rule_is_learnt(base: str, pairs: bool) -> None:
    train, test = ruled(200, 0, pairs), ruled(60, 1, pairs)
    told: list[int] = []
    subject = fine_tune(base, train, 2, QUICK, 0, advance=told.append)
    assert accuracy(subject, test).all()
    assert told == [1] * (12 * 13)
    assert not subject.model.training
    assert subject.n_labels == 2


def test_accuracy_equals_a_plain_loop(base: str) -> None:
    train, test = ruled(40, 0), ruled(50, 1)
    subject = fine_tune(base, train, 2, SHORT, 0)
    found = accuracy(subject, test, batch_size=7)
    assert found.dtype == bool
    for text, label, right in zip(test.texts, test.labels, found.tolist(), strict=True):
        with torch.no_grad():
            answer = subject.model(**subject.tokenizer(text, return_tensors="pt")).logits[0]
        assert right == (int(answer.argmax()) == label)
    assert 0 < found.sum() < 50  # a loop over all or nothing would prove little


def test_the_seed_decides_everything_and_disturbs_nothing(base: str) -> None:
    train = ruled(40, 0)
    before = torch.random.get_rng_state()
    runs = [fine_tune(base, train, 2, SHORT, seed) for seed in (3, 3, 4)]
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(99)  # nor does the caller's state matter
    again = fine_tune(base, train, 2, SHORT, 3)
    one, two, other, later = (weights(subject) for subject in (*runs, again))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(torch.equal(one[name], later[name]) for name in one)
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])


def test_the_head_is_new_and_the_rest_is_the_bases(tmp_path: Path) -> None:
    model, tokenizer = tiny.make("bert")  # has a head, of three classes
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    train = ruled(4, 0)
    still = replace(SHORT, steps=1, learning_rate=1e-12, weight_decay=0.0)
    for n in (2, 3):
        subject = fine_tune(str(tmp_path), train, n, still, 0)
        assert subject.n_labels == n
        mine, theirs = subject.model.bert.state_dict(), model.bert.state_dict()
        for name in theirs:
            assert torch.allclose(mine[name], theirs[name], atol=1e-6)
    assert not torch.allclose(subject.model.classifier.weight, model.classifier.weight, atol=0.01)


def test_the_schedule_by_hand() -> None:
    settings = FineTuning(epochs=2, batch_size=4, warmup=0.2)
    assert settings.steps_over(17) == 10
    paces = [settings.pace(step, 10) for step in range(10)]
    assert paces == pytest.approx([1 / 3, 2 / 3, 1, *(k / 8 for k in (7, 6, 5, 4, 3, 2, 1))])
    assert FineTuning(warmup=0).pace(0, 4) == 1
    assert FineTuning(warmup=1).pace(3, 4) == pytest.approx(0.8)
    assert FineTuning(steps=7).steps_over(1000) == 7
    with pytest.raises(SettingsError, match="`epochs` must be at least 1"):
        FineTuning(epochs=0)
    with pytest.raises(SettingsError, match="`warmup` from 0 to 1"):
        FineTuning(warmup=2)


def test_the_rates_of_the_steps_follow_the_schedule(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = []
    step = torch.optim.AdamW.step

    def spying(self: torch.optim.AdamW, *arguments: Any) -> Any:
        rates.append([group["lr"] for group in self.param_groups])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", spying)
    train = ruled(5, 0)
    settings = FineTuning(steps=3, warmup=0.4, learning_rate=6e-4, batch_size=2, max_length=16)
    fine_tune(base, train, 2, settings, 0)
    assert np.array(rates) == pytest.approx(np.array([[3e-4] * 2, [6e-4] * 2, [3e-4] * 2]))


def test_every_epoch_has_every_text_once_in_batches_of_like_length() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 60, 1003).tolist()
    rows = list(itertools.islice(batches(lengths, 10, seed=1), 2 * 101))
    first, second = rows[:101], rows[101:]
    for epoch in (first, second):
        assert sorted(row for batch in epoch for row in batch) == list(range(1003))
        waste = [max(lengths[row] for row in batch) for batch in epoch]
        assert sum(w * len(b) for w, b in zip(waste, epoch, strict=True)) < 1.1 * sum(lengths)
        assert waste != sorted(waste)  # neither short nor long ones come first
    assert first != second
    assert first == list(itertools.islice(batches(lengths, 10, seed=1), 101))


def test_padding_does_not_change_answers(base: str) -> None:
    train, test = ruled(20, 0), ruled(9, 1)
    subject = fine_tune(base, train, 2, SHORT, 0)
    tokens = subject.encode(test.texts, 16)
    with torch.no_grad():
        together = subject.model(**subject.padded(tokens)).logits
        each = [subject.padded(tokens.take([row])) for row in range(len(tokens))]
        alone = [subject.model(**inputs).logits for inputs in each]
    assert torch.allclose(together, torch.cat(alone), atol=1e-5)


def test_what_cannot_be_trained_is_refused(base: str, tmp_path: Path) -> None:
    def train(texts: list[str], labels: list[int], where: str = base) -> None:
        fine_tune(where, TrainingSet(tuple(texts), tuple(labels)), 2, SHORT, 0)

    with pytest.raises(TextError, match="2 texts but 1 label"):
        train(["a", "b"], [0])
    with pytest.raises(TextError, match="text 1: the label 2 is not from 0 to 1"):
        train(["a", "b"], [0, 2])
    with pytest.raises(TextError, match="no texts to train on"):
        train([], [])
    with pytest.raises(ModelError, match="no such folder"):
        train(["a"], [0], where="./nowhere")
    model, tokenizer = tiny.make("gpt2")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no padding token"):
        train(["a"], [0], where=str(tmp_path))
    with pytest.raises(ModelError, match="device 'nothing' cannot be used"):
        fine_tune(base, TrainingSet(("a",), (0,)), 2, SHORT, 0, device="nothing")
