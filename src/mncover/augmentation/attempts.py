"""The attempts of Algorithm 1: which transformations each of them draws. No torch here.

Everything that is left to chance in an attempt hangs on its seed text and its number there. So
attempts can be looked at before their turn; of what came before only the queue matters.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Attempt(NamedTuple):
    """An attempt: its seed text's index, how many that one has had, its first transformation.

    The latter depends on the queue, and so on what came before.
    """

    seed: int
    tries: int
    first: str


@dataclass(frozen=True, slots=True)
class Chance:
    """The part of an attempt that is drawn: its second transformation, and what they use."""

    second: str
    rng: random.Random


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws the transformations of attempts."""

    transforms: Sequence[str]
    seed: int

    def attempt(self, seed: int, tries: int, queue: Sequence[str]) -> Attempt:
        """Return an attempt: its first transformation is drawn from the queue, if it has any."""
        rng = random.Random(f"{self.seed}:{seed}:{tries}:first")
        at_random = rng.choice(self.transforms)
        first = queue[steady_choice(len(queue), rng)] if queue else at_random
        return Attempt(seed, tries, first)

    def chance(self, attempt: Attempt) -> Chance:
        """Return what else is drawn for an attempt."""
        rng = random.Random(f"{self.seed}:{attempt.seed}:{attempt.tries}:second")
        return Chance(rng.choice(self.transforms), rng)


def steady_choice(n: int, rng: random.Random) -> int:
    """Return one of n places at random, so that a longer list mostly gives the same place.

    With m places more, another one is drawn, from equal chances, with probability m / (n + m)
    only. That is why attempts can be guessed while the queue still grows. (Lamping and Veach,
    "A Fast, Minimal Memory, Consistent Hash Algorithm", 2014.)
    """
    place, ahead = 0, 0
    while ahead < n:
        place = ahead
        ahead = int((place + 1) / (1.0 - rng.random()))
    return place
