"""Sentence embeddings by any encoder, to tell whether a changed text still means the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from mncover.batches import Encoding, batches_with_padding, distinct
from mncover.sidebyside import side_by_side
from mncover.subject import Subject
from mncover.texts import Text


class Embedder:
    """Turns a text into the mean of the last hidden states of its tokens, at length one.

    The cosine of two texts is then the product of their embeddings. The encoder may be the
    subject itself or a better one: a model that was trained to classify puts texts of one class
    close together, whatever they mean. Batches are padded: what that changes in the last digits
    is of no matter to a cosine.
    """

    def __init__(self, encoder: Subject, max_length: int, batch_size: int = 32) -> None:
        encoder.check_length(max_length)
        self.encoder = encoder
        self.max_length = max_length
        self.batch_size = batch_size

    def embed(
        self, texts: Sequence[Text], advance: Callable[[int], None] = lambda n: None
    ) -> NDArray[np.float32]:
        """Return the embeddings [texts, dimensions]; zeros for a text of no tokens."""
        encoder = self.encoder
        encodings = encoder.encode(texts, self.max_length)
        first, which = distinct(encodings)
        advance(len(encodings) - len(first))
        found: dict[int, NDArray[np.float32]] = {}
        lengths = [encodings[i].length for i in first]

        def run(rows: list[int]) -> tuple[list[int], NDArray[np.float32]]:
            return rows, self._means([encodings[first[row]] for row in rows]).cpu().numpy()

        n = encoder.lanes
        batches = batches_with_padding(lengths, self.batch_size, n)
        with encoder.evaluating(), side_by_side(min(n, len(batches))) as run_all:
            for rows, means in run_all(run, batches):
                found.update(zip(rows, means, strict=True))
                advance(len(rows))
        width = len(next(iter(found.values()))) if found else 0
        empty = np.zeros(width, dtype=np.float32)
        return np.stack([found.get(number, empty) for number in which])

    @torch.inference_mode()
    def _means(self, encodings: Sequence[Encoding]) -> Tensor:
        inputs = self.encoder.padded(encodings)
        hidden = self.encoder.call(self.encoder.traced, inputs).last_hidden_state.float()
        counts = inputs["attention_mask"].unsqueeze(-1)
        return normalize((hidden * counts).sum(1) / counts.sum(1), dim=-1)
