"""Texts made from seeds by two transformations, many at once. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mncover.augmentation.attempts import Attempt, Drawing
from mncover.texts import Text
from mncover.transforms import Transform, apply_many


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
