"""Run texts through a subject while a reader takes the sites: the one loop of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.engine.batches import Encoding, batch_tokens, batches_by_length, distinct, parallel
from mncover.engine.readers import NotFiniteError, Reader
from mncover.engine.subject import Subject
from mncover.engine.taps import Taps
from mncover.errors import ActivationError
from mncover.types import Text, shorten

Advance = Callable[[int], None]


def measure(
    taps: Taps,
    texts: Sequence[Text],
    encodings: Sequence[Encoding],
    reader: Reader,
    batch_size: int,
    advance: Advance,
) -> NDArray[np.float32]:
    """Run every text once, hand its sites to `reader`, and return the class probabilities.

    The probabilities are [texts, labels], in the order of the texts; a text without tokens, which
    is not run, has NaN. `advance` is told how many texts each batch had. Batches run in parallel,
    so `reader` gets them in any order.
    """
    subject = taps.subject
    found = np.full((len(texts), subject.n_labels), np.nan, dtype=np.float32)

    def run(rows: list[int]) -> list[int]:
        inputs = subject.inputs([encodings[row] for row in rows])
        read = reader.begin(rows, inputs["input_ids"][: len(rows)])  # behind them are copies
        _keep(subject.probabilities(forward(inputs, read)), found, rows)
        return rows

    with errors_named(texts), taps.open() as forward:
        _run_all(subject, encodings, batch_size, run, advance)
        reader.end()
    return found


def _keep(probabilities: Tensor | None, found: NDArray[np.float32], rows: list[int]) -> None:
    if probabilities is not None:
        found[rows] = probabilities[: len(rows)].cpu().numpy()


def _run_all(
    subject: Subject,
    encodings: Sequence[Encoding],
    batch_size: int,
    run: Callable[[list[int]], list[int]],
    advance: Advance,
) -> None:
    """Call `run` with the indices of equally long texts, in parallel."""
    size = 1 if subject.single_rows else batch_size
    lengths = [encoding.length for encoding in encodings]
    batches = batches_by_length(lengths, size, batch_tokens(subject.workers))
    with parallel(subject.workers) as run_each:
        for rows in run_each(run, batches):
            advance(len(rows))


@contextmanager
def errors_named(texts: Sequence[Text]) -> Iterator[None]:
    """Turn a value that is not finite into an error that names its text."""
    try:
        yield
    except NotFiniteError as error:
        text = texts[error.row]
        raise ActivationError(
            f'NaN or infinity in {error.site.name} for the text "{shorten(text)}": '
            "the model's weights or its number format are at fault."
        ) from None


def class_probabilities(
    subject: Subject,
    encodings: Sequence[Encoding],
    batch_size: int = 32,
    advance: Callable[[int], None] = lambda n: None,
) -> NDArray[np.float32]:
    """Return the class probabilities [texts, labels]; NaN for a text without tokens."""
    first, which = distinct(encodings)
    chosen = [encodings[i] for i in first]
    found = np.full((len(first), subject.n_labels), np.nan, dtype=np.float32)
    advance(len(encodings) - len(first))

    @torch.inference_mode()
    def run(rows: list[int]) -> list[int]:
        inputs = subject.inputs([chosen[row] for row in rows])
        _keep(subject.probabilities(subject.call(subject.runner, inputs)), found, rows)
        return rows

    with subject.measuring():
        _run_all(subject, chosen, batch_size, run, advance)
    return found[which]
