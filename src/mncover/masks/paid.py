"""The attention that a model pays to pairs of words: where learning their mask starts."""

from __future__ import annotations

import torch
from torch import Tensor

from mncover.engine.batches import Tokens, batches_by_length, staged
from mncover.engine.gating import gating
from mncover.engine.masking import PairTable
from mncover.engine.subject import Subject

BATCH_SIZE = 128


def attention_paid(subject: Subject, tokens: Tokens, table: PairTable) -> Tensor:
    """Return for each pair seen how much attention it gets, in deviations from the mean of pairs.

    It is the logarithm of the weight that the two words pay each other, as a multiple of even
    attention: the mean over layers, heads, both directions and all places where they occur.
    """
    total = torch.zeros(len(table.keys), device=subject.device)
    count = torch.zeros_like(total)
    layers = list[Tensor]()
    size = 1 if subject.single_rows else BATCH_SIZE
    batches = batches_by_length(tokens.lengths, size)
    with gating(subject, lambda weights: layers.append(weights.mean(1))), torch.inference_mode():
        for _, inputs in staged(tokens, batches, subject.device):
            subject.model(**inputs)
            weights = torch.stack(layers).mean(0)
            layers.clear()
            places = table.places(inputs["input_ids"])
            seen = (places >= 0).triu(1)
            at, each = (places[seen],), ((weights + weights.mT) * places.shape[1])[seen]
            total.index_put_(at, each, accumulate=True)  # unlike index_add_, always rounds alike
            count.index_put_(at, torch.ones_like(each), accumulate=True)
    paid = (total / count.clamp(min=1) + 1e-6).log()
    spread = paid.std() if len(paid) > 1 else paid.new_ones(())
    return ((paid - paid.mean()) / spread.clamp(min=1e-6)).clone()
