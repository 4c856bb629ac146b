"""The texts that masks are learnt from: drawn, and some of them with another one behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mncover.engine.subject import Subject
from mncover.errors import SettingsError, TextError
from mncover.masks.learning import Learner
from mncover.masks.masks import Masks
from mncover.masks.sample import Sample, draw_sample, joined_sample
from mncover.masks.settings import LearningSettings, chosen_settings
from mncover.types import Text
from tests import tiny

SMALL: Any = {"epochs": 4, "batch_size": 16, "held_out": 20, "max_length": 40, "word_hidden": 8}
SETTINGS = LearningSettings(**SMALL)


def subject_of(name: str = "bert") -> Subject:
    return Subject(*tiny.make(name))


def drawn(n: int = 60, pairs: bool = False, **other: Any) -> tuple[Subject, Sample, Sample]:
    """Return a sample of random texts, and the same joined."""
    subject, settings = subject_of(), replace(SETTINGS, **other)
    sample = draw_sample(subject, tiny.texts(n, 1, pairs=pairs), settings)
    return subject, sample, joined_sample(subject, sample, settings)


def one_by_one(subject: Subject, texts: list[Text]) -> list[int]:
    """Return the class of each text, run alone."""
    found = []
    for text in texts:
        encoded = subject.tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            found.append(int(subject.model(**encoded).logits.argmax()))
    return found


def test_a_sample_has_every_text_once_with_the_class_that_the_plain_model_predicts() -> None:
    texts = tiny.texts(60, 1)
    subject = subject_of()
    sample = draw_sample(subject, texts, SETTINGS)
    assert sorted(sample.texts) == sorted(texts)
    assert sample.texts != texts
    assert sample.targets.tolist() == one_by_one(subject, sample.texts)
    assert len(set(sample.targets.tolist())) > 1


def test_joined_texts_have_another_one_behind_them_and_their_own_class() -> None:
    subject, sample, both = drawn()
    others = []
    for text, joined in zip(sample.texts, both.texts, strict=True):
        assert isinstance(text, str)
        assert isinstance(joined, str)
        assert joined.startswith(f"{text} ")
        others.append(joined.removeprefix(f"{text} "))
    assert sorted(others) == sorted(sample.texts)
    assert both.targets.tolist() == one_by_one(subject, both.texts)
    assert (both.targets != sample.targets).any()
    assert [len(ids) for ids in both.tokens.ids()] == [
        len(str(text).split()) + 2 for text in both.texts
    ]


def test_a_text_that_would_be_too_long_stays_alone() -> None:
    _, sample, both = drawn(max_length=16)
    alone = 0
    for number, (text, joined) in enumerate(zip(sample.texts, both.texts, strict=True)):
        if text == joined:
            alone += 1
            np.testing.assert_array_equal(both.tokens.ids()[number], sample.tokens.ids()[number])
            assert both.targets[number] == sample.targets[number]
    assert 0 < alone < len(sample.texts)
    assert not both.tokens.truncated.any()
    assert both.tokens.lengths.max() <= 16


def test_pairs_of_texts_stay_as_they_are() -> None:
    _, sample, both = drawn(pairs=True)
    assert both.texts == sample.texts
    np.testing.assert_array_equal(
        both.tokens.inputs["input_ids"], sample.tokens.inputs["input_ids"]
    )


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_every_epoch_has_each_text_once_and_a_share_of_them_joined(share: float) -> None:
    settings = replace(SETTINGS, joined=share)
    learner = Learner(Masks, subject_of(), tiny.texts(800, 1), settings)
    rows, n = np.concatenate(learner._steps()), len(learner.train.texts)
    assert np.bincount(rows % n).tolist() == [settings.epochs] * n
    assert np.mean(rows >= n) == pytest.approx(share, abs=0.05)
    assert (learner.material is learner.train) == (not share)
    for row in rows[rows >= n]:
        alone, joined = str(learner.train.texts[row - n]), str(learner.material.texts[row])
        assert joined.startswith(f"{alone} ")


def test_pairs_are_counted_in_texts_alone() -> None:
    """A pair that only joining brings together was never seen."""
    one, two = (
        Learner(Masks, subject_of(), tiny.texts(80, 1), replace(SETTINGS, joined=share))
        for share in (0.0, 1.0)
    )
    np.testing.assert_array_equal(one.pair_keys, two.pair_keys)
    np.testing.assert_array_equal(one.pair_counts, two.pair_counts)


def test_texts_without_tokens_are_left_out() -> None:
    subject = Subject(*tiny.make("llama_classifier"))
    texts = ["", *tiny.texts(30, 1), "", ""]
    sample = draw_sample(subject, texts, SETTINGS)
    assert sorted(sample.texts) == sorted(texts[1:-2])
    assert sample.tokens.lengths.min() > 0
    with pytest.raises(TextError, match="at least two texts"):
        draw_sample(subject, ["", "good", ""], SETTINGS)


def test_only_pairs_in_attention_are_learnt_from_joined_texts() -> None:
    assert LearningSettings.messages().joined == LearningSettings.paper().joined == 0
    with pytest.raises(SettingsError, match="`joined` is for --pairs attention"):
        chosen_settings(False, ["pairs=messages", "joined=0.5"])
