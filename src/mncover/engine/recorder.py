"""Put what an engine measures into data: hits by context, and a row for each text.

Two maps of each criterion are in memory: the union of everything, and the context that is being
filled. A finished context is packed in the background and leaves memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mncover.data.identity import Identity, Run
from mncover.data.maps import Bits
from mncover.data.memory import give_back
from mncover.data.owners import NOT_OWNED, Owned
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN, NewCells, Signatures, Table
from mncover.data.texts import Alone
from mncover.engine.answers import Added, Answered, Answers, first_of_each, judged_rows
from mncover.engine.elsewhere import Sharded
from mncover.engine.engine import Engine
from mncover.engine.first_hits import FirstHits, InOrder, cuts_at, kernels_in_order, most_maps
from mncover.engine.kernels.base import Array
from mncover.engine.measure import MANY, Advance, Piece, measure, piece_size
from mncover.engine.readers import Reader
from mncover.engine.sample import Owning, SampleReader, Sampling
from mncover.engine.shards import Adder, Shard
from mncover.engine.windows import Window
from mncover.suites.rows import Rows
from mncover.types import Text

# Adds some texts, which were or will be run, to the maps of their contexts.
_Add = Callable[[Sequence[str]], Added]


class Recorder:
    """Measures rows and adds them to data."""

    def __init__(self, engine: Engine, data: CoverageData, run: Run) -> None:
        self.engine, self.data, self.run = engine, data, run
        self.total = self._on_device(data.total)
        ranges, device = engine.require_ranges(), engine.subject.device
        self.sampling = Sampling(ranges, engine.setups.groups[0], engine.settings, device)
        self._open: tuple[str, dict[str, Array]] | None = None
        self._sharded: Sharded | None = None  # if others run the texts

    def record(self, rows: Rows) -> None:
        """Add rows in any order: the fast way, which leaves gains unknown."""
        for part in rows.by_context().runs_of_contexts():
            with self._all_or_nothing(self.total):
                maps = self._maps_of(part.contexts[0])
                done = 0
                for found in self.engine.hit(part.texts, maps):
                    piece = part.part(slice(done, done + len(found.lengths)))
                    self._add_rows(piece, *found[:4], {})
                    done += len(piece)
            for name, bits in maps.items():  # not before: until here it is its own backup
                self.total[name] |= bits

    def record_in_order(
        self,
        rows: Rows,
        advance: Advance,
        done: int = 0,
        known: Mapping[int, Sequence[Shard]] | None = None,
    ) -> Iterator[int]:
        """Add rows in the given order, with what each adds; yield how many are done so far.

        A text that its context already had adds nothing and is not run again. It yields after
        each window. Whenever it stops, `data` holds whole windows once `close` was called.
        `done` rows are in the data already. What is left is cut into the same windows and batches
        as without the interruption: in other batches the last digits would differ. `known` are
        shards of an earlier call that were not added, as `waiting` yielded them.
        """
        firsts, which = first_of_each(rows)
        run = int(np.searchsorted(firsts, done))
        advance(len(rows) - done - (len(firsts) - run))
        ran = rows if len(firsts) == len(rows) else rows.taken(firsts)
        answers = Answers(len(firsts), which)
        if run:
            answers.put(slice(run), Answered.in_rows(self.data.table, firsts[:run]))
        owning = Owning(self.data, self.sampling, rows.texts, done)
        for n, add in self._steps(ran.texts, ran.contexts, advance, run, known or {}):
            now = slice(run, run + n)
            run = now.stop
            rest = slice(done, int(firsts[run]) if run < len(firsts) else len(rows))
            part, places = rows.part(rest), firsts[now].astype(np.int64) - done
            with self._all_or_nothing(self._copy(self.total)):
                added = add(ran.contexts[now])
                answers.put(now, added.answered)
                new = {name: np.zeros((2, len(part)), dtype=np.int64) for name in added.new}
                for name, counts in added.new.items():
                    new[name][:, places] = counts
                owned = owning.add(len(part), places, added.sampled)
                self._add_rows(part, *answers.of(which[rest]), new, owned)
            done += len(part)
            if len(part) >= MANY:
                give_back()
            yield done

    def _sampled(self, reader: Reader, texts: int) -> SampleReader:
        """Return a reader of signatures and of the sample around another."""
        return SampleReader(self.engine.sign(reader, texts), self.sampling)

    def waiting(self) -> Iterator[tuple[int, Sequence[Shard]]]:
        """Yield what others have finished before its turn, with the number of its first text."""
        return iter(()) if self._sharded is None else self._sharded.waiting()

    def _steps(
        self,
        texts: Sequence[Text],
        contexts: Sequence[str],
        advance: Advance,
        done: int,
        known: Mapping[int, Sequence[Shard]],
    ) -> Iterator[tuple[int, _Add]]:
        """Yield how many texts come next, after those that are done, and what adds them."""
        if self.engine.crew is not None:
            self._sharded = Sharded(self.engine.crew, self.engine, texts, contexts, done)
            return self._shards(self._sharded, advance, known)
        setups = self.engine.setups.each
        kernels = kernels_in_order(setups)
        if kernels is None:
            return self._windows(texts, advance, done)
        most = most_maps(setups, kernels)
        cuts = cuts_at(contexts, piece_size(self.engine.subject), most)
        cuts = [slice(max(done, cut.start), cut.stop) for cut in cuts if cut.stop > done]
        return self._pieces(kernels, texts, cuts, advance)

    def _windows(
        self, texts: Sequence[Text], advance: Advance, done: int
    ) -> Iterator[tuple[int, _Add]]:
        """Run texts window by window; adding a window walks through its codes."""
        readers: list[SampleReader] = []

        def wrap(reader: Reader, n: int) -> Reader:
            readers[:] = [self._sampled(reader, n)]
            return readers[0]

        for window in self.engine.windows(Alone(texts), advance, wrap=wrap, done=done):
            yield len(window.texts), partial(self._walk, window, readers[0])

    def _walk(self, window: Window, reader: SampleReader, contexts: Sequence[str]) -> Added:
        """Add a window's texts to the maps in order."""
        new = {name: np.zeros((2, len(contexts)), dtype=np.int64) for name in self.total}
        for row, context in enumerate(contexts):
            for name, bits in self.total.items():
                new[name][:, row] = self.engine.add(window, row, bits, name)
            for name, bits in self._maps_of(context).items():
                self.engine.add(window, row, bits, name)
        signatures, sampled = reader.inner.signatures[window.which], reader.blocks(window.which)
        rows = window.tokens.lengths, window.tokens.truncated, window.probabilities
        return Added(Answered(*rows, signatures), new, sampled)

    def _pieces(
        self, kernels: InOrder, texts: Sequence[Text], cuts: Sequence[slice], advance: Advance
    ) -> Iterator[tuple[int, _Add]]:
        """Take texts piece by piece; adding a piece runs it."""
        with self.engine.pieces(texts, cuts) as pieces:
            for piece in pieces:
                yield len(piece.texts), partial(self._hit, kernels, piece, advance)

    def _hit(
        self, kernels: InOrder, piece: Piece, advance: Advance, contexts: Sequence[str]
    ) -> Added:
        """Run a piece, keeping the first text of each cell, and add it to the maps."""
        engine, names = self.engine, list(dict.fromkeys(contexts))
        place = {name: number for number, name in enumerate(names)}
        which = np.array([place[context] for context in contexts], dtype=np.int64)
        hits = FirstHits.over(engine.setups.each, kernels, self.total, len(names))
        every = np.arange(len(which))
        reader = self._sampled(hits.reader(every, which), len(which))
        what = piece.texts, piece.tokens, reader, engine.batch_size, advance
        probabilities = measure(engine.taps, *what)
        for number, context in enumerate(names):
            for name, bits in self._maps_of(context).items():
                bits |= hits.targets[name].bits[number]
        for name, target in hits.targets.items():
            for bits in target.bits:
                self.total[name] |= bits
        new = {name: hits.new(name, len(which)) for name in hits.targets}
        signatures, sampled = reader.inner.signatures, reader.blocks(every)
        rows = piece.tokens.lengths, piece.tokens.truncated, probabilities
        return Added(Answered(*rows, signatures), new, sampled)

    def _shards(
        self, sharded: Sharded, advance: Advance, known: Mapping[int, Sequence[Shard]]
    ) -> Iterator[tuple[int, _Add]]:
        """Let others run texts; adding a shard takes from its cells what is new."""
        adder = Adder(self.engine.setups)
        for shard in sharded.each(advance, known):
            yield len(shard.lengths), partial(self._merge, adder, shard)

    def _merge(self, adder: Adder, shard: Shard, contexts: Sequence[str]) -> Added:
        """Add what others have found."""
        setups, new = self.engine.setups, {}
        if self.engine.subject.answerer is not None:
            self.engine.subject.answerer.learn(shard.answers)
        for name, hits in shard.hits.items():
            bits = setups.bits_to_numpy(self.total[name], name)
            new[name], _ = adder.add(name, hits, bits)
            self.total[name] = setups.kernels_of(name).to_device(bits)
        for context, found in shard.contexts.items():
            maps = self._maps_of(context)
            for name, part in found.items():
                bits = setups.bits_to_numpy(maps[name], name)
                adder.unite(name, part, bits)
                maps[name] = setups.kernels_of(name).to_device(bits)
        return Added(Answered(*shard[:4]), new, shard.sampled)

    def close(self) -> None:
        """Put the context that is being filled into the data."""
        if self._open is not None:
            context, maps = self._open
            for name, bits in maps.items():
                self.data.set_map(context, self.engine.setups.bits_to_numpy(bits, name), name)
            self._open = None

    @contextmanager
    def _all_or_nothing(self, total: dict[str, Array]) -> Iterator[None]:
        """Undo what the block did to maps and data if it fails or is interrupted.

        `total` is the union as it was before the block.
        """
        opened = self._open and (self._open[0], self._copy(self._open[1]))
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
        lengths: ArrayLike,
        truncated: ArrayLike,
        probabilities: NDArray[np.float32],
        signatures: Signatures,
        new: dict[str, NewCells],
        owned: Owned = NOT_OWNED,
    ) -> None:
        if self.run not in self.data.runs:
            self.data.runs.append(self.run)
        if signatures.shape[1]:
            self.data.space = self.data.space or self.engine.space
        run = self.data.runs.index(self.run)
        first = self.data.rows_in(run)
        numbers = {name: self.data.context_number(name) for name in dict.fromkeys(rows.contexts)}
        subject = self.engine.subject
        answers = subject.answers(rows.texts, self.engine.settings.max_length)
        self.data.add_rows(
            Table.make(
                rows.texts,
                probabilities,
                {name: new.get(name, UNKNOWN) for name in self.engine.criteria},
                signatures,
                answers,
                judged=judged_rows(subject.prompting, rows, answers),
                run=run,
                number=first + np.arange(len(rows)),
                context=[numbers[name] for name in rows.contexts],
                index=rows.indices,
                case=rows.cases,
                length=lengths,
                truncated=truncated,
                label=rows.labels,
                prediction=subject.predictions(probabilities),
                owner=owned.owner,
                owned=owned.share,
                outside=owned.outside,
            )
        )


def answered(engine: Engine, rows: Rows, identity: Identity) -> CoverageData:
    """Return data of texts that were only answered: it has signatures, and no coverage.

    Ranges are not needed. `identity` is that of the measurement it is to be compared with.
    """
    numbered = rows.numbered(engine.subject.labels)
    probabilities, signatures = engine.answers(rows.texts)
    data = CoverageData(identity)
    data.space, data.runs = engine.space, [Run.start(str(rows.path), texts=len(rows))]
    data.add_rows(
        Table.make(
            rows.texts,
            probabilities,
            dict.fromkeys(identity.names, UNKNOWN),
            signatures,
            run=0,
            number=np.arange(len(rows)),
            context=data.context_number(""),
            index=rows.indices,
            case=UNKNOWN,
            length=UNKNOWN,
            truncated=False,
            label=numbered.labels,
            prediction=engine.subject.predictions(probabilities),
        )
    )
    return data
