"""Where pairs are cut while their mask is learnt: the share kept falls, and so does the noise."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from mncover.masks.settings import LearningSettings

FIRST = 0.97  # share of pairs kept in the first step; all of them would need infinite logits
RAMP = 0.7  # share of the steps after which no more pairs are dropped
SAMPLED = 20_000  # pairs from which the cut is found in every step


class Cut(NamedTuple):
    """A pair counts with probability sigmoid((logit - at) / noise)."""

    at: float
    noise: float


ZERO = Cut(0.0, 1.0)


def share_at(done: float, last: float) -> float:
    """Return the share of pairs to keep when a share `done` of the steps is done."""
    left = max(0.0, 1 - done / RAMP)
    return min(FIRST, last + (FIRST - last) * left**3) if last < FIRST else last


def cut_at(logits: Tensor, done: float, settings: LearningSettings) -> Cut:
    """Return the cut with which the share of pairs that is due is kept, on average."""
    noise = 1 - (1 - settings.cooling) * min(1.0, done / RAMP)
    if not len(logits):
        return Cut(0.0, noise)
    some = logits[:: max(1, len(logits) // SAMPLED)].double()
    share = min(max(share_at(done, settings.pairs_kept), 1e-6), 1 - 1e-6)
    low, high = some.min() - 30 * noise, some.max() + 30 * noise
    for _ in range(24):
        middle = (low + high) / 2
        above = ((some - middle) / noise).sigmoid().mean() > share  # too many: cut higher
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return Cut(float((low + high) / 2), noise)


def exact_cut(logits: Tensor, share: float) -> float:
    """Return the smallest logit that is kept if the highest `share` of them is."""
    kept = round(share * len(logits))
    if not kept:
        return float(logits.max()) + 1 if len(logits) else 0.0
    return float(logits.kthvalue(len(logits) - kept + 1).values)
