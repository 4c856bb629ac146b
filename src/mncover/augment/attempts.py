"""The attempts of Algorithm 1: what each draws, and the text it makes. No torch.

All random choices of an attempt follow from its seed text and its number there, so attempts can be
made ahead of their turn; only the queue depends on what came before.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mncover.augment.transforms import Transform, apply_many
from mncover.types import Text


class Attempt(NamedTuple):
    """An attempt: the index of its seed text, its number there, and its first transformation.

    The transformation may come from the queue, and so depends on earlier attempts.
    """

    seed: int
    tries: int
    first: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Draws the transformations of attempts."""

    transforms: Sequence[str]
    seed: int

    def attempt(self, seed: int, tries: int, queue: Sequence[str]) -> Attempt:
        """Return an attempt; its first transformation is drawn from the queue, unless empty."""
        rng = random.Random(f"{self.seed}:{seed}:{tries}:first")
        at_random = rng.choice(self.transforms)
        first = queue[steady_choice(len(queue), rng)] if queue else at_random
        return Attempt(seed, tries, first)

    def second(self, attempt: Attempt) -> tuple[str, random.Random]:
        """Return an attempt's second transformation, and the generator that both use."""
        rng = random.Random(f"{self.seed}:{attempt.seed}:{attempt.tries}:second")
        return rng.choice(self.transforms), rng


def steady_choice(n: int, rng: random.Random) -> int:
    """Return a random index below n that seldom changes when n grows.

    With m more, the index changes with probability m / (n + m), and then to one of the new ones.
    So attempts can be guessed while the queue still grows. (Lamping and Veach, "A Fast, Minimal
    Memory, Consistent Hash Algorithm", 2014.)
    """
    place, ahead = 0, 0
    while ahead < n:
        place = ahead
        ahead = int((place + 1) / (1.0 - rng.random()))
    return place


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an attempt makes of its seed: a text, or None, and the transformations that worked."""

    text: Text | None
    worked: tuple[str, ...]
    drawn: tuple[str, str]


class Maker:
    """Makes candidates, and keeps them until their seed's turn is over.

    A transformation that finds nothing to change is skipped; if neither does, there is no text.
    """

    def __init__(
        self, seeds: Sequence[Text], transforms: Mapping[str, Transform], drawing: Drawing
    ) -> None:
        self.seeds = seeds
        self.transforms = transforms
        self.drawing = drawing
        self._made: dict[Attempt, Candidate] = {}

    def at_once(self, attempt: Attempt) -> Candidate | None:
        """Return a candidate, or None if it is not made yet and needs a model."""
        if attempt not in self._made and not self._needs_model(attempt):
            self.make([attempt])
        return self._made.get(attempt)

    def __getitem__(self, attempt: Attempt) -> Candidate:
        return self._made[attempt]

    def make(self, attempts: Sequence[Attempt]) -> None:
        """Make the missing candidates; models of transformations see many texts at once."""
        missing = [attempt for attempt in attempts if attempt not in self._made]
        seconds = [self.drawing.second(attempt) for attempt in missing]
        rngs = [rng for _, rng in seconds]
        drawn = [(a.first, second) for a, (second, _) in zip(missing, seconds, strict=True)]
        texts = [self.seeds[attempt.seed] for attempt in missing]
        worked: list[tuple[str, ...]] = [() for _ in missing]
        turns = [list(names) for names in drawn]
        while waiting := [i for i, names in enumerate(turns) if names]:
            # Models come last, so that they see the texts of first and second turns together.
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
        names = (attempt.first, self.drawing.second(attempt)[0])
        return any(self.transforms[name].needs_model for name in names)
