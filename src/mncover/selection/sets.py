"""Compare sets of texts: what each covers, what only it covers, and how much they overlap.

Coverage grows with every text, so sets of different sizes cannot be compared directly. Equally
many texts are drawn from each set, several times, and every number comes with its spread over the
draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.data.identity import Identity, Measured
from mncover.data.maps import Bits
from mncover.data.results import weigh
from mncover.errors import SettingsError
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.windows import Window


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over all draws: its mean and the interval that holds 95 % of them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of some values."""
        low, high = np.quantile(values, [0.025, 0.975])
        return cls(float(np.mean(values)), float(low), float(high))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sets compared by one criterion, in the order given.

    `union` is the coverage of a set with all sets before it, `only` what no other set covers, and
    `overlap[a][b]` the Jaccard index of two sets, with cells weighted as in the coverage itself.
    `texts` texts of each set were drawn, `draws` times.
    """

    criterion: str
    title: str
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    texts: int
    draws: int
    alone: tuple[Spread, ...]
    union: tuple[Spread, ...]
    only: tuple[Spread, ...]
    overlap: tuple[tuple[Spread, ...], ...]


DRAWS = 20
SHARE = 0.8  # of the smallest set by default; if all of it were drawn, draws would not differ


def sample_size(sizes: Sequence[int], asked: int | None) -> int:
    """Return how many texts to draw from each set; refuse more than the smallest set has."""
    smallest = min(sizes)
    if asked is None:
        return max(1, int(SHARE * smallest))
    if asked > smallest:
        raise SettingsError(f"the smallest set has {smallest:,} texts, fewer than {asked:,}.")
    return asked


def compare_sets(
    engine: Engine,
    sets: Mapping[str, Sequence[Text]],
    texts: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Comparison]:
    """Compare sets of texts by every criterion."""
    sizes = [len(mine) for mine in sets.values()]
    n = sample_size(sizes, texts)
    identity = engine.identity()
    found: dict[Measured, list[_Draw]] = {criterion: [] for criterion in identity.criteria}
    cases = [[text] for mine in sets.values() for text in mine]
    starts = np.cumsum([0, *sizes])
    rng = np.random.default_rng(seed)
    with engine.bar("Measuring", len(cases)) as advance:
        for window in engine.windows(cases, advance, whole=True):
            for _ in range(draws):
                rows = [
                    start + rng.choice(size, n, replace=False)
                    for start, size in zip(starts, sizes, strict=False)
                ]
                for criterion, drawn in found.items():
                    maps = [_map(engine, window, mine, criterion.name) for mine in rows]
                    drawn.append(_draw(identity, criterion, maps))
    return [_summary(criterion, sets, n, drawn) for criterion, drawn in found.items()]


@dataclass(frozen=True, slots=True)
class _Draw:
    """The numbers of one draw."""

    alone: list[float]
    union: list[float]
    only: list[float]
    overlap: list[list[float]]


def _draw(identity: Identity, criterion: Measured, maps: Sequence[Bits]) -> _Draw:
    def cover(bits: Bits) -> float:
        return weigh(identity, bits, criterion)[0].share

    union = [cover(bits) for bits in accumulate(maps, np.bitwise_or)]
    only = []
    for i, bits in enumerate(maps):
        others = reduce(np.bitwise_or, [*maps[:i], *maps[i + 1 :]], np.zeros_like(bits))
        only.append(cover(bits & ~others))
    overlap = [[_jaccard(cover(a & b), cover(a | b)) for b in maps] for a in maps]
    return _Draw([cover(bits) for bits in maps], union, only, overlap)


def _jaccard(both: float, either: float) -> float:
    return both / either if either else 1.0


def _map(engine: Engine, window: Window, rows: NDArray[np.int64], criterion: str) -> Bits:
    bits = engine.new_bits(criterion)
    for row in rows.tolist():
        engine.add(window, row, bits, criterion)
    return engine.kernels.bits_to_numpy(bits, engine.group(criterion).cells)


def _summary(
    criterion: Measured, sets: Mapping[str, Sequence[Text]], n: int, draws: Sequence[_Draw]
) -> Comparison:
    k = range(len(sets))
    return Comparison(
        criterion.name,
        criterion.title,
        tuple(sets),
        tuple(len(texts) for texts in sets.values()),
        n,
        len(draws),
        alone=tuple(Spread.of([d.alone[i] for d in draws]) for i in k),
        union=tuple(Spread.of([d.union[i] for d in draws]) for i in k),
        only=tuple(Spread.of([d.only[i] for d in draws]) for i in k),
        overlap=tuple(tuple(Spread.of([d.overlap[i][j] for d in draws]) for j in k) for i in k),
    )
