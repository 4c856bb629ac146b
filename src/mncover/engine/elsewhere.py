"""What an engine does by other processes: cut, ask, and put together as if it were done here.

Texts are cut as one process cuts them, and what comes back is added in their order, so the
outcome is the same, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mncover.data.columns import Made
from mncover.data.table import Signatures
from mncover.engine import windows
from mncover.engine.asked import Cases, Hit, InLayer, Stretch
from mncover.engine.first_hits import cuts_at, kernels_in_order, most_maps
from mncover.engine.kernels.base import Array
from mncover.engine.measure import Advance, cut_in_pieces, piece_size
from mncover.engine.shards import Adder, Shard
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine


class Elsewhere(Protocol):
    """Does a job on every item, in other processes; yields what comes of them, in order."""

    def __call__(
        self,
        engine: Any,
        job: str,
        items: Sequence[Any],
        advance: Advance,
        known: Mapping[int, Any] | None = None,
    ) -> Iterator[Any]:
        """Do it; neighbours may come together where a job allows that.

        `known` has what came of some items before, by their number.
        """

    def waiting(self) -> Iterator[tuple[int, Any]]:
        """Yield what is done and waits for its turn, with the number of its item."""

    def close(self) -> None:
        """End the processes."""


class Sharded:
    """Texts that others record in order, after those that are done."""

    def __init__(
        self,
        crew: Elsewhere,
        engine: Engine,
        texts: Sequence[Text],
        contexts: Sequence[str],
        done: int,
    ) -> None:
        self.crew, self.engine = crew, engine
        setups = engine.setups.each
        kernels = kernels_in_order(setups)
        if kernels is None:
            # A part that was begun is cut into the same windows, of which the first are left out.
            size = windows.WINDOW_TEXTS
            starts = range(done - done % size, len(texts), size)
            cuts = [slice(start, start + size) for start in starts]
        else:
            cuts = cuts_at(contexts, piece_size(engine.subject), most_maps(setups, kernels))
            cuts = [slice(max(done, cut.start), cut.stop) for cut in cuts if cut.stop > done]
        self.items = Made(len(cuts), lambda n: _stretch(texts, contexts, cuts[n], done))
        self.starts = [cut.start for cut in cuts]

    def each(self, advance: Advance, known: Mapping[int, Sequence[Shard]]) -> Iterator[Shard]:
        """Yield what comes of them; `known` are shards of an earlier call, by the first text."""
        mine = {
            number: known[start]
            for number, start in enumerate(self.starts)
            if start in known and _fit(known[start], self.items[number])
        }
        for payload in self.crew(self.engine, "record", self.items, advance, mine):
            yield from payload

    def waiting(self) -> Iterator[tuple[int, Sequence[Shard]]]:
        """Yield the shards that are done and wait for their turn, with their first text."""
        for number, payload in self.crew.waiting():
            yield self.starts[number], payload


def _stretch(texts: Sequence[Text], contexts: Sequence[str], cut: slice, done: int) -> Stretch:
    """Return some of the texts, of which those before `done` are done."""
    return Stretch(texts[cut], contexts[cut], max(0, done - cut.start))


def _fit(shards: Sequence[Shard], item: Stretch) -> bool:
    """Return whether shards are what comes of an item that was not begun."""
    contexts = {name for one in shards for name in one.contexts}
    texts = sum(len(one.lengths) for one in shards)
    return not item.done and texts == len(item.texts) and contexts == set(item.contexts)


def hit(
    crew: Elsewhere,
    engine: Engine,
    texts: Sequence[Text],
    maps: Mapping[str, Array],
    advance: Advance,
) -> Iterator[Hit]:
    """Add the hits of texts to maps."""
    cuts = cut_in_pieces(engine.subject, len(texts))
    items = Made(len(cuts), lambda n: texts[cuts[n]])
    for found in crew(engine, "hit", items, advance):
        for name, bits in found.maps.items():
            mine = maps[name]
            mine |= engine.setups.kernels_of(name).to_device(np.array(bits))
        yield found


def answers(
    crew: Elsewhere, engine: Engine, texts: Sequence[Text], advance: Advance
) -> list[tuple[NDArray[np.float32], Signatures]]:
    """Return the class probabilities and signatures of texts, piece by piece."""
    cuts = cut_in_pieces(engine.subject, len(texts))
    items = Made(len(cuts), lambda n: texts[cuts[n]])
    return list(crew(engine, "answer", items, advance))


def states(
    crew: Elsewhere, engine: Engine, texts: Sequence[Text], layer: int, advance: Advance
) -> Iterator[tuple[NDArray[np.float16], NDArray[np.float32]]]:
    """Yield the mean states of texts in a layer, and the class probabilities, piece by piece."""
    cuts = cut_in_pieces(engine.subject, len(texts))
    items = Made(len(cuts), lambda n: InLayer(texts[cuts[n]], layer))
    yield from crew(engine, "states", items, advance)


def first_gains(
    crew: Elsewhere,
    engine: Engine,
    cases: Sequence[Sequence[Text]],
    bits: Array,
    criterion: str,
    advance: Advance,
) -> NDArray[np.float64]:
    """Add cases to a map, in order; return what each adds."""
    setups, adder = engine.setups, Adder(engine.setups)
    total = setups.bits_to_numpy(bits, criterion)
    cuts = list(windows.by_number(cases))
    items = Made(len(cuts), lambda n: Cases(cases[cuts[n]], criterion))
    each = crew(engine, "cases", items, advance)
    new = [adder.add(criterion, found, total)[0] for found in each]
    bits |= setups.kernels_of(criterion).to_device(total)
    return engine.gain(criterion, *np.concatenate([*new, np.zeros((2, 0), np.int64)], axis=1))
