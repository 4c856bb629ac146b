"""Put what an engine measures into data: hits by context, and a row for each text.

Two maps of each criterion are in memory: the union of everything, and the context that is being
filled. A finished context is packed and leaves memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.identity import Run
from mncover.data.maps import Bits
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN, NewCells, Table
from mncover.engine.batches import Encoding
from mncover.engine.engine import Engine
from mncover.engine.kernels.base import Array
from mncover.engine.measure import Advance
from mncover.engine.windows import Window
from mncover.suites.rows import Rows
from mncover.types import Text


class _Answer(NamedTuple):
    """What is kept of a text that was run until its context is full; its tokens are not."""

    length: int
    truncated: bool
    probabilities: NDArray[np.float32]


class _Known:
    """The texts that the present context has had, with their answers."""

    def __init__(self) -> None:
        self.context: str | None = None
        self.answers: dict[Text, _Answer] = {}

    def of(self, context: str) -> dict[Text, _Answer]:
        """Return those of a context; another context starts with none."""
        if context != self.context:
            self.context, self.answers = context, {}
        return self.answers


def _firsts(rows: Rows) -> list[int]:
    """Return the rows whose text their context did not have before."""
    found: list[int] = []
    seen: set[Text] = set()
    context: str | None = None
    for row, text in enumerate(rows.texts):
        if rows.contexts[row] != context:
            context = rows.contexts[row]
            seen.clear()
        if text not in seen:
            seen.add(text)
            found.append(row)
    return found


class Recorder:
    """Measures rows and adds them to data."""

    def __init__(self, engine: Engine, data: CoverageData, run: Run) -> None:
        self.engine = engine
        self.data = data
        self.run = run
        self.total = self._on_device(data.total)
        self._open: tuple[str, dict[str, Array]] | None = None

    def record(self, rows: Rows) -> None:
        """Add rows in any order: the fast way, which leaves gains unknown."""
        for part in rows.by_context().runs_of_contexts():
            with self._all_or_nothing(self.total):
                maps = self._maps_of(part.contexts[0])
                done = 0
                for texts, encodings, probabilities in self.engine.hit(part.texts, maps):
                    piece = part.part(slice(done, done + len(texts)))
                    self._add_rows(piece, encodings, probabilities, {})
                    done += len(texts)
            for name, bits in maps.items():  # not before: until here it is its own backup
                self.total[name] |= bits

    def record_in_order(self, rows: Rows, advance: Advance) -> Iterator[int]:
        """Add rows in the given order, with what each adds; yield how many are done so far.

        A text that its context already had adds nothing and is not run again. It yields after
        each window. Whenever it stops, `data` holds whole windows once `close` was called.
        """
        firsts = _firsts(rows)
        advance(len(rows) - len(firsts))
        known = _Known()
        done = run = 0
        for window in self.engine.windows([[rows.texts[row]] for row in firsts], advance):
            run += len(window.texts)
            part = rows.part(slice(done, firsts[run] if run < len(firsts) else len(rows)))
            with self._all_or_nothing(self._copy(self.total)):
                new, answers = self._walk(window, part, known)
                found = np.array([answer.probabilities for answer in answers])
                self._add_rows(part, answers, found, new)
            done += len(part)
            yield done

    def _walk(
        self, window: Window, rows: Rows, known: _Known
    ) -> tuple[dict[str, NewCells], list[_Answer]]:
        """Add a window's texts to the maps in order.

        Return the new cells [2, texts] by criterion, and each text's answer. `known` has those of
        the texts that the context had before.
        """
        new = {name: np.zeros((2, len(rows)), dtype=np.int64) for name in self.total}
        answers: list[_Answer] = []
        at = 0
        for row, (text, context) in enumerate(zip(rows.texts, rows.contexts, strict=True)):
            maps, had = self._maps_of(context), known.of(context)
            if text not in had:
                for name, bits in self.total.items():
                    new[name][:, row] = self.engine.add(window, at, bits, name)
                for name, bits in maps.items():
                    self.engine.add(window, at, bits, name)
                tokens = window.encodings[at]
                had[text] = _Answer(tokens.length, tokens.truncated, window.probabilities[at])
                at += 1
            answers.append(had[text])
        return new, answers

    def close(self) -> None:
        """Put the context that is being filled into the data."""
        if self._open is not None:
            context, maps = self._open
            for name, bits in maps.items():
                cells = self.engine.group(name).cells
                self.data.set_map(context, self.engine.kernels.bits_to_numpy(bits, cells), name)
            self._open = None

    @contextmanager
    def _all_or_nothing(self, total: dict[str, Array]) -> Iterator[None]:
        """Undo what the block did to maps and data if it fails or is interrupted.

        `total` is the union as it was before the block.
        """
        opened = None if self._open is None else (self._open[0], self._copy(self._open[1]))
        snapshot = self.data.snapshot()
        try:
            yield
        except BaseException:
            self._open, self.total = opened, total
            self.data.restore(snapshot)
            raise

    def _copy(self, maps: dict[str, Array]) -> dict[str, Array]:
        return {name: self.engine.kernels.copy_of(bits) for name, bits in maps.items()}

    def _maps_of(self, context: str) -> dict[str, Array]:
        """Return the maps of a context, which becomes the one being filled."""
        if self._open is None or self._open[0] != context:
            self.close()
            self._open = (context, self._on_device(partial(self.data.map_of, context)))
        return self._open[1]

    def _on_device(self, map_of: Callable[[str], Bits]) -> dict[str, Array]:
        """Return what the data has, criterion by criterion, on the subject's device."""
        return {name: self.engine.kernels.to_device(map_of(name)) for name in self.engine.criteria}

    def _add_rows(
        self,
        rows: Rows,
        answers: Sequence[Encoding] | Sequence[_Answer],
        probabilities: NDArray[np.float32],
        new: dict[str, NewCells],
    ) -> None:
        if self.run not in self.data.runs:
            self.data.runs.append(self.run)
        run = self.data.runs.index(self.run)
        first = int((self.data.table["run"] == run).sum())
        self.data.add_rows(
            Table.make(
                rows.texts,
                probabilities,
                {name: new.get(name, UNKNOWN) for name in self.engine.criteria},
                run=run,
                number=first + np.arange(len(rows)),
                context=[self.data.context_number(name) for name in rows.contexts],
                index=rows.indices,
                case=rows.cases,
                length=[answer.length for answer in answers],
                truncated=[answer.truncated for answer in answers],
                label=rows.labels,
                prediction=self.engine.subject.predictions(probabilities),
            )
        )
