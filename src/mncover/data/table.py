"""One row per text that was run: what is known of it besides its hits.

Rows are only ever added. A row is identified by its run and its number in that run, so that the
same row met in two files is one row. While texts are run, rows wait on disk (`shelf.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Column, taken
from mncover.data.mapped import Pieces, mapped, whole
from mncover.data.texts import on_disk
from mncover.errors import DataFileError
from mncover.types import Text

UNKNOWN = -1

# Column -> type. `case` numbers the cases of a suite of tests, or is UNKNOWN. `owner` is the row of
# the earlier text that was the first to hit more of a text's cells than any other, or UNKNOWN, and
# `owned` the share that it hit first (`owners.py`). `outside` is the share of a text's values that
# no range holds, over the same sample of neurons; NaN if it is not known. `judged` is what a
# function of the user's said of the answer: 1 if it is right, 0 if not, UNKNOWN if not asked.
COLUMNS: dict[str, str] = {
    "run": "<i4",
    "number": "<i8",
    "context": "<i4",
    "index": "<i8",
    "case": "<i8",
    "length": "<i4",
    "truncated": "|b1",
    "label": "<i4",
    "prediction": "<i4",
    "owner": "<i4",
    "owned": "<f4",
    "outside": "<f4",
    "judged": "|i1",
}
NEW_TYPE = "<i8"
# What stands in a column that not every file has.
NOT_KNOWN = {"owner": UNKNOWN, "owned": 0.0, "outside": np.nan, "judged": UNKNOWN}

PROBABILITIES, SIGNATURES, NEW = "probabilities", "signatures", "new/"

# A table of fewer rows is in memory. What a longer one has is on disk once it was joined.
FEW = 4096

NewCells = NDArray[np.int64]
Signatures = NDArray[np.float16]


class TablePart(Protocol):
    """Some rows: a table, or one that waits on disk.

    Its arrays have names: a column's own, `new/` and a criterion, and the two others. Rows are the
    last axis of new cells, and the first of all else.
    """

    @property
    def texts(self) -> Sequence[Text]:
        """What was run."""

    @property
    def answers(self) -> Sequence[str]:
        """What a language model said to each text; there are none if it was not asked."""

    @property
    def signature_size(self) -> int:
        """How many numbers a signature has."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def array(self, name: str) -> NDArray[Any]:
        """Return an array by its name."""

    def rows_of(self, run: int) -> int:
        """Return how many rows are of a run."""


@dataclass(frozen=True)
class Table:
    """The columns, each with one value per text, the class probabilities, and the texts.

    `new` has, by criterion, how many hidden and attention cells each text added in the order of
    its run: [2, texts], UNKNOWN where the order was not kept. `signatures` [texts, numbers] has
    no numbers if none were kept, and NaN for a text that has none. `answers` are what a language
    model said to each text; there are none if it was not asked to answer.
    """

    columns: dict[str, NDArray[Any]]
    new: dict[str, NewCells]
    probabilities: NDArray[np.float32]
    texts: Sequence[Text]
    signatures: Signatures
    answers: Sequence[str] = ()

    @classmethod
    def empty(cls, n_labels: int, criteria: Sequence[str]) -> Table:
        """Return a table without rows."""
        columns = {name: np.empty(0, dtype=kind) for name, kind in COLUMNS.items()}
        new = {name: np.empty((2, 0), dtype=NEW_TYPE) for name in criteria}
        nothing = np.empty((0, 0), dtype=np.float16)
        return cls(columns, new, np.empty((0, n_labels), dtype=np.float32), (), nothing)

    @classmethod
    def make(
        cls,
        texts: Sequence[Text],
        probabilities: NDArray[np.float32],
        new: Mapping[str, Any],
        signatures: Signatures | None = None,
        answers: tuple[str, ...] = (),
        **columns: Any,
    ) -> Table:
        """Return a table of the given columns; a single value stands for every row.

        Owners, `outside` and `judged` may be left out if they are not known.
        """
        n = len(texts)
        signs = np.empty((n, 0), dtype=np.float16) if signatures is None else signatures

        def full(values: Any, shape: tuple[int, ...], kind: str) -> NDArray[Any]:
            return np.array(np.broadcast_to(np.asarray(values), shape), dtype=kind)

        given = {**NOT_KNOWN, **columns}
        known = {name: full(given[name], (n,), kind) for name, kind in COLUMNS.items()}
        added = {name: full(cells, (2, n), NEW_TYPE) for name, cells in new.items()}
        return cls(known, added, probabilities.astype("<f4"), tuple(texts), signs, answers)

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, column: str) -> NDArray[Any]:
        return self.columns[column]

    def array(self, name: str) -> NDArray[Any]:
        """Return an array by its name, as `TablePart` says."""
        if name.startswith(NEW):
            return self.new[name.removeprefix(NEW)]
        if name in (PROBABILITIES, SIGNATURES):
            return self.probabilities if name == PROBABILITIES else self.signatures
        return self.columns[name]

    @property
    def signature_size(self) -> int:
        """How many numbers a signature has."""
        return int(self.signatures.shape[1])

    def rows_of(self, run: int) -> int:
        """Return how many rows are of a run."""
        return int((self["run"] == run).sum())

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name."""
        return {name: self.array(name) for name in array_names(self.new)}

    def ordered(self, criterion: str, rows: Any = slice(None)) -> bool:
        """Return whether it is known what each text, or each of some rows, added."""
        return bool((self.new[criterion][:, rows] != UNKNOWN).all())

    def take(self, rows: NDArray[np.int64]) -> Table:
        """Return the given rows, in the given order."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        new = {name: cells[:, rows] for name, cells in self.new.items()}
        texts = taken(self.texts, rows)
        answers = taken(self.answers, rows) if self.answers else ()
        return Table(columns, new, self.probabilities[rows], texts, self.signatures[rows], answers)

    @classmethod
    def joined(cls, parts: Sequence[TablePart], criteria: Sequence[str]) -> Table:
        """Return the rows of all, one after the other."""
        n, names = sum(map(len, parts)), array_names(criteria)
        arrays = ((name, _pieces(parts, name, n)) for name in names)
        texts = chain.from_iterable(part.texts for part in parts)
        answers = chain.from_iterable(part.answers for part in parts)
        return cls.kept(n, arrays, texts, answers)

    @classmethod
    def kept(
        cls,
        n: int,
        arrays: Iterable[tuple[str, Pieces]],
        texts: Iterable[Text],
        answers: Iterable[str],
    ) -> Table:
        """Return a table of n rows whose arrays come one after the other; many rows go to disk."""
        few = n < FEW
        found = {name: whole(one) for name, one in arrays} if few else mapped(arrays)
        columns = {name: found.pop(name) for name in COLUMNS}
        probabilities, signatures = found.pop(PROBABILITIES), found.pop(SIGNATURES)
        new = {name.removeprefix(NEW): cells for name, cells in found.items()}
        strings = (_strings(items, few) for items in (texts, answers))
        return cls(columns, new, probabilities, next(strings), signatures, next(strings))

    def renumbered(self, **numbers: NDArray[Any]) -> Table:
        """Return the table with the values of a column, such as `run`, looked up in an array."""
        columns = dict(self.columns)
        for name, lookup in numbers.items():
            columns[name] = lookup[columns[name]].astype(COLUMNS[name])
        return replace(self, columns=columns)

    def in_order(self) -> tuple[Table, NDArray[np.int64]]:
        """Return the rows by run and number, each row once, and where every row went.

        An owner that is not before its text any more is forgotten.
        """
        keys = np.stack([self["run"].astype(np.int64), self["number"]], axis=1)
        _, first, places = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        places = places.ravel()  # NumPy 2.0 returns a column
        table = self.take(first).renumbered(owner=np.append(places, UNKNOWN))
        later = table["owner"] >= np.arange(len(table))
        table["owner"][later], table["owned"][later] = UNKNOWN, 0.0
        return table, places

    def check(self, n_runs: int, n_contexts: int) -> None:
        """Refuse a table whose columns do not fit together; it may come from a stranger."""
        n, n_labels = len(self), self.probabilities.shape[-1]
        uneven = any(values.shape != (n,) for values in self.columns.values())
        if uneven or any(cells.shape != (2, n) for cells in self.new.values()):
            raise DataFileError("the columns of its table differ in length")
        if self.probabilities.shape != (n, n_labels):
            raise DataFileError("the probabilities in its table have the wrong shape")
        if self.signatures.ndim != 2 or len(self.signatures) != n:
            raise DataFileError("the signatures in its table have the wrong shape")
        if len(self.answers) not in (0, n):
            raise DataFileError("its list of answers does not fit its texts")
        one = np.nextafter(np.float32(1), np.float32(2))  # excluded, so that 1 is not
        limits: dict[str, Any] = {"run": (0, n_runs), "context": (0, n_contexts), "owned": (0, one)}
        limits |= {name: (UNKNOWN, max(n_labels, 0)) for name in ("label", "prediction")}
        limits |= {"owner": (UNKNOWN, np.arange(n)), "judged": (UNKNOWN, 2)}
        for name, (low, end) in limits.items():
            if not ((self[name] >= low) & (self[name] < end)).all():  # not so for NaN
                raise DataFileError(f"the column '{name}' of its table has values out of range")
        outside = self["outside"][~np.isnan(self["outside"])]
        if not ((outside >= 0) & (outside <= 1)).all():
            raise DataFileError("the column 'outside' of its table has values out of range")


def array_names(criteria: Iterable[str]) -> list[str]:
    """Return the names of all arrays of a table."""
    return [*COLUMNS, *(NEW + name for name in criteria), PROBABILITIES, SIGNATURES]


def _strings(items: Iterable[Any], few: bool) -> Sequence[Any]:
    if few:
        return tuple(items)
    return items if isinstance(items, Column) else on_disk(items)


def each_array(parts: Sequence[TablePart], name: str) -> Iterator[NDArray[Any]]:
    """Yield an array of each of several tables, whose rows follow each other.

    Rows of a table that kept no signatures have NaN, if others kept some. Of new cells, yield
    those of hidden states of all tables, then those of attention: pieces come as they are stored.
    """
    if name.startswith(NEW):
        yield from (part.array(name)[kind] for kind in range(2) for part in parts)
        return
    size = max(part.signature_size for part in parts)
    for part in parts:
        if name == SIGNATURES and part.signature_size != size:
            yield np.full((len(part), size), np.nan, dtype=np.float16)
        else:
            yield part.array(name)


def _pieces(parts: Sequence[TablePart], name: str, n: int) -> Pieces:
    """Return an array of several tables, whose rows follow each other, piece by piece."""
    first = parts[0].array(name)
    behind = () if name.startswith(NEW) else first.shape[1:]
    if name == SIGNATURES:
        behind = (max(part.signature_size for part in parts),)
    shape = (2, n) if name.startswith(NEW) else (n, *behind)
    return Pieces(shape, first.dtype.str, each_array(parts, name))
