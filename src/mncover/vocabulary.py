"""What masks need to know of a tokenizer: its tokens as people read them, and which are special."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.fingerprints import fingerprint_tokenizer


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
