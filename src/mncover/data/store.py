"""What was measured: the hits of each context and a row for each text.

The centre of the reading half: `datafile.py` stores it, `results.py` computes numbers from it.
It knows neither torch nor the model, only the model's fingerprint.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.identity import Identity, Run
from mncover.data.signatures import SignatureSpace
from mncover.data.table import Table

Blob = tuple[int, int]  # where a byte string is: offset and size


class BlobStore:
    """Keeps byte strings in an unnamed temporary file, so that they do not stay in memory."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="mncover-")  # noqa: SIM115 (lives as long as the store)

    def put(self, data: bytes) -> Blob:
        """Keep a byte string."""
        offset = self._file.seek(0, 2)
        return offset, self._file.write(data)

    def get(self, blob: Blob) -> bytes:
        """Give a byte string back."""
        self._file.seek(blob[0])
        return self._file.read(blob[1])


Snapshot = tuple[dict[str, dict[str, Blob]], Table, list[Run]]


class CoverageData:
    """The hits of each context by criterion, packed, and the table of texts.

    Maps are unpacked one at a time; between uses they are on disk. Where a criterion may be
    named, the default is the main one.
    """

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self.runs: list[Run] = []
        # Of the suites of tests, by the run's id: what `suites.model.Outline.to_json` returned.
        self.outlines: dict[str, dict[str, Any]] = {}
        self.table = Table.empty(len(identity.labels), identity.names)
        self.space: SignatureSpace | None = None  # if signatures were kept
        self._blobs = BlobStore()
        self._contexts: dict[str, dict[str, Blob]] = {}  # what was packed so far

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts, in the order in which they first appeared."""
        return list(self._contexts)

    def _cells(self, criterion: str | None) -> tuple[str, int]:
        """Return the name of a criterion and its cells per neuron."""
        identity = self.identity
        found = identity.main if criterion is None else identity.criterion(criterion)
        return found.name, found.cells

    def packed(self, context: str, criterion: str | None = None) -> bytes:
        """Return a context's map as `maps.pack` made it."""
        name, cells = self._cells(criterion)
        blob = self._contexts[context].get(name)
        if blob is None:
            return maps.pack(self.map_of(context, name), cells)
        return self._blobs.get(blob)

    def context_number(self, context: str) -> int:
        """Return a context's place among the contexts; a new one comes last."""
        self._contexts.setdefault(context, {})
        return self.contexts.index(context)

    def put_packed(self, context: str, data: bytes, criterion: str | None = None) -> None:
        """Set a context's map to what `maps.pack` made."""
        name, _ = self._cells(criterion)
        self._contexts.setdefault(context, {})[name] = self._blobs.put(data)

    def map_of(self, context: str, criterion: str | None = None) -> maps.Bits:
        """Return a context's map; an empty one for a context not seen yet."""
        name, cells = self._cells(criterion)
        if name not in self._contexts.get(context, {}):
            return maps.empty_map(self.identity.layout, cells)
        return maps.unpack(self.packed(context, name), self.identity.layout, cells)

    def set_map(self, context: str, bits: maps.Bits, criterion: str | None = None) -> None:
        """Set a context's map."""
        name, cells = self._cells(criterion)
        self.put_packed(context, maps.pack(bits, cells), name)

    def each_map(self, criterion: str | None = None) -> Iterator[tuple[str, maps.Bits]]:
        """Yield every context with its map, one at a time."""
        for context in self.contexts:
            yield context, self.map_of(context, criterion)

    def total(self, criterion: str | None = None) -> maps.Bits:
        """Return the union of all contexts."""
        bits = maps.empty_map(self.identity.layout, self._cells(criterion)[1])
        for _, context in self.each_map(criterion):
            bits |= context
        return bits

    def snapshot(self) -> Snapshot:
        """Return what `restore` needs to undo everything that comes after; it copies little."""
        packed = {context: dict(blobs) for context, blobs in self._contexts.items()}
        return packed, self.table, list(self.runs)

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        self._contexts, self.table, self.runs = snapshot

    def add_rows(self, rows: Table) -> None:
        """Add rows; their `run` and `context` count in this object's lists."""
        self.table = self.table.append(rows)

    @property
    def incomplete(self) -> list[Run]:
        """The runs that were interrupted before their suite's end."""
        done = np.bincount(self.table["run"], minlength=len(self.runs))
        return [run for run, n in zip(self.runs, done, strict=True) if n < run.texts]

    def union(self, other: CoverageData) -> CoverageData:
        """Return what both measured; rows that both have are kept once."""
        self.identity.require_same(other.identity)
        united = CoverageData(replace(self.identity))
        united.outlines = {**self.outlines, **other.outlines}
        united.space = self.space or other.space
        united.runs = sorted({*self.runs, *other.runs}, key=lambda run: (run.created, run.id))
        names = list(dict.fromkeys([*self.contexts, *other.contexts]))
        rows = _rows_for(self, united.runs, names).append(_rows_for(other, united.runs, names))
        rows = rows.in_order()
        order = _first_appearance(rows["context"], len(names))
        united.table = rows.renumbered(context=np.argsort(order))
        for i in order:
            for criterion in united.identity.names:
                packed = _united_map(names[i], criterion, self, other)
                united.put_packed(names[i], packed, criterion)
        return united


def _rows_for(data: CoverageData, runs: list[Run], contexts: list[str]) -> Table:
    """Return the rows with runs and contexts counted in the given lists."""
    run = np.array([runs.index(r) for r in data.runs], dtype=np.int64)
    context = np.array([contexts.index(c) for c in data.contexts], dtype=np.int64)
    return data.table.renumbered(run=run, context=context)


def _first_appearance(column: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """Return 0..n-1 in the order in which they first appear; what never does comes last."""
    first = np.full(n, len(column))
    np.minimum.at(first, column, np.arange(len(column)))
    return np.argsort(first, kind="stable")


def _united_map(context: str, criterion: str, *sources: CoverageData) -> bytes:
    have = [data for data in sources if context in data.contexts]
    if len(have) == 1:
        return have[0].packed(context, criterion)
    bits = have[0].map_of(context, criterion) | have[1].map_of(context, criterion)
    return maps.pack(bits, have[0].identity.criterion(criterion).cells)
