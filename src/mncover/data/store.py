"""What was measured: the hits of each context and a row for each text.

The centre of the reading half: `datafile.py` stores it, `results.py` computes numbers from it.
It knows neither torch nor the model, only the model's fingerprint.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data import maps
from mncover.data.blobs import Blob, BlobStore
from mncover.data.calibration import Calibration
from mncover.data.identity import Identity, Measured, Run
from mncover.data.meetings import MOST_MEETINGS, Meeting
from mncover.data.owners import Owners
from mncover.data.owners import united as united_owners
from mncover.data.shelf import Shelved
from mncover.data.signatures import SignatureSpace
from mncover.data.table import UNKNOWN, Table, TablePart, each_array
from mncover.data.threads import in_threads
from mncover.types import Text

# Fewer rows than this are not worth a place on disk: they wait for others.
FEW_ROWS = 256

Snapshot = tuple[dict[str, dict[str, Blob]], list[TablePart], list[Run], Owners | None]


class CoverageData:
    """The hits of each context by criterion, packed, and the table of texts.

    Maps are packed in the background and unpacked a few at a time; between uses they are on disk.
    Where a criterion may be named, the default is the main one.
    """

    def __init__(self, identity: Identity, calibration: Calibration | None = None) -> None:
        self.identity = identity
        self.calibration = calibration  # None in a file that does not have it
        self.runs: list[Run] = []
        # Of the suites of tests, by the run's id: what `suites.model.Outline.to_json` returned.
        self.outlines: dict[str, dict[str, Any]] = {}
        self.meetings: tuple[Meeting, ...] = ()  # under masks, of a few texts
        self._rows: list[TablePart] = [Table.empty(len(identity.labels), identity.names)]
        self.space: SignatureSpace | None = None  # if signatures were kept
        self.owners: Owners | None = None  # if texts were run in order; never changed in place
        self._blobs = BlobStore()
        self._contexts: dict[str, dict[str, Blob]] = {}  # what was packed so far

    @property
    def table(self) -> Table:
        """The rows of all texts together; of many, most is on disk (`Table.kept`)."""
        first = self._rows[0]
        if len(self._rows) > 1 or not isinstance(first, Table):
            # Joined only when somebody looks, not each time rows are added.
            self._rows = [first := Table.joined(self._rows, self.identity.names)]
        return first

    @table.setter
    def table(self, table: Table) -> None:
        self._rows = [table]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(len(part) for part in self._rows)

    @property
    def parts(self) -> tuple[TablePart, ...]:
        """The rows of all texts as they were added, some of them on disk."""
        return tuple(self._rows)

    def column(self, name: str) -> NDArray[Any]:
        """Return a column of the table; the others stay where they are."""
        return np.concatenate(list(each_array(self._rows, name)))

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts, in the order in which they first appeared."""
        return list(self._contexts)

    def rows_alone(self) -> CoverageData:
        """Return the rows as they are now, without maps; rows that are added later do not show."""
        alone = copy(self)
        alone.table = self.table
        alone.runs, alone.outlines = list(self.runs), dict(self.outlines)
        alone._contexts = {name: {} for name in self._contexts}
        del alone._blobs  # an open file, which could not be pickled with a result
        return alone

    def _measured(self, criterion: str | None) -> Measured:
        """Return a criterion by its name."""
        return self.identity.main if criterion is None else self.identity.criterion(criterion)

    def packed(self, context: str, criterion: str | None = None) -> bytes:
        """Return a context's map as `maps.pack` made it."""
        one = self._measured(criterion)
        blob = self._contexts[context].get(one.name)
        if blob is None:
            return maps.pack(self.map_of(context, one.name), one.cells)
        return self._blobs.get(blob)

    def context_number(self, context: str) -> int:
        """Return a context's place among the contexts; a new one comes last."""
        self._contexts.setdefault(context, {})
        return self.contexts.index(context)

    def put_packed(self, context: str, data: bytes, criterion: str | None = None) -> None:
        """Set a context's map to what `maps.pack` made."""
        name = self._measured(criterion).name
        self._contexts.setdefault(context, {})[name] = self._blobs.put(data)

    def map_of(
        self, context: str, criterion: str | None = None, length: int | None = None
    ) -> maps.Bits:
        """Return a context's map; an empty one for a context not seen yet.

        With `length` it is in the layout that is cropped to it.
        """
        one = self._measured(criterion)
        name, cells, layout = one.name, one.cells, one.layout
        if name not in self._contexts.get(context, {}):
            return maps.empty_map(layout if length is None else layout.cropped(length), cells)
        packed = self.packed(context, name)
        if length is None:
            return maps.unpack(packed, layout, cells)
        return maps.unpack_cropped(packed, layout, cells, length)

    @property
    def longest(self) -> int:
        """The length of the longest text, at least 1: nothing beyond it was ever hit.

        Without any row, that of the longest text there might be.
        """
        lengths = self.column("length")
        return max(1, int(lengths.max())) if len(lengths) else self.identity.settings.max_length

    def set_map(self, context: str, bits: maps.Bits, criterion: str | None = None) -> None:
        """Set a context's map; it is packed in the background, so `bits` must not change."""
        one = self._measured(criterion)
        blob = self._blobs.put_made(partial(maps.pack, bits, one.cells))
        self._contexts.setdefault(context, {})[one.name] = blob

    def each_map(
        self, criterion: str | None = None, length: int | None = None
    ) -> Iterator[tuple[str, maps.Bits]]:
        """Yield every context with its map; a few are unpacked at a time."""
        unpacked = partial(self.map_of, criterion=criterion, length=length)
        return zip(self.contexts, in_threads(unpacked, self.contexts), strict=True)

    def total(self, criterion: str | None = None, length: int | None = None) -> maps.Bits:
        """Return the union of all contexts."""
        one = self._measured(criterion)
        layout = one.layout if length is None else one.layout.cropped(length)
        bits = maps.empty_map(layout, one.cells)
        for _, context in self.each_map(criterion, length):
            bits |= context
        return bits

    def snapshot(self) -> Snapshot:
        """Return what `restore` needs to undo everything that comes after; it copies little."""
        packed = {context: dict(blobs) for context, blobs in self._contexts.items()}
        return packed, list(self._rows), list(self.runs), self.owners

    def restore(self, snapshot: Snapshot) -> None:
        """Go back to a snapshot."""
        self._contexts, self._rows, self.runs, self.owners = snapshot

    def add_rows(self, rows: Table) -> None:
        """Add rows; their `run` and `context` count in this object's lists."""
        few = [rows, *takewhile(_is_small, reversed(self._rows))] if _is_small(rows) else [rows]
        if sum(map(len, few)) < FEW_ROWS:
            self._rows.append(rows)
            return
        whole = rows if len(few) == 1 else Table.joined(few[::-1], self.identity.names)
        self._rows[len(self._rows) - len(few) + 1 :] = [Shelved.put(whole, self._blobs)]

    def each_text(self) -> Iterator[Text]:
        """Yield the texts of all rows in order."""
        return chain.from_iterable(rows.texts for rows in self._rows)

    def rows_in(self, run: int) -> int:
        """Return how many rows a run has."""
        return sum(part.rows_of(run) for part in self._rows)

    @property
    def incomplete(self) -> list[Run]:
        """The runs that were interrupted before their suite's end."""
        return [run for n, run in enumerate(self.runs) if self.rows_in(n) < run.texts]

    def union(self, other: CoverageData) -> CoverageData:
        """Return what both measured; rows that both have are kept once."""
        self.identity.require_same(other.identity)
        united = CoverageData(replace(self.identity), self.calibration or other.calibration)
        united.outlines = {**self.outlines, **other.outlines}
        united.space = self.space or other.space
        both = dict.fromkeys((*self.meetings, *other.meetings))
        united.meetings = tuple(both)[:MOST_MEETINGS]
        united.runs = sorted({*self.runs, *other.runs}, key=lambda run: (run.created, run.id))
        names = list(dict.fromkeys([*self.contexts, *other.contexts]))
        n = len(self.table)
        mine = _rows_for(self, united.runs, names, 0)
        both_rows = [mine, _rows_for(other, united.runs, names, n)]
        rows, places = Table.joined(both_rows, united.identity.names).in_order()
        united.owners = united_owners([self.owners, other.owners], [places[:n], places[n:]])
        order = _first_appearance(rows["context"], len(names))
        united.table = Table.joined(
            [rows.renumbered(context=np.argsort(order))], united.identity.names
        )
        for i in order:
            for criterion in united.identity.names:
                packed = _united_map(names[i], criterion, self, other)
                united.put_packed(names[i], packed, criterion)
        return united


def _is_small(part: TablePart) -> bool:
    """Return whether a part is in memory, and too small for a place of its own on disk."""
    return isinstance(part, Table) and len(part) < FEW_ROWS


def _rows_for(data: CoverageData, runs: list[Run], contexts: list[str], start: int) -> Table:
    """Return the rows with runs and contexts counted in the given lists, and rows from a number."""
    run = np.array([runs.index(r) for r in data.runs], dtype=np.int64)
    context = np.array([contexts.index(c) for c in data.contexts], dtype=np.int64)
    owner = np.append(np.arange(start, start + len(data.table)), UNKNOWN)
    return data.table.renumbered(run=run, context=context, owner=owner)


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
