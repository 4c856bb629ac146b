"""Rows that wait on disk while texts are run, so that a long run needs no more memory than a short.

Only what is made for a row waits there. Its text is the caller's own string, and stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.blobs import BlobStore, Place
from mncover.data.table import SIGNATURES, Table
from mncover.types import Text


class _Array(NamedTuple):
    """Where an array is, and what it is."""

    place: Place
    shape: tuple[int, ...]
    kind: np.dtype[Any]


@dataclass(frozen=True)
class Shelved:
    """A table whose arrays are on disk; each is read when it is asked for."""

    texts: tuple[Text, ...]
    answers: tuple[str, ...]
    runs: NDArray[np.int64]  # how many rows each run has
    _blobs: BlobStore = field(repr=False)
    _arrays: dict[str, _Array] = field(repr=False)

    @classmethod
    def put(cls, table: Table, blobs: BlobStore) -> Shelved:
        """Write a table's arrays to a store."""
        arrays = table.arrays()
        contents = {name: array.tobytes() for name, array in arrays.items()}
        at, _ = blobs.put(b"".join(contents.values()))
        places = {}
        for name, content in contents.items():
            array = arrays[name]
            places[name] = _Array((at, len(content)), array.shape, array.dtype)
            at += len(content)
        return cls(table.texts, table.answers, np.bincount(table["run"]), blobs, places)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def signature_size(self) -> int:
        """How many numbers a signature has."""
        return self._arrays[SIGNATURES].shape[1]

    def array(self, name: str) -> NDArray[Any]:
        """Return an array by its name, as `TablePart` says."""
        place, shape, kind = self._arrays[name]
        return np.frombuffer(self._blobs.get(place), kind).reshape(shape)

    def rows_of(self, run: int) -> int:
        """Return how many rows are of a run."""
        return int(self.runs[run]) if run < len(self.runs) else 0
