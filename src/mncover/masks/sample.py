"""The texts that masks are learnt from: a random sample, with the model's own classes."""

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
    """Texts as tokens, and the class that the plain model predicts for each."""

    tokens: Tokens
    targets: NDArray[np.int64]

    def part(self, start: int, stop: int | None = None) -> Sample:
        """Return the texts from one number to another."""
        rows = range(len(self.tokens))[start:stop]
        return Sample(self.tokens.take(rows), self.targets[start:stop])


def draw_sample(subject: Subject, texts: Sequence[Text], settings: LearningSettings) -> Sample:
    """Draw the texts to learn from, in random order, without those that have no tokens."""
    order = np.random.default_rng(settings.seed).permutation(len(texts))[: settings.texts]
    tokens = subject.encode([texts[i] for i in order], settings.max_length).with_tokens()
    if len(tokens) < 2:
        raise TextError("learning masks needs at least two texts, one of them to be held out.")
    return Sample(tokens, predict(subject, tokens))
