"""Run texts through a subject while a reader takes the sites: the one loop of the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.data.layout import Kind
from mncover.data.memory import give_back
from mncover.engine.batches import (
    Batch,
    Rows,
    Tokens,
    ahead,
    batches_of,
    distinct,
    parallel,
    staged,
)
from mncover.engine.readers import NotFiniteError, Reader
from mncover.engine.subject import Subject
from mncover.engine.taps import Read, Taps
from mncover.errors import ActivationError
from mncover.types import Text, shorten

PIECE, GPU_PIECE = 8192, 65536  # texts that are tokenised and sorted together
# A text of more tokens runs alone, on all threads: several at a time would take a multiple of the
# memory that the model itself needs for it.
LONG = 1024
MANY = 1024  # texts after which memory is given back

Advance = Callable[[int], None]
Run = Callable[[Batch, dict[str, Tensor]], Any]  # what runs the model on a batch


def measure(
    taps: Taps,
    texts: Sequence[Text],
    tokens: Tokens,
    reader: Reader,
    batch_size: int | None,
    advance: Advance,
) -> NDArray[np.float32]:
    """Run every text once, hand its sites to `reader`, and return the class probabilities.

    The probabilities are [texts, labels], in the order of the texts; a text without tokens, which
    is not run, has NaN. `advance` is told how many texts each batch had. Batches run in parallel,
    so `reader` gets them in any order.
    """
    subject = taps.subject

    def run(batch: Batch, inputs: dict[str, Tensor]) -> Any:
        return forward(subject.filled(inputs), behind(batch.start, reader.begin(batch)))

    with errors_named(texts), taps.open() as forward:
        found = _run_all(subject, tokens, batch_size, run, advance)
        reader.end()
    if len(tokens) >= MANY:
        give_back()
    return found


def behind(start: int, read: Read) -> Read:
    """Return what reads only the tokens from `start` on, and their attention to each other."""
    if not start:
        return read

    def rest(kind: Kind, layer: int, values: Any) -> None:
        hidden = kind == "hidden"
        read(kind, layer, values[:, start:] if hidden else values[:, :, start:, start:])

    return rest


class Piece(NamedTuple):
    """Texts as tokens, the first of each distinct one, and which of them every text is."""

    texts: Sequence[Text]
    tokens: Tokens
    first: Rows
    which: Rows


def piece_of(subject: Subject, texts: Sequence[Text], max_length: int) -> Piece:
    """Tokenise texts and find equal ones."""
    tokens = subject.encode(texts, max_length)
    return Piece(texts, tokens, *distinct(tokens))


@contextmanager
def in_pieces(
    subject: Subject, texts: Sequence[Text], max_length: int, cuts: Sequence[slice]
) -> Iterator[Iterator[Piece]]:
    """Yield texts in pieces, the next of which is tokenised while one is run."""

    def prepare(cut: slice) -> Piece:
        return piece_of(subject, texts[cut], max_length)

    with ahead(1 if subject.answerer else len(cuts)) as each:  # tokens may come from the model
        yield each(prepare, cuts)


def piece_size(subject: Subject, size: int | None = None) -> int:
    """Return how many texts to take at a time: no list of a whole training set's tokens is held.

    A GPU gets larger pieces: the more texts, the more of them are equally long.
    """
    return GPU_PIECE if subject.device.type == "cuda" else size or PIECE


def cut_in_pieces(subject: Subject, n: int, size: int | None = None) -> list[slice]:
    """Return how to cut texts into pieces."""
    step = piece_size(subject, size)
    return [slice(start, start + step) for start in range(0, n, step)]


def measure_piece(
    taps: Taps, piece: Piece, reader: Reader, batch_size: int | None, advance: Advance
) -> NDArray[np.float32]:
    """Do the same with the distinct texts of a piece, the only ones that `reader` sees."""
    advance(len(piece.texts) - len(piece.first))
    chosen = [piece.texts[i] for i in piece.first], piece.tokens.take(piece.first)
    return measure(taps, *chosen, reader, batch_size, advance)[piece.which]


def _run_all(
    subject: Subject, tokens: Tokens, batch_size: int | None, run: Run, advance: Advance
) -> NDArray[np.float32]:
    """Run batches of equally long texts, short ones in parallel; return the class probabilities.

    These stay on the device until the end: a GPU would have to finish each batch first.
    """

    def answers(item: tuple[Batch, dict[str, Tensor]]) -> Tensor | None:
        with torch.inference_mode():
            found = subject.probabilities(run(*item), item[1])
        return None if found is None else found[: len(item[0].rows)]  # behind them are copies

    long, short = _by_length(tokens, batches_of(tokens, *subject.limits(batch_size)))
    found: list[Tensor] = []
    for workers, batches in ((1, long), (subject.workers, short)):
        with parallel(workers) as run_each:
            each = run_each(answers, staged(tokens, batches, subject.device))
            for rows, probabilities in zip(batches, each, strict=True):
                found += [] if probabilities is None else [probabilities]
                advance(len(rows))
    every = np.full((len(tokens), subject.n_labels), np.nan, dtype=np.float32)
    if found:
        every[np.concatenate(long + short)] = torch.cat(found).cpu().numpy()
    return every


def _by_length(tokens: Tokens, batches: Sequence[Rows]) -> tuple[list[Rows], list[Rows]]:
    """Return the batches of long texts, and the others."""
    found: tuple[list[Rows], list[Rows]] = [], []
    spans = tokens.spans
    for rows in batches:
        found[int(spans[rows[0]] <= LONG)].append(rows)
    return found


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
    tokens: Tokens,
    batch_size: int | None = None,
    advance: Advance = lambda n: None,
) -> NDArray[np.float32]:
    """Return the class probabilities [texts, labels]; NaN for a text without tokens."""
    first, which = distinct(tokens)
    advance(len(tokens) - len(first))

    @torch.inference_mode()
    def run(batch: Batch, inputs: dict[str, Tensor]) -> Any:
        return subject.call(subject.runner, subject.filled(inputs))

    with subject.measuring():
        return _run_all(subject, tokens.take(first), batch_size, run, advance)[which]
