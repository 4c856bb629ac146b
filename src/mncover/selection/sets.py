"""What a comparison of sets of texts says. No torch here.

Compare sets of texts: what each covers, what only it covers, and how much they overlap.

Sets of different size cannot be compared by coverage, which grows with every text. So equally
many texts are drawn from each, many times, and every number comes with the spread of the draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.data.maps import Bits
from mncover.data.results import weigh
from mncover.errors import SettingsError
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.windows import Window


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over all draws: its mean, and where 95 % of the draws lie."""

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
    """Sets by one criterion, in the order given; `overlap[a][b]` is the Jaccard index of two sets.

    `union` is of the set and all before it, `only` what no other set covers. Bins are weighed as
    in Cover. `texts` of each set were drawn, `draws` times.
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
SHARE = 0.8  # of the smallest set, if no size is asked for: all of it would leave nothing to draw


def sample_size(sizes: Sequence[int], asked: int | None) -> int:
    """Return how many texts to draw from each set; refuse more than the smallest has."""
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
    """Compare sets of texts by every criterion.

    If as many texts are drawn as the smallest set has, that set is the same in every draw.
    """
    sizes = [len(mine) for mine in sets.values()]
    n = sample_size(sizes, texts)
    found: dict[str, list[_Draw]] = {name: [] for name in engine.criteria}
    groups = [[text] for mine in sets.values() for text in mine]
    starts = np.cumsum([0, *sizes])
    rng = np.random.default_rng(seed)
    with engine.bar("Measuring", len(groups)) as advance:
        for window in engine.windows(groups, advance, whole=True):
            for _ in range(draws):
                rows = [
                    start + rng.choice(size, n, replace=False)
                    for start, size in zip(starts, sizes, strict=False)
                ]
                for name, drawn in found.items():
                    drawn.append(_draw(engine, window, rows, name))
    titles = {one.name: one.title for one in engine.criteria.values()}
    return [_summary(name, titles[name], sets, n, drawn) for name, drawn in found.items()]


@dataclass(frozen=True, slots=True)
class _Draw:
    """The numbers of one draw."""

    alone: list[float]
    union: list[float]
    only: list[float]
    overlap: list[list[float]]


def _draw(
    engine: Engine, window: Window, rows: Sequence[NDArray[np.int64]], criterion: str
) -> _Draw:
    identity = engine.identity()
    measured = identity.criterion(criterion)
    maps = [_map(engine, window, mine, criterion) for mine in rows]

    def cover(bits: Bits) -> float:
        return weigh(identity, bits, measured)[0].share

    whole = np.zeros_like(maps[0])
    union = []
    for bits in maps:
        whole |= bits
        union.append(cover(whole))
    only = []
    for i, bits in enumerate(maps):
        others = np.zeros_like(bits)
        for j, other in enumerate(maps):
            if j != i:
                others |= other
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
    criterion: str, title: str, sets: Mapping[str, Sequence[Text]], n: int, draws: Sequence[_Draw]
) -> Comparison:
    k = range(len(sets))
    return Comparison(
        criterion,
        title,
        tuple(sets),
        tuple(len(texts) for texts in sets.values()),
        n,
        len(draws),
        alone=tuple(Spread.of([d.alone[i] for d in draws]) for i in k),
        union=tuple(Spread.of([d.union[i] for d in draws]) for i in k),
        only=tuple(Spread.of([d.only[i] for d in draws]) for i in k),
        overlap=tuple(tuple(Spread.of([d.overlap[i][j] for d in draws]) for j in k) for i in k),
    )
