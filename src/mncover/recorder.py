"""Put what an engine measures into data: hits by context, and a row for each text.

Two maps are in memory: the union of everything, and the context that is being filled. A
finished context is packed and leaves memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.backend import Array
from mncover.batches import Encoding
from mncover.data import CoverageData, Run
from mncover.engine import Engine
from mncover.measure import Advance
from mncover.rows import Rows
from mncover.table import UNKNOWN, Table


class Recorder:
    """Measures rows and adds them to data."""

    def __init__(self, engine: Engine, data: CoverageData, run: Run) -> None:
        self.engine = engine
        self.data = data
        self.run = run
        self.total: Array = engine.backend.to_device(data.total())
        self._open: tuple[str, Array] | None = None

    def record(self, rows: Rows) -> None:
        """Add rows in any order: the fast way, which leaves gains unknown."""
        for part in rows.by_context().runs_of_contexts():
            with self._all_or_nothing(self.total):
                words = self._map_of(part.contexts[0])
                done = 0
                for texts, encodings, probabilities in self.engine.hit(part.texts, words):
                    piece = part.part(slice(done, done + len(texts)))
                    self._add_rows(piece, encodings, probabilities, UNKNOWN, UNKNOWN)
                    done += len(texts)
            self.total |= words  # not before: until here it is its own backup

    def record_in_order(self, rows: Rows, advance: Advance) -> Iterator[int]:
        """Add rows in the given order, with what each adds; yield how many are done so far.

        It yields after each window. Whenever it stops, `data` holds whole windows once `close`
        was called.
        """
        done = 0
        for window in self.engine.windows([[text] for text in rows.texts], advance):
            part = rows.part(slice(done, done + len(window.texts)))
            with self._all_or_nothing(self.engine.backend.copy_of(self.total)):
                new = np.zeros((2, len(part)), dtype=np.int64)
                for row, context in enumerate(part.contexts):
                    new[:, row] = self.engine.add(window, row, self.total)
                    self.engine.add(window, row, self._map_of(context))
                self._add_rows(part, window.encodings, window.probabilities, new[0], new[1])
            done += len(part)
            yield done

    def close(self) -> None:
        """Put the context that is being filled into the data."""
        if self._open is not None:
            name, words = self._open
            self.data.set_map(name, self.engine.backend.map_to_numpy(words))
            self._open = None

    @contextmanager
    def _all_or_nothing(self, total: Array) -> Iterator[None]:
        """Undo what the block did to maps and data if it fails or is interrupted.

        `total` is the union as it was before the block.
        """
        copy = self.engine.backend.copy_of
        opened = None if self._open is None else (self._open[0], copy(self._open[1]))
        snapshot = self.data.snapshot()
        try:
            yield
        except BaseException:
            self._open, self.total = opened, total
            self.data.restore(snapshot)
            raise

    def _map_of(self, context: str) -> Array:
        """Return the map of a context, which becomes the one being filled."""
        if self._open is None or self._open[0] != context:
            self.close()
            self._open = (context, self.engine.backend.to_device(self.data.map_of(context)))
        return self._open[1]

    def _add_rows(
        self,
        rows: Rows,
        encodings: Sequence[Encoding],
        probabilities: NDArray[np.float32],
        new_hidden: Any,
        new_attention: Any,
    ) -> None:
        if self.run not in self.data.runs:
            self.data.runs.append(self.run)
        run = self.data.runs.index(self.run)
        first = int((self.data.table["run"] == run).sum())
        self.data.add_rows(
            Table.make(
                rows.texts,
                probabilities,
                run=run,
                number=first + np.arange(len(rows)),
                context=[self.data.context_number(name) for name in rows.contexts],
                index=rows.indices,
                length=[encoding.length for encoding in encodings],
                truncated=[encoding.truncated for encoding in encodings],
                label=rows.labels,
                prediction=self.engine.subject.predictions(probabilities),
                new_hidden=new_hidden,
                new_attention=new_attention,
            )
        )
