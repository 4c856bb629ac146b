"""Run texts through a subject while a reader takes the sites: the one loop of the run side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.batches import Encoding, batches_by_length
from mncover.errors import ActivationError
from mncover.readers import NotFiniteError, Reader
from mncover.sidebyside import batch_tokens, side_by_side
from mncover.taps import Taps
from mncover.texts import Text, shorten

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

    The probabilities are [texts, labels], in the order of the texts; a text of no tokens, which
    is not run, has NaN. `advance` is told how many texts each batch had. Batches run side by side,
    so `reader` gets them in any order.
    """
    subject = taps.subject
    found = np.full((len(texts), subject.n_labels), np.nan, dtype=np.float32)
    lengths = [encoding.length for encoding in encodings]
    size = 1 if subject.single_rows else batch_size
    n = subject.lanes

    def run(rows: list[int]) -> list[int]:
        inputs = subject.inputs([encodings[row] for row in rows])
        read = reader.begin(rows, inputs["input_ids"][: len(rows)])  # behind them are copies
        try:
            output = forward(inputs, read)
        except NotFiniteError as error:
            raise _activation_error(error, [texts[row] for row in rows]) from None
        probabilities = subject.probabilities(output)
        if probabilities is not None:
            found[rows] = probabilities[: len(rows)].cpu().numpy()
        return rows

    with taps.open() as forward, side_by_side(n) as run_all:
        for rows in run_all(run, batches_by_length(lengths, size, batch_tokens(n))):
            advance(len(rows))
    return found


def _activation_error(error: NotFiniteError, texts: list[Text]) -> ActivationError:
    finite = torch.isfinite(torch.as_tensor(error.values)).flatten(1).all(1)
    text = texts[int((~finite).nonzero()[0])]
    return ActivationError(
        f'NaN or infinity in {error.site.name} for the text "{shorten(text)}": '
        "the model's weights or its number format are at fault."
    )
