"""Codes in the order of the texts, though the model runs them by length.

A window's texts are run in length-sorted batches, their codes wait in a spool, and whoever walks
the window reads them in order. The larger the window, the fuller the batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.criteria.base import Group
from mncover.data.texts import Alone
from mncover.engine.batches import Rows, Tokens, ahead, distinct
from mncover.engine.kernels.base import Array, spare_bytes
from mncover.engine.measure import Advance, measure
from mncover.engine.readers import EncodeReader, Reader
from mncover.engine.setups import Setups
from mncover.engine.spool import Spool
from mncover.engine.taps import Taps
from mncover.types import Text

WINDOW_TEXTS = 4096
WINDOW_BYTES = 512 * 2**20  # of codes; on a GPU a share of what is free

# Who runs a window's texts: `measure`, or something with the same parameters.
RunTexts = Callable[
    [Taps, Sequence[Text], Tokens, Reader, int | None, Advance], NDArray[np.float32]
]


# Puts another reader around a window's own, given how many distinct texts the window has.
Wrap = Callable[[Reader, int], Reader]


@dataclass(frozen=True)
class Window:
    """Some whole cases that were run: `cases` says which rows belong together.

    `which` gives the number of each row among the distinct texts, under which the spool has it.
    """

    cases: list[range]
    texts: list[Text]
    tokens: Tokens
    probabilities: NDArray[np.float32]
    spool: Spool
    which: Rows
    _last: dict[Any, Any] = field(default_factory=dict)

    def codes(self, row: int, group: Group, masked: bool = False) -> Array:
        """Return one text's codes for all sites, flat; `masked` leaves only those that count."""
        if self._last.get(None) != row:  # each text is asked for several times in turn
            self._last.clear()
            self._last[None] = row
        name = group.plain  # a group itself takes long to look up
        if name not in self._last:
            self._last[name] = self.spool.read(int(self.which[row]), group)
        if not masked:
            return self._last[name]
        if (name, "masked") not in self._last:
            codes = self.spool.masked(int(self.which[row]), group, self._last[name])
            self._last[name, "masked"] = codes
        return self._last[name, "masked"]

    def length(self, row: int) -> int:
        """Return how many tokens a text has."""
        return int(self.tokens.lengths[row])


@dataclass(frozen=True)
class Windows:
    """Runs cases and yields them in order, window by window.

    `run` runs a window's texts, and `wrap` may put another reader around the window's own.
    """

    taps: Taps
    setups: Setups
    batch_size: int | None
    run: RunTexts = measure
    wrap: Wrap | None = None

    def over(
        self,
        cases: Sequence[Sequence[Text]],
        advance: Advance,
        whole: bool = False,
        done: int = 0,
    ) -> Iterator[Window]:
        """Yield windows, each good until the next is asked for; a case is never cut.

        With `whole` there is one window, however large. The first `done` cases are left out; the
        windows behind them are those that there are without.
        """
        parts = [slice(0, len(cases))] if whole and len(cases) else list(by_number(cases))
        while parts and parts[0].stop - parts[0].start <= done:
            first = parts.pop(0)
            done -= first.stop - first.start

        def prepare(part: slice) -> tuple[Sequence[Sequence[Text]], list[Text], Tokens]:
            mine = cases[part]
            return mine, *self._tokenised(mine)

        setups = self.setups
        at_once = 1 if self.taps.subject.answerer else len(parts)  # tokens may come from the model
        with Spool(setups.kernels, setups.layouts) as spool, ahead(at_once) as each:
            encode = EncodeReader(setups.each, spool)
            for part, texts, tokens in each(prepare, parts):
                for every in self._by_bytes(part, tokens, whole):
                    rows, done = every[done:], max(0, done - len(every))
                    if not rows:
                        continue
                    spool.clear()
                    start, stop = rows[0].start, rows[-1].stop
                    local = [range(r.start - start, r.stop - start) for r in rows]
                    window = (local, texts[start:stop], tokens.take(range(start, stop)))
                    yield Window(*window, *self._measured(*window[1:], encode, advance))

    def _tokenised(self, cases: Sequence[Sequence[Text]]) -> tuple[list[Text], Tokens]:
        texts = [text for case in cases for text in case]
        return texts, self.taps.subject.encode(texts, self.setups.settings.max_length)

    def _measured(
        self, texts: list[Text], tokens: Tokens, encode: EncodeReader, advance: Advance
    ) -> tuple[NDArray[np.float32], Spool, Rows]:
        """Run a window's texts, each distinct one once."""
        first, which = distinct(tokens)
        advance(len(texts) - len(first))
        picked = [texts[i] for i in first], tokens.take(first)
        reader: Reader = encode if self.wrap is None else self.wrap(encode, len(first))
        found = self.run(self.taps, *picked, reader, self.batch_size, advance)
        return found[which], encode.spool, which

    def _by_bytes(
        self, cases: Sequence[Sequence[Text]], tokens: Tokens, whole: bool
    ) -> Iterator[list[range]]:
        """Yield runs of cases, as rows, whose codes fit into a window together."""
        device = self.setups.kernels.device
        limit = np.inf if whole else spare_bytes(device, WINDOW_BYTES)
        size_of, lengths = cache(self.setups.code_bytes), tokens.lengths.tolist()
        part: list[range] = []
        used = start = 0
        for case in cases:
            rows = range(start, start + len(case))
            start = rows.stop
            size = sum(size_of(lengths[row]) for row in rows)
            if part and used + size > limit:
                yield part
                part, used = [], 0
            part.append(rows)
            used += size
        if part:
            yield part


def by_number(cases: Sequence[Sequence[Text]]) -> Iterator[slice]:
    """Yield runs of cases with about `WINDOW_TEXTS` texts together."""
    start = n = 0
    sizes = repeat(1, len(cases)) if isinstance(cases, Alone) else map(len, cases)
    for stop, size in enumerate(sizes, start=1):
        n += size
        if n >= WINDOW_TEXTS:
            yield slice(start, stop)
            start, n = stop, 0
    if start < len(cases):
        yield slice(start, len(cases))
