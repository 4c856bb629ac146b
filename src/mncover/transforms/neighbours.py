"""The words whose vectors point nearly the same way, found once and kept in the user's cache."""

from __future__ import annotations

import warnings
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mncover.caching import cache_folder
from mncover.files import replacing
from mncover.transforms.inflection import same_word
from mncover.transforms.kinds import TextTransform
from mncover.transforms.stopwords import is_stop_word
from mncover.transforms.synonyms import word_swap
from mncover.transforms.vectors import VectorSource, find_vectors, read_vectors

# The most frequent words, how many neighbours of each, and how near (cosine) they must be.
WORDS, NEAREST, COSINE = 30_000, 10, 0.6
_BLOCK = 1000
_FORMAT = 1  # part of the cache's name: raise it when what is kept changes


class Neighbours:
    """The neighbours of each word; loaded, or computed, when the first is asked for."""

    def __init__(self, source: VectorSource) -> None:
        self.source = source
        self._table: tuple[dict[str, int], list[str], NDArray[np.int32]] | None = None
        self._known: dict[str, tuple[str, ...]] = {}

    def near(self, word: str) -> tuple[str, ...]:
        """Return words near a lower-case word, apart from function words and its own forms."""
        if word not in self._known:
            self._known[word] = self._find(word)
        return self._known[word]

    def _find(self, word: str) -> tuple[str, ...]:
        if self._table is None:
            words, nearest = load_neighbours(self.source)
            self._table = {other: i for i, other in enumerate(words)}, words, nearest
        places, words, nearest = self._table
        if word not in places or is_stop_word(word):
            return ()
        found = [words[i] for i in nearest[places[word]] if i >= 0]
        return tuple(w for w in found if not is_stop_word(w) and not same_word(w, word))


def load_neighbours(source: VectorSource) -> tuple[list[str], NDArray[np.int32]]:
    """Return the words and their neighbours' numbers [words, nearest], -1 where there are fewer.

    They are kept in the cache; a cache that cannot be read is made again.
    """
    path = _cache_path(source)
    kept = _load(path)
    if kept is not None:
        return kept
    words, vectors = read_vectors(source, WORDS)
    nearest = nearest_words(vectors)
    _keep(path, words, nearest)
    return words, nearest


def nearest_words(vectors: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the numbers of the nearest other words of each, the nearest first.

    >>> nearest_words(np.array([[1, 0], [9, 1], [0, 1]], np.float32))[:, 0].tolist()
    [1, 0, -1]
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = vectors / np.where(lengths > 0, lengths, 1)
    found = np.full((len(unit), NEAREST), -1, dtype=np.int32)
    for start in range(0, len(unit), _BLOCK):
        cosines = unit[start : start + _BLOCK] @ unit.T
        np.fill_diagonal(cosines[:, start:], -1)  # not the word itself
        rows, columns = np.nonzero(cosines >= COSINE)
        order = np.lexsort((columns, -cosines[rows, columns], rows))
        rows, columns = rows[order], columns[order]
        ranks = np.arange(len(rows)) - np.searchsorted(rows, rows)
        best = ranks < NEAREST
        found[start + rows[best], ranks[best]] = columns[best]
    return found


def _cache_path(source: VectorSource) -> Path:
    return cache_folder("neighbours") / f"{source.digest}-{_FORMAT}.npz"


def _keep(path: Path, words: list[str], nearest: NDArray[np.int32]) -> None:
    """Put neighbours into the cache; a cache that cannot be written costs time, not the work."""
    content = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, words=content, nearest=nearest)
    except OSError as error:
        warnings.warn(f"neighbours cannot be kept: {path.parent}: {error.strerror}.", stacklevel=2)


def _load(path: Path) -> tuple[list[str], NDArray[np.int32]] | None:
    """Return kept neighbours; a file that is missing or damaged is the same as none."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            words = kept["words"].tobytes().decode().split("\n")
            nearest = kept["nearest"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None
    fits = nearest.shape == (len(words), NEAREST) and nearest.dtype == np.int32
    return (words, nearest) if fits and nearest.max(initial=-1) < len(words) else None


def embedding_transform(vectors: Path | None) -> TextTransform:
    """Return WordSwapEmbedding."""
    return TextTransform("WordSwapEmbedding", word_swap(_neighbours(find_vectors(vectors)).near))


@cache
def _neighbours(source: VectorSource) -> Neighbours:
    return Neighbours(source)
