"""What masks need to know of a tokenizer: its tokens as people read them, and which are special.

Pairs of words as numbers: which of them texts hold, and where a pair stands in a list.

A pair is two different words in either order. Its key is `low * V + high` for token numbers
low < high in a vocabulary of V; sorted keys are searched by halving, so nothing of size V² is
ever made. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.engine.loading import fingerprint_tokenizer


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer's tokens by their number, the special ones, and its fingerprint."""

    words: tuple[str, ...]
    special: NDArray[np.int64]
    fingerprint: str


def vocabulary(tokenizer: Any, size: int = 0) -> Vocabulary:
    """Return a tokenizer's vocabulary, filled up to `size` if the model has more embeddings."""
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    words = [_readable(tokenizer, token) for token in tokens]
    words += [f"<{number}>" for number in range(len(words), size)]
    special = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
    return Vocabulary(tuple(words), special, fingerprint_tokenizer(tokenizer))


def _readable(tokenizer: Any, token: str | None) -> str:
    """Return a token without its tokenizer's marks for spaces and bytes."""
    if token is None:
        return ""
    if token.startswith("##"):  # WordPiece: the mark says that a word goes on
        return token
    return tokenizer.convert_tokens_to_string([token]).strip() or token


def tokens_of(tokenizer: Any, word: str) -> list[int]:
    """Return the numbers of the tokens that a word has, at a text's start and after a space."""
    special = set(tokenizer.all_special_ids)
    found = tokenizer([word, f" {word}"], add_special_tokens=False)["input_ids"]
    return sorted({number for ids in found for number in ids} - special)


Keys = NDArray[np.int64]

# So many keys are collected before they are counted and forgotten.
CHUNK_KEYS = 4_000_000


def keys_of(first: NDArray[np.int64], second: NDArray[np.int64], vocabulary: int) -> Keys:
    """Return the key of each pair of token numbers; the order within a pair is of no matter.

    >>> keys_of(np.array([1, 5]), np.array([5, 1]), 10)
    array([15, 15])
    """
    return np.minimum(first, second) * vocabulary + np.maximum(first, second)


def count_pairs(
    texts: Iterable[Sequence[int]], vocabulary: int, special: NDArray[np.int64], min_count: int
) -> tuple[Keys, NDArray[np.int64]]:
    """Return the sorted keys of the pairs that occur at least `min_count` times, and how often.

    Two places of a text that hold different words, none of them special, are one occurrence.
    """
    keys, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    waiting: list[Keys] = []
    size = 0
    for text in texts:
        waiting.append(_pairs_in(np.asarray(text, dtype=np.int64), vocabulary, special))
        size += len(waiting[-1])
        if size >= CHUNK_KEYS:
            keys, counts = _merged(keys, counts, waiting)
            waiting, size = [], 0
    keys, counts = _merged(keys, counts, waiting)
    often = counts >= min_count
    return keys[often], counts[often]


def _pairs_in(ids: NDArray[np.int64], vocabulary: int, special: NDArray[np.int64]) -> Keys:
    words = ids[~np.isin(ids, special)]
    first, second = np.triu_indices(len(words), k=1)
    different = words[first] != words[second]
    return keys_of(words[first[different]], words[second[different]], vocabulary)


def _merged(
    keys: Keys, counts: NDArray[np.int64], more: list[Keys]
) -> tuple[Keys, NDArray[np.int64]]:
    found, n = np.unique(np.concatenate([np.empty(0, np.int64), *more]), return_counts=True)
    every, which = np.unique(np.concatenate([keys, found]), return_inverse=True)
    total = np.bincount(which, weights=np.concatenate([counts, n]), minlength=len(every))
    return every, total.astype(np.int64)
