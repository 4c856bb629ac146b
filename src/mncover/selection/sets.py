"""Lists of texts: how coverage grows with the number of texts, and how sets compare.

The model runs once over all texts; every order, threshold, draw and criterion then uses their
codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.data.identity import Identity, Measured
from mncover.data.maps import Bits
from mncover.data.results import weigh
from mncover.errors import SettingsError
from mncover.selection.filters import CaseWalker
from mncover.selection.rounds import Gains, Rounds
from mncover.types import Text, counted

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.windows import Window

# Saturation curves.

THRESHOLDS = (0.0, 1e-4, 1e-3, 1e-2, 1e-1)
POINTS = 200  # per curve at most, so that files and pictures stay small


@dataclass(frozen=True, slots=True)
class Curve:
    """A saturation curve: `shares[i]` is the coverage of the first `texts[i]` texts kept.

    `visited` is the number of all texts. `seed` is that of the shuffled order, None for the given
    order. With the threshold None every text is kept.
    """

    name: str
    criterion: str
    seed: int | None
    threshold: float | None
    visited: int
    texts: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def kept(self) -> int:
        """How many texts were kept."""
        return self.texts[-1] if self.texts else 0

    @property
    def share(self) -> float:
        """The coverage of all texts kept."""
        return self.shares[-1] if self.shares else 0.0

    @property
    def reduction(self) -> float:
        """The share of the texts that was filtered out."""
        return 1 - self.kept / self.visited if self.visited else 0.0

    def scaled(self, factor: float) -> Curve:
        """Return the curve with all shares times a factor."""
        return replace(self, shares=tuple(factor * share for share in self.shares))


def saturation(
    engine: Engine,
    name: str,
    texts: Sequence[Text],
    thresholds: Sequence[float] = THRESHOLDS,
    seeds: Sequence[int] = (),
) -> list[Curve]:
    """Return the curves of a list of texts, in the given order and in shuffled ones.

    For each order and criterion there is one unfiltered curve and one for each threshold: a text
    is kept if it adds more than the threshold to the texts kept before.
    """
    found: list[Curve] = []
    levels, n = (None, *thresholds), len(texts)
    with engine.bar(name, n) as advance:
        for window in engine.windows([[text] for text in texts], advance, whole=True):
            for seed in (None, *seeds):
                order = np.arange(n) if seed is None else np.random.default_rng(seed).permutation(n)
                for criterion in engine.criteria:
                    gains = gains_in_order(engine, window, criterion, order.tolist(), levels)
                    for threshold, mine in zip(levels, gains, strict=True):
                        points = thinned(np.cumsum(mine), POINTS)
                        counts, shares = tuple(p for p, _ in points), tuple(s for _, s in points)
                        found.append(Curve(name, criterion, seed, threshold, n, counts, shares))
    return found


def gains_in_order(
    engine: Engine,
    window: Window,
    criterion: str,
    order: Sequence[int],
    levels: Sequence[float | None],
) -> list[Gains]:
    """Return what each text kept adds, for every threshold."""
    ordered = engine.ordered(window, criterion)
    if ordered is None:
        return _walked_gains(engine, window, criterion, order, levels)
    rounds = Rounds(engine, ordered, criterion, np.argsort(order))
    found = []
    for threshold in levels:
        bits = engine.new_bits(criterion)
        if threshold is None:
            found.append(rounds.add_all(bits)[order])
        else:
            gains = rounds.filter(threshold, bits)[order]
            found.append(gains[gains > threshold])
    return found


def _walked_gains(
    engine: Engine,
    window: Window,
    criterion: str,
    order: Sequence[int],
    levels: Sequence[float | None],
) -> list[Gains]:
    """Do the same by walking, for all thresholds at once: the codes of a text are read once."""
    walkers = [
        CaseWalker(engine, window, engine.new_bits(criterion), criterion, t is None or t <= 0)
        for t in levels
    ]
    gains: list[list[float]] = [[] for _ in levels]
    for row in order:
        rows = range(row, row + 1)
        for threshold, walker, mine in zip(levels, walkers, gains, strict=True):
            gain = walker.gain(rows)
            if threshold is None or gain > threshold:
                walker.add(rows)
                mine.append(gain)
    return [np.array(mine) for mine in gains]


def thinned(shares: NDArray[np.float64], points: int) -> list[tuple[int, float]]:
    """Return some points of a curve, the last one included: how many texts, and their share."""
    n = len(shares)
    places = np.unique(np.linspace(0, n - 1, min(n, points)).round().astype(int))
    return [(place + 1, float(shares[place])) for place in places.tolist()]


# Sets of texts side by side. Coverage grows with every text, so sets of different sizes cannot be
# compared directly: equally many texts are drawn from each set, several times, and every number
# comes with its spread over the draws.

DRAWS = 20
SHARE = 0.8  # of the smallest set by default; if all of it were drawn, draws would not differ


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


def sample_size(sizes: Sequence[int], asked: int | None) -> int:
    """Return how many texts to draw from each set; refuse more than the smallest set has."""
    smallest = min(sizes)
    if asked is None:
        return max(1, int(SHARE * smallest))
    if asked > smallest:
        raise SettingsError(
            f"the smallest set has {counted(smallest, 'text')}, fewer than {asked:,}."
        )
    return asked


def compare_sets(
    engine: Engine,
    sets: Mapping[str, Sequence[Text]],
    texts: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Comparison]:
    """Compare sets of texts by every criterion."""
    sizes = tuple(len(mine) for mine in sets.values())
    n, identity, rng = sample_size(sizes, texts), engine.identity(), np.random.default_rng(seed)
    found: dict[Measured, list[NDArray[np.float64]]] = {one: [] for one in identity.criteria}
    cases = [[text] for mine in sets.values() for text in mine]
    starts = accumulate(sizes[:-1], initial=0)
    ranges = list(zip(starts, sizes, strict=True))
    with engine.bar("Measuring", len(cases)) as advance:
        for window in engine.windows(cases, advance, whole=True):
            for _ in range(draws):
                rows = [start + rng.choice(size, n, replace=False) for start, size in ranges]
                for criterion, drawn in found.items():
                    maps = [_map(engine, window, mine, criterion.name) for mine in rows]
                    drawn.append(_draw(identity, criterion, maps))
    comparisons = []
    for criterion, drawn in found.items():
        numbers = np.stack(drawn, axis=-1).tolist()  # a list of draws for each number
        alone, union, only, *overlap = (tuple(map(Spread.of, row)) for row in numbers)
        about = (criterion.name, criterion.title, tuple(sets), sizes, n, len(drawn))
        comparisons.append(Comparison(*about, alone, union, only, tuple(overlap)))
    return comparisons


def _map(engine: Engine, window: Window, rows: NDArray[np.int64], criterion: str) -> Bits:
    bits = engine.new_bits(criterion)
    engine.unite(window, rows, bits, criterion)
    found: Bits = engine.setups.bits_to_numpy(bits, criterion)
    return found


def _draw(identity: Identity, criterion: Measured, maps: Sequence[Bits]) -> NDArray[np.float64]:
    """Return four kinds of numbers by set: alone, union, only, and a row of overlaps for each."""

    def cover(bits: Bits) -> float:
        return weigh(identity, bits, criterion)[0].share

    def jaccard(a: Bits, b: Bits) -> float:
        either = cover(a | b)
        return cover(a & b) / either if either else 1.0

    alone = [cover(bits) for bits in maps]
    union = [cover(bits) for bits in accumulate(maps, np.bitwise_or)]
    only = []
    for i, bits in enumerate(maps):
        others = reduce(np.bitwise_or, [*maps[:i], *maps[i + 1 :]], np.zeros_like(bits))
        only.append(cover(bits & ~others))
    return np.array([alone, union, only, *([jaccard(a, b) for b in maps] for a in maps)])
