"""A model's answers to texts, without looking inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.batches import Encoding, batches_by_length, distinct
from mncover.subject import Subject


def class_probabilities(
    subject: Subject,
    encodings: Sequence[Encoding],
    batch_size: int = 32,
    advance: Callable[[int], None] = lambda n: None,
) -> NDArray[np.float32]:
    """Return the class probabilities [texts, labels]; NaN for a text of no tokens."""
    first, which = distinct(encodings)
    lengths = [encodings[i].length for i in first]
    found = np.full((len(first), subject.n_labels), np.nan, dtype=np.float32)
    size = 1 if subject.single_rows else batch_size
    advance(len(encodings) - len(first))
    with subject.measuring(), torch.inference_mode():
        for rows in batches_by_length(lengths, size):
            inputs = subject.inputs([encodings[first[row]] for row in rows])
            probabilities = subject.probabilities(subject.call(subject.runner, inputs))
            if probabilities is not None:
                found[rows] = probabilities[: len(rows)].cpu().numpy()
            advance(len(rows))
    return found[which]
