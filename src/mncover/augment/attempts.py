"""The attempts of Algorithm 1: which transformations each of them draws. No torch here.

Everything that is left to chance in an attempt hangs on its seed text and its number there. So
attempts can be looked at before their turn; of what came before only the queue matters.

Texts made from seeds by two transformations, many at once. No torch here.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mncover.augment.transforms import Transform, apply_many
from mncover.types import Text


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


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an attempt makes of its seed: a changed text and what changed it, or nothing."""

    text: Text | None
    worked: tuple[str, ...]
    drawn: tuple[str, str]


class Maker:
    """Makes candidates, and keeps them until their seed's turn is over.

    A transformation that finds nothing to change is passed over; if neither finds anything there
    is no candidate.
    """

    def __init__(
        self, seeds: Sequence[Text], transforms: Mapping[str, Transform], drawing: Drawing
    ) -> None:
        self.seeds = seeds
        self.transforms = transforms
        self.drawing = drawing
        self._made: dict[Attempt, Candidate] = {}

    def at_once(self, attempt: Attempt) -> Candidate | None:
        """Return a candidate; None if it is not made yet and a model has to be asked for it."""
        if attempt not in self._made and not self._needs_model(attempt):
            self.make([attempt])
        return self._made.get(attempt)

    def __getitem__(self, attempt: Attempt) -> Candidate:
        return self._made[attempt]

    def make(self, attempts: Sequence[Attempt]) -> None:
        """Make the candidates that are missing; models of transformations see many at once."""
        missing = [attempt for attempt in attempts if attempt not in self._made]
        chances = [self.drawing.chance(attempt) for attempt in missing]
        rngs = [chance.rng for chance in chances]
        drawn = [(a.first, c.second) for a, c in zip(missing, chances, strict=True)]
        texts = [self.seeds[attempt.seed] for attempt in missing]
        worked: list[tuple[str, ...]] = [() for _ in missing]
        turns = [list(names) for names in drawn]
        while waiting := [i for i, names in enumerate(turns) if names]:
            # Models come last, so that what is made for them in the first turn and what in the
            # second go together.
            plain = [i for i in waiting if not self.transforms[turns[i][0]].needs_model]
            now = plain or waiting
            names = [turns[i].pop(0) for i in now]
            changes = [self.transforms[name] for name in names]
            changed = apply_many(changes, [texts[i] for i in now], [rngs[i] for i in now])
            for i, name, text in zip(now, names, changed, strict=True):
                if text is not None:
                    texts[i], worked[i] = text, (*worked[i], name)
        for attempt, made, by, pair in zip(missing, texts, worked, drawn, strict=True):
            new = made != self.seeds[attempt.seed]
            self._made[attempt] = Candidate(made if new else None, by, pair)

    def forget_before(self, seed: int) -> None:
        """Drop the candidates of seeds whose turn is over."""
        self._made = {one: made for one, made in self._made.items() if one.seed >= seed}

    def _needs_model(self, attempt: Attempt) -> bool:
        names = (attempt.first, self.drawing.chance(attempt).second)
        return any(self.transforms[name].needs_model for name in names)
