"""Rows that wait on disk while texts are run: a long run needs no more memory than a short one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.blobs import BlobStore, Place
from mncover.data.table import SIGNATURES, Table
from mncover.data.texts import from_bytes, to_bytes
from mncover.types import Text


class _Array(NamedTuple):
    """Where an array is, and what it is."""

    place: Place
    shape: tuple[int, ...]
    kind: np.dtype[Any]


@dataclass(frozen=True)
class Shelved:
    """A table on disk; of what it has, each is read when it is asked for."""

    n: int
    runs: NDArray[np.int64]  # how many rows each run has
    _blobs: BlobStore = field(repr=False)
    _arrays: dict[str, _Array] = field(repr=False)
    _texts: Place
    _answers: Place

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
        strings = (blobs.put(to_bytes(values)) for values in (table.texts, table.answers))
        return cls(len(table), np.bincount(table["run"]), blobs, places, *strings)

    def __len__(self) -> int:
        return self.n

    @property
    def texts(self) -> tuple[Text, ...]:
        """What was run."""
        return tuple(from_bytes(self._blobs.get(self._texts)))

    @property
    def answers(self) -> tuple[str, ...]:
        """What a language model said to each text."""
        return tuple(map(str, from_bytes(self._blobs.get(self._answers))))

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
