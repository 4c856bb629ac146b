"""Rows that wait on disk while texts are run: a long run needs no more memory than a short one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.blobs import BlobStore, Place
from mncover.data.table import NEW, SIGNATURES, Table
from mncover.data.texts import from_bytes, to_bytes
from mncover.types import Text


class _Form(NamedTuple):
    """What an array is for however many rows: its axes before that of rows, and behind it."""

    name: str
    kind: np.dtype[Any]
    before: tuple[int, ...]
    behind: tuple[int, ...]

    def shape(self, rows: int) -> tuple[int, ...]:
        """Return the shape for so many rows."""
        return (*self.before, rows, *self.behind)


def _form(name: str, array: NDArray[Any]) -> _Form:
    axis = int(name.startswith(NEW))
    return _Form(name, array.dtype, array.shape[:axis], array.shape[axis + 1 :])


@cache
def _one_object(forms: tuple[_Form, ...]) -> tuple[_Form, ...]:
    """Return forms that are equal as one and the same object: there may be many parts."""
    return forms


@dataclass(frozen=True, slots=True)
class Shelved:
    """A table on disk; of what it has, each is read when it is asked for."""

    n: int
    runs: NDArray[np.int64]  # how many rows each run has
    _blobs: BlobStore = field(repr=False)
    _forms: tuple[_Form, ...] = field(repr=False)
    _start: int  # of the arrays, which follow each other
    _texts: Place
    _answers: Place

    @classmethod
    def put(cls, table: Table, blobs: BlobStore) -> Shelved:
        """Write a table to a store."""
        arrays = table.arrays()
        forms = _one_object(tuple(_form(*one) for one in arrays.items()))
        start, _ = blobs.put(b"".join(array.tobytes() for array in arrays.values()))
        strings = (blobs.put(to_bytes(values)) for values in (table.texts, table.answers))
        return cls(len(table), np.bincount(table["run"]), blobs, forms, start, *strings)

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
        return next(form.behind[0] for form in self._forms if form.name == SIGNATURES)

    def array(self, name: str) -> NDArray[Any]:
        """Return an array by its name, as `TablePart` says."""
        start = self._start
        for form in self._forms:
            shape = form.shape(self.n)
            size = math.prod(shape) * form.kind.itemsize
            if form.name == name:
                return np.frombuffer(self._blobs.get((start, size)), form.kind).reshape(shape)
            start += size
        raise KeyError(name)

    def rows_of(self, run: int) -> int:
        """Return how many rows are of a run."""
        return int(self.runs[run]) if run < len(self.runs) else 0
