"""How often does a model, seen through its masks, still predict what it predicts without them?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mncover.engine.batches import Encoding, batches_by_length
from mncover.engine.loading import fingerprint_tokenizer
from mncover.engine.masking import MaskTable
from mncover.engine.subject import Subject
from mncover.errors import MaskError, TextError
from mncover.masks.vocabulary import Integers
from mncover.masks.wimask import inserted, pass_through
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.masks.masks import Masks

BATCH_SIZE = 128


def predict(subject: Subject, encodings: Sequence[Encoding]) -> Integers:
    """Return the class that the model predicts for each text."""
    found = np.full(len(encodings), -1, dtype=np.int64)
    size = 1 if subject.single_rows else BATCH_SIZE
    with torch.inference_mode():
        for rows in batches_by_length([e.length for e in encodings], size):
            output = subject.model(**subject.tensors([encodings[row] for row in rows]))
            found[rows] = output.logits.argmax(-1).cpu().numpy()
    return found


def fidelity_on(
    subject: Subject, masks: Masks, texts: Sequence[Text], max_length: int = 128
) -> float:
    """Return the fidelity of masks: the share of texts that keep their prediction."""
    if subject.n_labels < 2:
        raise MaskError(f"{subject.name} has no classes, so there is no fidelity to measure.")
    masks.require_tokenizer(fingerprint_tokenizer(subject.tokenizer))
    encodings = [e for e in subject.encode(texts, max_length) if e.length]
    if not encodings:
        raise TextError("there is no text to measure fidelity on.")
    with subject.measuring():
        return agreement(subject, masks, encodings, predict(subject, encodings))


def agreement(subject: Subject, masks: Masks, texts: Sequence[Encoding], plain: Integers) -> float:
    """Return the share of texts whose prediction through the masks equals the plain one."""
    table, message = MaskTable(masks, subject.device), None
    if masks.message is not None:
        message = torch.from_numpy(masks.message).to(subject.device)

    def change(ids: Tensor, embeddings: Tensor) -> Tensor:
        words, pairs = table.tokens_of(ids).float(), table.pairs_of(ids).float()
        return pass_through(embeddings, words, pairs, message, masks.normalisation)

    with inserted(subject, change):
        return float((predict(subject, texts) == plain).mean())
