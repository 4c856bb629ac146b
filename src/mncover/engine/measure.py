"""Run texts through a subject while a reader takes the sites: the one loop of the run side.

A model's answers to texts, without looking inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from mncover.augment.packing import PACKED, Packing, groups_of, packs
from mncover.engine.batches import Encoding, batches_by_length, distinct
from mncover.engine.parallel import batch_tokens, side_by_side
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
    packing: Packing | None = None,
) -> NDArray[np.float32]:
    """Run every text once, hand its sites to `reader`, and return the class probabilities.

    The probabilities are [texts, labels], in the order of the texts; a text of no tokens, which
    is not run, has NaN. `advance` is told how many texts each batch had. Batches run side by side,
    so `reader` gets them in any order. With `packing` texts of different lengths run together,
    which gives no probabilities: there, too, is NaN.
    """
    found = np.full((len(texts), taps.subject.n_labels), np.nan, dtype=np.float32)
    lengths = [encoding.length for encoding in encodings]
    reach = 0 if packing is None else packing.reach
    short = [length if length <= reach else 0 for length in lengths]
    long = [length if length > reach else 0 for length in lengths]
    try:
        if packing is not None and any(short):
            _run_packs(packing, encodings, short, reader, batch_size, advance)
        if packing is None or any(long):
            _run_batches(taps, encodings, long, reader, batch_size, advance, found)
    except NotFiniteError as error:
        raise _activation_error(error, texts) from None
    return found


def _run_batches(
    taps: Taps,
    encodings: Sequence[Encoding],
    lengths: Sequence[int],
    reader: Reader,
    batch_size: int,
    advance: Advance,
    found: NDArray[np.float32],
) -> None:
    """Run the texts that have a length, those of equal length together."""
    subject = taps.subject
    n = subject.lanes
    size = 1 if subject.single_rows else batch_size

    def run(rows: list[int]) -> list[int]:
        inputs = subject.inputs([encodings[row] for row in rows])
        read = reader.begin(rows, inputs["input_ids"][: len(rows)])  # behind them are copies
        probabilities = subject.probabilities(forward(inputs, read))
        if probabilities is not None:
            found[rows] = probabilities[: len(rows)].cpu().numpy()
        return rows

    with taps.open() as forward, side_by_side(n) as run_all:
        for rows in run_all(run, batches_by_length(lengths, size, batch_tokens(n))):
            advance(len(rows))


def _run_packs(
    packing: Packing,
    encodings: Sequence[Encoding],
    lengths: Sequence[int],
    reader: Reader,
    batch_size: int,
    advance: Advance,
) -> None:
    """Run the texts that have a length, whatever it is, in packs."""
    subject = packing.taps.subject
    n = subject.lanes

    def run(rows: list[int]) -> list[int]:
        groups = groups_of(rows, lengths)
        members = [[encodings[row] for row in group] for group in groups]
        ids = [subject.tensors(texts)["input_ids"] for texts in members]
        packing.run(forward, members, list(map(reader.begin, groups, ids)))
        return rows

    with packing.taps.open(PACKED) as forward, side_by_side(n) as run_all:
        for rows in run_all(run, packs(lengths, batch_size, batch_tokens(n), n)):
            advance(len(rows))


def _activation_error(error: NotFiniteError, texts: Sequence[Text]) -> ActivationError:
    finite = torch.isfinite(torch.as_tensor(error.values)).flatten(1).all(1)
    text = texts[error.rows[int((~finite).nonzero()[0])]]
    return ActivationError(
        f'NaN or infinity in {error.site.name} for the text "{shorten(text)}": '
        "the model's weights or its number format are at fault."
    )


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
