"""Take cases by their scores, of each test or of the whole suite; the suite's order is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError

Scores = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Limit:
    """How much to take; exactly one of the four is given.

    `share` and `number` take the best cases, `threshold` those that score more. `quantile` takes
    the paper's way: of the scores above 0, those that are at least at this quantile of them.
    """

    share: float | None = None
    number: int | None = None
    threshold: float | None = None
    quantile: float | None = None

    def take(self, scores: Scores) -> Indices:
        """Return the indices of the scores taken, in order; of equal scores the first."""
        if self.threshold is not None:
            return np.flatnonzero(scores > self.threshold)
        if self.quantile is not None:
            adding = scores[scores > 0]
            edge = np.quantile(adding, self.quantile) if len(adding) else np.inf
            return np.flatnonzero((scores > 0) & (scores >= edge))
        return best(scores, self.size(len(scores)))

    def size(self, n: int) -> int:
        """Return how many of n cases a budget takes; a share takes at least one."""
        if self.share is not None:
            return min(n, max(1, round(self.share * n)))
        return min(n, self.number or 0)


def parse_budget(text: str) -> Limit:
    """Return the limit that a text such as `20%` or `50` stands for.

    >>> parse_budget("20%")
    Limit(share=0.2, number=None, threshold=None, quantile=None)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if match is None or float(match[1]) <= 0 or (match[2] and float(match[1]) > 100):
        raise SettingsError(f"a budget is a number of cases or a percentage (20%), got {text!r}.")
    if match[2]:
        return Limit(share=float(match[1]) / 100)
    if "." in match[1]:
        raise SettingsError(f"a number of cases is whole, got {text!r}; a percentage ends with %.")
    return Limit(number=int(match[1]))


def best(scores: Scores, k: int) -> Indices:
    """Return the indices of the k largest scores, in order; of equal scores the first."""
    return np.sort(np.argsort(-scores, kind="stable")[:k])


def choose(scores: Scores, groups: Sequence[Indices], limit: Limit) -> Indices:
    """Return the indices of the cases that a limit takes from each group, in order."""
    taken = [group[limit.take(scores[group])] for group in groups]
    return np.sort(np.concatenate(taken)) if taken else np.zeros(0, dtype=np.int64)


def groups_of(test: NDArray[np.int64], overall: bool) -> list[Indices]:
    """Return the cases of each test, or all cases as one group with `overall`."""
    if overall:
        return [np.arange(len(test))] if len(test) else []
    return [np.flatnonzero(test == number) for number in np.unique(test)]
