"""What is kept of the calibration texts besides ranges: their lengths, and what some of them reach.

From these come two things that say what coverage is worth: the yardstick, which is what as many
random calibration texts reach, and how much of a further text the ranges would not hold. No torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.identity import Identity, Measured
from mncover.errors import DataFileError

DRAWS = 20  # random orders of the sampled texts
STUDENT = 2.093  # 95 % of Student's distribution with DRAWS - 1 degrees of freedom
LARGEST = 0.8  # of a sample: draws that share nearly all of their texts say nothing about spread
ENOUGH = 0.01  # the share of a text's values outside the ranges that is small enough

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Draws:
    """What random draws from the calibration texts reach.

    `sampled` texts were drawn from. `points` are numbers of texts, and `shares` has, by criterion,
    the covered share of all cells after so many texts of each order: [DRAWS, points].
    """

    sampled: int
    points: Counts
    shares: Mapping[str, NDArray[np.float64]]

    def fit(self, names: Iterable[str]) -> bool:
        """Return whether the numbers, which may come from a stranger, are some of these names."""
        points, shares = self.points, self.shares.values()
        if points.ndim != 1 or not len(points) or not set(self.shares) <= set(names):
            return False
        if (np.diff(points, prepend=0) <= 0).any() or points[-1] > self.sampled:
            return False
        if any(one.shape != (DRAWS, len(points)) for one in shares):
            return False
        return all(bool(((one >= 0) & (one <= 1)).all()) for one in shares)


@dataclass(frozen=True, slots=True)
class Yardstick:
    """The share of the reachable cells that random calibration texts reach, with a 95 % interval.

    `texts` is how many. The interval holds 95 of 100 such draws.
    """

    texts: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration texts in a few numbers.

    `lengths` counts the texts of each length, from 0 tokens to the longest possible. `reachable`
    has, by criterion, how many cells can be reached in each row of each group of each site, one
    after the other. `draws` is None if nothing was drawn.
    """

    lengths: Counts
    reachable: Mapping[str, Counts] = field(default_factory=dict)
    draws: Draws | None = None

    def reaching(self, identity: Identity) -> Counts:
        """Return how many texts of each length reach the neurons of their positions.

        Where all positions share their neurons, each text is like one of a single token.
        """
        texts = int(self.lengths[1:].sum())
        return np.array([0, texts]) if identity.settings.pooled else self.lengths

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for the data file."""
        found: dict[str, NDArray[Any]] = {"lengths": self.lengths.astype("<i8")}
        found |= {f"reachable.{name}": one.astype("<i8") for name, one in self.reachable.items()}
        if self.draws is not None:
            found |= {"sampled": np.array(self.draws.sampled), "points": self.draws.points}
            found |= {f"shares.{name}": one for name, one in self.draws.shares.items()}
        return found

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], identity: Identity
    ) -> Calibration | None:
        """Make it from what `arrays` returned, if that is anything; it may come from a stranger."""
        if not arrays:
            return None

        def named(start: str, kind: type) -> dict[str, NDArray[Any]]:
            mine = [name for name in arrays if name.startswith(start)]
            return {name.removeprefix(start): arrays[name].astype(kind) for name in mine}

        draws = None
        if "points" in arrays:
            points = arrays["points"].astype(np.int64)
            draws = Draws(int(arrays["sampled"]), points, named("shares.", np.float64))
        lengths = arrays["lengths"].astype(np.int64)
        found = cls(lengths, named("reachable.", np.int64), draws)
        found._check(identity)
        return found

    def _check(self, identity: Identity) -> None:
        """Refuse numbers that do not fit together."""
        names = identity.names
        fits: list[Any] = [
            self.lengths.shape == (identity.settings.max_length + 1,),
            (self.lengths >= 0).all(),
        ]
        fits += [set(self.reachable) == set(names)]
        for criterion in identity.criteria if fits[-1] else ():
            rows = sum(site.groups * site.rows for site in criterion.layout.sites)
            one = self.reachable[criterion.name]
            fits.append(one.shape == (rows,) and (one >= 0).all())
        fits += [self.draws is None or self.draws.fit(names)]
        if not all(bool(np.all(one)) for one in fits):
            raise DataFileError("what it says of the calibration texts does not fit together")


def points_for(sampled: int, texts: int) -> Counts:
    """Return the numbers of texts at which draws from a sample are looked at.

    They grow by a quarter each, since coverage grows with the logarithm of the number of texts.
    """
    last = sampled if sampled == texts else max(1, int(LARGEST * sampled))
    found = [1]
    while found[-1] < last:
        found.append(min(last, max(found[-1] + 1, found[-1] * 5 // 4)))
    return np.array(found, dtype=np.int64)


def yardstick(
    calibration: Calibration | None, identity: Identity, criterion: Measured, texts: int
) -> Yardstick | None:
    """Return what as many random calibration texts reach, or the most that were drawn.

    None if nothing was drawn. Between two points a curve is a straight line over the logarithm.
    """
    draws = None if calibration is None else calibration.draws
    if draws is None or criterion.name not in draws.shares or not texts:
        return None
    n = min(texts, int(draws.points[-1]))
    at, points = np.log(n), np.log(draws.points)
    found = np.array([np.interp(at, points, one) for one in draws.shares[criterion.name]])
    found *= to_reachable(identity, criterion)
    mean = float(found.mean())
    spread = float(found.std(ddof=1)) * _stretch(n, draws.sampled, identity.calibration_texts)
    half = STUDENT * sqrt(1 + 1 / DRAWS) * spread
    return Yardstick(n, mean, max(0.0, mean - half), min(1.0, mean + half))


def _stretch(n: int, sampled: int, texts: int) -> float:
    """Return how much wider draws of n texts from all vary than draws from a sample of them.

    Two draws from a sample share more texts than two from all: the variance of a mean is
    proportional to 1/n - 1/sampled. The sample's own mean is off by 1/sampled - 1/texts.
    Draws of the whole sample, as of a single text, do not vary at all.
    """
    if sampled >= texts or n >= sampled:
        return 1.0
    return sqrt((1 + n / sampled - 2 * n / texts) / (1 - n / sampled))


def to_reachable(identity: Identity, criterion: Measured) -> float:
    """Return what turns a share of all cells into a share of the reachable ones."""
    weight, layout = identity.settings.attention_weight, criterion.layout
    every = reachable = 0.0
    for site, groups in zip(layout.sites, criterion.reachable, strict=True):
        factor = weight if site.kind == "attention" else 1.0
        every += factor * layout.neurons(site) * criterion.cells
        reachable += factor * sum(groups)
    return every / reachable if reachable else 0.0


# How much of a further text the ranges would not hold.


def outside_expected(lengths: Counts, times: float = 1.0) -> float:
    """Return the share of a further text's hidden states that the ranges do not hold, 0 to 1.

    It is the expectation for a text like the calibration texts. Of m + 1 such texts that reach a
    position each is as likely as any other to have the largest value there, and the smallest: a
    further value lies outside the range of m others with probability 2 / (m + 1). `times` is how
    many times as many calibration texts there would be.
    """
    reach = np.cumsum(lengths[::-1])[::-1][1:].astype(np.float64)  # texts with each position
    if not reach.any():
        return 0.0
    outside = np.minimum(1.0, 2 / (times * reach + 1))
    return float((reach * outside).sum() / reach.sum())


def texts_enough(lengths: Counts) -> int:
    """Return about how many texts like these leave `ENOUGH` of a further text outside.

    Two significant digits, rounded up: it is the order that counts.
    """
    low, high = 0.0, 1.0
    while outside_expected(lengths, high) > ENOUGH:
        low, high = high, 2 * high
    for _ in range(20):
        middle = (low + high) / 2
        enough = outside_expected(lengths, middle) <= ENOUGH
        low, high = (low, middle) if enough else (middle, high)
    needed = int(np.ceil(high * lengths.sum()))
    digits = 10 ** max(0, len(str(needed)) - 2)
    return int(-(-needed // digits) * digits)
