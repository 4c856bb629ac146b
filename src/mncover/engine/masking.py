"""Which tokens and pairs of a batch the masks let count, looked up all at once on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.data.layout import Site
from mncover.engine.kernels.base import Array, Kernels

if TYPE_CHECKING:
    from mncover.masks.masks import Masks

# Places of pairs that are in no list: a word with itself or with a special token, which always
# counts; and a pair that training did not see. Negative, so that they index a list's last two.
ALWAYS, UNSEEN = -1, -2


class PairTable:
    """Sorted keys of pairs (see `pairs.py`) and which token numbers are special."""

    def __init__(self, keys: Tensor, special: Tensor, vocabulary: int) -> None:
        self.keys = keys
        self.vocabulary = vocabulary
        self.is_special = torch.zeros(vocabulary, dtype=torch.bool, device=keys.device)
        self.is_special[special] = True

    def always(self, ids: Tensor) -> Tensor:
        """Return which tokens [n, T] are special and therefore always count."""
        return self.is_special[ids]

    def places(self, ids: Tensor) -> Tensor:
        """Return where each pair of a batch's tokens [n, T] stands in the keys: [n, T, T].

        Negative numbers are `ALWAYS` or `UNSEEN`.
        """
        first, second = ids[:, :, None], ids[:, None, :]
        keys = torch.minimum(first, second) * self.vocabulary + torch.maximum(first, second)
        special = self.is_special[ids]
        always = (first == second) | special[:, :, None] | special[:, None, :]
        return torch.where(always, ALWAYS, self._find(keys))

    def _find(self, keys: Tensor) -> Tensor:
        if not len(self.keys):
            return torch.full_like(keys, UNSEEN)
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return torch.where(self.keys[at] == keys, at, UNSEEN)


class MaskTable:
    """Masks as tensors on a device: which words and pairs of a batch of tokens count."""

    def __init__(self, masks: Masks, device: torch.device) -> None:
        def here(array: NDArray[np.generic]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        self.pairs = PairTable(here(masks.pair_keys), here(masks.special), len(masks.words))
        self.keep_words = here(masks.keep_words)
        self.flags = self.pairs.is_special.byte() | self.keep_words.byte() << 1
        self.by_words, self.unseen = masks.unseen == "words", masks.unseen == "keep"
        ends = np.array([self.unseen, True])  # where UNSEEN and ALWAYS point
        self.keep_pairs = here(np.concatenate([masks.keep_pairs, ends]))

    def tokens_of(self, ids: Tensor) -> Tensor:
        """Return which tokens [n, T] count."""
        return self.keep_words[ids]

    def pairs_of(self, ids: Tensor) -> Tensor:
        """Return which pairs of tokens count: [n, T, T]."""
        places = self.pairs.places(ids)
        keep = self.keep_pairs[places]
        if self.by_words:
            tokens = self.tokens_of(ids)
            keep |= (places == UNSEEN) & tokens[:, :, None] & tokens[:, None, :]
        return keep


class Keep:
    """Looks up the tokens and pairs of batches, as the kernels want them."""

    def __init__(self, masks: Masks, kernels: Kernels) -> None:
        self.table = MaskTable(masks, kernels.device)
        self.kernels = kernels

    def of(self, ids: Tensor, pairs: bool = True) -> Kept:
        """Return what counts of a batch of tokens [n, T]; without `pairs`, of the tokens alone."""
        if not pairs:
            tokens = self.table.tokens_of(ids).to(torch.uint8)
            return Kept(tokens, tokens[:, :0], self.kernels)
        return Kept(*self.kernels.look_up(self.table, ids), self.kernels)


class Kept:
    """1 for the tokens [n, T] and pairs [n, T, T] of a batch that count, 0 for the others."""

    def __init__(self, tokens: Tensor, pairs: Tensor, kernels: Kernels) -> None:
        self.tokens, self.pairs, self.kernels = tokens, pairs, kernels
        self._parts: dict[tuple[str, int], Array] = {}

    def at(self, site: Site) -> Array:
        """Return 1 or 0 for each neuron that the batch touches in each group of a site: [n, m]."""
        key = (site.kind, site.columns)
        if key not in self._parts:
            part = self.tokens if site.kind == "hidden" else self.pairs
            self._parts[key] = self.kernels.keep(part, site)
        return self._parts[key]
