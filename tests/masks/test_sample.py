"""The texts that masks are learnt from are drawn, with the model's own classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from mncover.engine.batches import Tokens
from mncover.engine.subject import Subject
from mncover.errors import TextError
from mncover.masks.sample import draw_sample
from mncover.masks.settings import LearningSettings
from mncover.types import Text
from tests import tiny

SETTINGS = LearningSettings(max_length=40)


def subject_of(name: str = "bert") -> Subject:
    return Subject(*tiny.make(name))


def words_of(tokens: Tokens) -> list[list[int]]:
    return [ids.tolist() for ids in tokens.ids()]


def one_by_one(subject: Subject, tokens: Tokens) -> list[int]:
    """Return the class of each text, run alone."""
    with torch.no_grad():
        each = [subject.model(input_ids=torch.tensor([ids])) for ids in words_of(tokens)]
    return [int(one.logits.argmax()) for one in each]


def test_a_sample_has_every_text_once_with_the_class_that_the_plain_model_predicts() -> None:
    texts, subject = tiny.texts(60, 1), subject_of()
    sample, plain = draw_sample(subject, texts, SETTINGS), subject.encode(texts, 40)
    assert sorted(words_of(sample.tokens)) == sorted(words_of(plain))
    assert words_of(sample.tokens) != words_of(plain)
    assert sample.targets.tolist() == one_by_one(subject, sample.tokens)
    assert len(set(sample.targets.tolist())) > 1


@pytest.mark.parametrize("n", [7, 60])
def test_a_seed_draws_so_many_texts_and_always_the_same_ones(n: int) -> None:
    texts, subject = tiny.texts(60, 1), subject_of()
    settings: Any = replace(SETTINGS, texts=n)
    one, two = (draw_sample(subject, texts, settings) for _ in range(2))
    other = draw_sample(subject, texts, replace(settings, seed=1))
    assert len(one.tokens) == n
    assert words_of(one.tokens) == words_of(two.tokens) != words_of(other.tokens)


def test_the_parts_of_a_sample_are_its_texts_in_order() -> None:
    sample = draw_sample(subject_of(), tiny.texts(60, 1), SETTINGS)
    first, rest = sample.part(0, 10), sample.part(10)
    assert words_of(first.tokens) + words_of(rest.tokens) == words_of(sample.tokens)
    assert [*first.targets, *rest.targets] == sample.targets.tolist()
    assert len(first.tokens) == len(first.targets) == 10


def test_texts_without_tokens_are_left_out() -> None:
    subject = Subject(*tiny.make("llama_classifier"))
    texts: list[Text] = ["", *tiny.texts(30, 1), "", ""]
    sample = draw_sample(subject, texts, SETTINGS)
    assert len(sample.tokens) == len(sample.targets) == 30
    assert sample.tokens.lengths.min() > 0
    with pytest.raises(TextError, match="at least two texts"):
        draw_sample(subject, ["", "good", ""], SETTINGS)
