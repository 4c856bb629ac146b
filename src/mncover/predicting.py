"""A model's answers to texts, without looking inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.batches import Encoding, batches_by_length, distinct
from mncover.sidebyside import batch_tokens, side_by_side
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
    n = subject.lanes

    @torch.inference_mode()
    def run(rows: list[int]) -> list[int]:
        inputs = subject.inputs([encodings[first[row]] for row in rows])
        probabilities = subject.probabilities(subject.call(subject.runner, inputs))
        if probabilities is not None:
            found[rows] = probabilities[: len(rows)].cpu().numpy()
        return rows

    with subject.measuring(), side_by_side(n) as run_all:
        for rows in run_all(run, batches_by_length(lengths, size, batch_tokens(n))):
            advance(len(rows))
    return found[which]
