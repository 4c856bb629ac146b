"""The texts that masks are learnt from: a random sample, and two of its texts as one.

A pair of words that training saw twice has mostly been seen in one sentence and its parts, and is
learnt for what it does there. Behind another text the same pair meets other words, and the model
says what it answers then: texts that nobody has to write or label.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.engine.batches import Tokens
from mncover.engine.subject import Subject
from mncover.errors import TextError
from mncover.masks.settings import LearningSettings
from mncover.masks.wimask import predict
from mncover.types import Text


class Sample(NamedTuple):
    """Texts, their tokens, and the class that the plain model predicts for each."""

    texts: list[Text]
    tokens: Tokens
    targets: NDArray[np.int64]

    def part(self, start: int, stop: int | None = None) -> Sample:
        """Return the texts from one number to another."""
        rows = range(len(self.texts))[start:stop]
        return Sample(self.texts[start:stop], self.tokens.take(rows), self.targets[start:stop])

    def followed_by(self, other: Sample) -> Sample:
        """Return the texts of both, one sample behind the other."""
        return Sample(
            self.texts + other.texts,
            Tokens.joined([self.tokens, other.tokens]),
            np.concatenate([self.targets, other.targets]),
        )


def draw_sample(subject: Subject, texts: Sequence[Text], settings: LearningSettings) -> Sample:
    """Draw the texts to learn from, in random order, without those that have no tokens."""
    order = np.random.default_rng(settings.seed).permutation(len(texts))[: settings.texts]
    drawn = [texts[i] for i in order]
    tokens = subject.encode(drawn, settings.max_length)
    found = np.flatnonzero(tokens.lengths)
    if len(found) < 2:
        raise TextError("learning masks needs at least two texts, one of them to be held out.")
    tokens = tokens.take(found)
    return Sample([drawn[i] for i in found], tokens, predict(subject, tokens))


def joined_sample(subject: Subject, sample: Sample, settings: LearningSettings) -> Sample:
    """Return each text with another one of the sample behind it.

    Pairs of texts stay as they are, and so does a text that would be too long.
    """
    others = np.random.default_rng([settings.seed, 1]).permutation(len(sample.texts))
    texts = [_joined(text, sample.texts[i]) for text, i in zip(sample.texts, others, strict=True)]
    tokens = subject.encode(texts, settings.max_length)
    long = np.flatnonzero(tokens.truncated)
    for row in long:
        texts[row] = sample.texts[row]
    tokens = tokens.replaced(long, sample.tokens.take(long))
    return Sample(texts, tokens, predict(subject, tokens))


def _joined(one: Text, other: Text) -> Text:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one} {other}"
    return one
