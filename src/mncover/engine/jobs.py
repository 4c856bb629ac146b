"""What a worker can be asked to do: each a function of its engine and of some texts.

What goes in and out is plain data. Some outcomes of neighbours can be joined on a worker, so that
whoever asked has less to add up. A new job is a function and a line in `JOBS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mncover.data.table import Signatures
from mncover.engine import pieces
from mncover.engine.asked import Cases, Hit, InLayer, Stretch
from mncover.engine.engine import Engine
from mncover.engine.first_hits import FirstHits, InOrder, kernels_in_order
from mncover.engine.measure import Advance, measure, measure_piece, piece_of
from mncover.engine.ranges import Asked, Observed, joined_observed, observe
from mncover.engine.readers import Reader
from mncover.engine.sample import SampleReader, Sampling
from mncover.engine.shards import (
    Collector,
    Hits,
    Shard,
    covered,
    first_hits,
    joined,
    walked,
)
from mncover.engine.spaces import Space
from mncover.engine.windows import Window
from mncover.types import Text


def _calibrate(engine: Engine, asked: Asked, advance: Advance) -> Observed:
    texts, kept = asked
    setup, length = engine.setups.widening, engine.settings.max_length
    piece = piece_of(engine.subject, texts, length)
    what = engine.taps, setup, setup.kernels.new_bounds(), piece, kept
    return observe(*what, length, engine.batch_size, advance)


def _record(engine: Engine, asked: Stretch, advance: Advance) -> list[Shard]:
    known = _answers_known(engine)
    kernels = kernels_in_order(engine.setups.each)
    found = (
        _from_windows(engine, asked, advance)
        if kernels is None
        else [_from_piece(engine, kernels, asked, advance)]
    )
    _said(engine, asked.texts[asked.done :])
    said = {} if engine.subject.answerer is None else engine.subject.answerer.known_since(known)
    return [one._replace(answers=said if number == 0 else {}) for number, one in enumerate(found)]


def _answers_known(engine: Engine) -> int:
    return 0 if engine.subject.answerer is None else len(engine.subject.answerer)


def _said(engine: Engine, texts: Sequence[Text]) -> None:
    """Let a language model answer, so that nobody else has to."""
    engine.subject.answers(texts, engine.settings.max_length)


def _sampling(engine: Engine) -> Sampling:
    settings, device = engine.settings, engine.subject.device
    return Sampling(engine.require_ranges(), engine.setups.groups[0], settings, device)


def _from_windows(engine: Engine, asked: Stretch, advance: Advance) -> list[Shard]:
    """Run texts window by window, as one process does, and walk through their codes."""
    readers: list[SampleReader] = []
    sampling = _sampling(engine)

    def wrap(reader: Reader, n: int) -> Reader:
        readers[:] = [SampleReader(engine.sign(reader, n), sampling)]
        return readers[0]

    found, at = [], asked.done
    cases = [[text] for text in asked.texts]
    for window in engine.windows(cases, advance, wrap=wrap, done=asked.done):
        contexts = asked.contexts[at : at + len(window.texts)]
        at += len(window.texts)
        found.append(_shard_of(engine, window, readers[0], contexts))
    return found


def _shard_of(
    engine: Engine, window: Window, reader: SampleReader, contexts: Sequence[str]
) -> Shard:
    sampled = reader.blocks(window.which)
    rows = window.tokens.lengths, window.tokens.truncated, window.probabilities
    signatures = reader.inner.signatures[window.which]
    return Shard(*rows, signatures, sampled, *walked(engine, window, contexts), {})


def _from_piece(engine: Engine, kernels: InOrder, asked: Stretch, advance: Advance) -> Shard:
    """Run texts as one piece, keeping the first text of each cell."""
    piece = piece_of(engine.subject, asked.texts, engine.settings.max_length)
    names = list(dict.fromkeys(asked.contexts))
    which = np.array([names.index(one) for one in asked.contexts], dtype=np.int64)
    hits = FirstHits.over(engine.setups.each, kernels, engine.new_maps(), len(names))
    every = np.arange(len(which))
    reader = SampleReader(engine.sign(hits.reader(every, which), len(which)), _sampling(engine))
    what = piece.texts, piece.tokens, reader, engine.batch_size, advance
    probabilities = measure(engine.taps, *what)
    contexts = {
        context: {
            name: covered(engine.setups, name, target.bits[number])
            for name, target in hits.targets.items()
        }
        for number, context in enumerate(names)
    }
    found = {name: first_hits(engine, hits, name, len(which)) for name in hits.targets}
    rows = piece.tokens.lengths, piece.tokens.truncated, probabilities
    signatures, sampled = reader.inner.signatures, reader.blocks(every)
    return Shard(*rows, signatures, sampled, found, contexts, {})


def _joined_shards(engine: Engine, payloads: Sequence[Sequence[Shard]]) -> list[Shard]:
    return [joined(engine.setups, [shard for payload in payloads for shard in payload])]


def _hit(engine: Engine, texts: Sequence[Text], advance: Advance) -> Hit:
    maps = engine.new_maps()
    piece = piece_of(engine.subject, texts, engine.settings.max_length)
    found = pieces.hit(engine, piece, maps, advance)
    each = {name: engine.setups.bits_to_numpy(bits, name) for name, bits in maps.items()}
    return found._replace(maps=each)


def _cases(engine: Engine, asked: Cases, advance: Advance) -> Hits:
    """Return what each case was the first to hit; its texts count together."""
    setups = engine.setups.alone(asked.criterion)
    kernels = kernels_in_order(setups)
    if kernels is None:
        found = Collector(engine, [asked.criterion])
        for window in engine.windows(asked.cases, advance):
            for rows in window.cases:
                found.add(window, rows)
        return found.hits()[asked.criterion]
    empty = engine.new_bits(asked.criterion)
    group = engine.group(asked.criterion)
    hits = FirstHits.over(setups, kernels, dict.fromkeys(group.names, empty))
    numbers = np.repeat(np.arange(len(asked.cases)), [len(case) for case in asked.cases])
    texts = [text for case in asked.cases for text in case]
    piece = piece_of(engine.subject, texts, engine.settings.max_length)
    mine = numbers[piece.first]
    reader = hits.reader(mine, np.zeros_like(mine))
    measure_piece(engine.taps, piece, reader, engine.batch_size, advance)
    return first_hits(engine, hits, asked.criterion, len(asked.cases))


def _answer(
    engine: Engine, texts: Sequence[Text], advance: Advance
) -> tuple[NDArray[np.float32], Signatures]:
    piece = piece_of(engine.subject, texts, engine.settings.max_length)
    return pieces.answer(engine, piece, advance)


def _states(
    engine: Engine, asked: InLayer, advance: Advance
) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    piece = piece_of(engine.subject, asked.texts, engine.settings.max_length)
    return Space(engine, asked.layer).of_piece(piece, advance)


class Job(NamedTuple):
    """What is done with texts, and how outcomes of neighbours become one."""

    run: Callable[[Engine, Any, Advance], Any]
    join: Callable[[Engine, Sequence[Any]], Any] | None = None


JOBS: Mapping[str, Job] = {
    "calibrate": Job(_calibrate, lambda engine, found: joined_observed(found)),
    "record": Job(_record, _joined_shards),
    "hit": Job(_hit),
    "cases": Job(_cases),
    "answer": Job(_answer),
    "states": Job(_states),
}
