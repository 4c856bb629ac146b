"""What masks need to know of a tokenizer, and pairs of its tokens as numbers. No torch here.

A pair is two different words in either order. Its key is `low * V + high` for token numbers
low < high in a vocabulary of V. Sorted keys are found by binary search, so nothing of size V² is
ever allocated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mncover.types import well_formed

Integers = NDArray[np.int64]
Keys = Integers

CHUNK_KEYS = 4_000_000  # keys are counted, and forgotten, whenever this many are collected


class Vocabulary(NamedTuple):
    """A tokenizer's fingerprint, its tokens by number, and the special ones."""

    fingerprint: str
    words: tuple[str, ...]
    special: Integers


def vocabulary(tokenizer: Any, size: int = 0) -> Vocabulary:
    """Return a tokenizer's vocabulary, padded to `size` if the model has more embeddings."""
    from mncover.engine.loading import fingerprint_tokenizer  # imports torch

    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    words = [_readable(tokenizer, token) for token in tokens]
    words += [f"<{number}>" for number in range(len(words), size)]
    special = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
    return Vocabulary(fingerprint_tokenizer(tokenizer), tuple(words), special)


def _readable(tokenizer: Any, token: str | None) -> str:
    """Return a token without its tokenizer's marks for spaces and bytes."""
    if token is None or token.startswith("##"):  # WordPiece marks the continuation of a word
        return token or ""
    return tokenizer.convert_tokens_to_string([token]).strip() or token


def tokens_of(tokenizer: Any, word: str) -> list[int]:
    """Return the numbers of a word's tokens, both at the start of a text and after a space."""
    whole = well_formed(word)
    found = tokenizer([whole, f" {whole}"], add_special_tokens=False)["input_ids"]
    return sorted({number for ids in found for number in ids} - set(tokenizer.all_special_ids))


def count_pairs(
    texts: Iterable[ArrayLike], vocabulary: int, special: Integers, min_count: int
) -> tuple[Keys, Integers]:
    """Return the sorted keys of pairs that occur at least `min_count` times, and their counts.

    Any two positions of a text that hold different words, neither special, are one occurrence.
    """
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    waiting, size = list[Keys](), 0
    for text in texts:
        waiting.append(_pairs_in(np.asarray(text, dtype=np.int64), vocabulary, special))
        size += len(waiting[-1])
        if size >= CHUNK_KEYS:
            keys, counts = _merged(keys, counts, waiting)
            waiting, size = [], 0
    keys, counts = _merged(keys, counts, waiting)
    often = counts >= min_count
    return keys[often], counts[often]


def _pairs_in(ids: Integers, vocabulary: int, special: Integers) -> Keys:
    words = ids[~np.isin(ids, special)]
    a, b = (words[places] for places in np.triu_indices(len(words), k=1))
    keys: Keys = (np.minimum(a, b) * vocabulary + np.maximum(a, b))[a != b]
    return keys


def _merged(keys: Keys, counts: Integers, more: list[Keys]) -> tuple[Keys, Integers]:
    found, n = np.unique(np.concatenate([np.empty(0, np.int64), *more]), return_counts=True)
    every, which = np.unique(np.concatenate([keys, found]), return_inverse=True)
    total = np.bincount(which, weights=np.concatenate([counts, n]), minlength=len(every))
    return every, total.astype(np.int64)
