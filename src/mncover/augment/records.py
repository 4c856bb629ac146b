"""What a search is told, what it tries, and what it found. No torch.

All random choices of an attempt follow from its seed text and its number there, so attempts can be
made ahead of their turn; only the queue depends on what came before.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from mncover.augment.transforms import Transform, apply_many
from mncover.criteria import CRITERIA, known_criterion
from mncover.data.schema import Each, Maybe, Whole, check_shape
from mncover.errors import SchemaError, SettingsError
from mncover.types import Text, is_text

# The coverage that a new text must raise; "none" accepts any text that still means the same.
NO_GUIDE = "none"


def check_guide(name: str) -> str:
    """Return the name of a guide, a criterion or "none"; refuse an unknown one."""
    if name.partition(":")[0] not in (known := [*CRITERIA, NO_GUIDE]):
        raise SettingsError(f"the guide must be one of {', '.join(known)}, got {name!r}.")
    return name if name == NO_GUIDE else known_criterion(name).name


@dataclass(frozen=True, slots=True)
class AugmentSettings:
    """How Algorithm 1 searches.

    A text is accepted if it adds more than `threshold` to the guide's coverage and the cosine of
    its embedding and its seed's is at least `similarity`. Each seed gets up to `max_iter`
    attempts. All random choices follow from `seed`.
    """

    transforms: tuple[str, ...]
    guide: str = "cover"
    similarity: float = 0.85
    threshold: float = 0.0
    max_iter: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.transforms:
            raise SettingsError("give at least one transformation.")
        check_guide(self.guide)
        if not -1 <= self.similarity <= 1:
            raise SettingsError(f"`similarity` must be from -1 to 1, got {self.similarity}.")
        if self.threshold < 0:
            raise SettingsError(f"`threshold` must be at least 0, got {self.threshold}.")
        if self.max_iter < 1:
            raise SettingsError(f"`max_iter` must be at least 1, got {self.max_iter}.")

    @property
    def criterion(self) -> str | None:
        """The criterion that guides the search, if any."""
        return None if self.guide == NO_GUIDE else self.guide


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
        return Attempt(seed, tries, queue[steady_choice(len(queue), rng)] if queue else at_random)

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


class Candidate(NamedTuple):
    """What an attempt makes of its seed: a text, or None, and the transformations that worked."""

    text: Text | None
    worked: tuple[str, ...]
    drawn: tuple[str, str]


@dataclass(slots=True)
class Maker:
    """Makes candidates, and keeps them until their seed's turn is over.

    A transformation that finds nothing to change is skipped; if neither does, there is no text.
    """

    seeds: Sequence[Text]
    transforms: Mapping[str, Transform]
    drawing: Drawing
    _made: dict[Attempt, Candidate] = field(default_factory=dict)

    def at_once(self, attempt: Attempt) -> Candidate | None:
        """Return a candidate, or None if it is not made yet and needs a model."""
        if attempt not in self._made:
            names = (attempt.first, self.drawing.second(attempt)[0])
            if not any(self.transforms[name].needs_model for name in names):
                self.make([attempt])
        return self._made.get(attempt)

    def __getitem__(self, attempt: Attempt) -> Candidate:
        return self._made[attempt]

    def make(self, attempts: Sequence[Attempt]) -> None:
        """Make the missing candidates; models of transformations see many texts at once."""
        missing = [attempt for attempt in attempts if attempt not in self._made]
        seconds = [self.drawing.second(attempt) for attempt in missing]
        drawn = [(a.first, second) for a, (second, _) in zip(missing, seconds, strict=True)]
        texts = [self.seeds[attempt.seed] for attempt in missing]
        worked: list[tuple[str, ...]] = [()] * len(missing)
        turns = [list(names) for names in drawn]
        while waiting := [i for i, names in enumerate(turns) if names]:
            # Models come last, so that they see the texts of first and second turns together.
            plain = [i for i in waiting if not self.transforms[turns[i][0]].needs_model]
            now = plain or waiting
            names = [turns[i].pop(0) for i in now]
            changes = [self.transforms[name] for name in names]
            changed = apply_many(changes, [texts[i] for i in now], [seconds[i][1] for i in now])
            for i, name, text in zip(now, names, changed, strict=True):
                if text is not None:
                    texts[i], worked[i] = text, (*worked[i], name)
        for i, attempt in enumerate(missing):
            text = None if texts[i] == self.seeds[attempt.seed] else texts[i]
            self._made[attempt] = Candidate(text, worked[i], drawn[i])

    def forget_before(self, seed: int) -> None:
        """Drop the candidates of seeds whose turn is over."""
        self._made = {one: made for one, made in self._made.items() if one.seed >= seed}


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted text.

    `transforms` are those that changed its seed, in order; `gain` is what it added to the guide's
    coverage, as a share of all bins, or None without a guide.
    """

    seed: int
    text: Text
    transforms: tuple[str, ...]
    similarity: float
    gain: float | None = None

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Accepted:
        """Make an accepted text from plain values, in which tuples are lists."""
        values: dict[str, Any] = {one.name: row.get(one.name) for one in fields(cls)}
        values |= {name: tuple(v) for name, v in values.items() if type(v) is list}
        made = cls(**values)
        if not is_text(made.text):
            raise SchemaError("state.accepted: a text must be a string or a list of two strings")
        return made


@dataclass(slots=True)
class Tally:
    """What became of the attempts.

    `made` counts attempts that made a text not seen before, `similar` those whose text was also
    close enough to its seed. `drawn` and `changed` count, for each transformation, how often it
    was drawn and how often it found something to change.
    """

    attempts: int = 0
    made: int = 0
    similar: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)


_TALLY = {"attempts": Whole(), "made": Whole(), "similar": Whole()}
_ACCEPTED = {"seed": Whole(), "transforms": [str], "similarity": float, "gain": Maybe(float)}
_STATE = {
    "seed": Whole(),
    "tries": Whole(),
    "texts_run": Whole(),
    "accepted": [_ACCEPTED],
    "tally": {**_TALLY, "drawn": Each(Whole()), "changed": Each(Whole())},
}


@dataclass(frozen=True, slots=True)
class SearchState:
    """Everything that a search has decided so far."""

    seed: int
    tries: int
    accepted: list[Accepted]
    tally: Tally
    texts_run: int

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain values."""
        # Field by field: `asdict` breaks a Counter.
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        tally = {one.name: getattr(self.tally, one.name) for one in fields(Tally)}
        return {**plain, "accepted": [asdict(one) for one in self.accepted], "tally": tally}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> SearchState:
        """Make a state from what `to_json` returned; the row may be damaged."""
        check_shape(row, _STATE, "state")
        tally = {one.name: row["tally"][one.name] for one in fields(Tally)}
        tally |= {name: Counter(tally[name]) for name in ("drawn", "changed")}
        accepted = [Accepted.from_json(one) for one in row["accepted"]]
        return cls(row["seed"], row["tries"], accepted, Tally(**tally), row["texts_run"])


@dataclass(frozen=True, slots=True)
class Earning:
    """How one transformation, or several in a row, did; `mean_gain` is over accepted texts."""

    transforms: tuple[str, ...]
    drawn: int | None
    changed: int | None
    accepted: int
    mean_gain: float | None


@dataclass(slots=True)
class Augmented:
    """The accepted texts of a search, in order, and its statistics.

    `seeds` is the number of seed texts; `before` and `after` are the guide's coverage by the
    seeds, and by seeds and accepted texts, or None without a guide; `texts_run` is how many texts
    the subject ran, including wrong guesses.
    """

    seeds: int
    accepted: list[Accepted] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    before: float | None = None
    after: float | None = None
    texts_run: int = 0

    @property
    def model_calls(self) -> int:
        """How many texts have to be run if attempts are made one by one: the similar ones."""
        return self.tally.similar

    def by_transform(self, names: Sequence[str]) -> list[Earning]:
        """Return how each transformation did, most accepted first."""
        drawn, changed = self.tally.drawn, self.tally.changed
        groups = {name: [one for one in self.accepted if name in one.transforms] for name in names}
        found = [_earning((n,), group, drawn[n], changed[n]) for n, group in groups.items()]
        return sorted(found, key=lambda earning: -earning.accepted)

    def by_combination(self) -> list[Earning]:
        """Return how each combination of transformations did, most accepted first."""
        groups: dict[tuple[str, ...], list[Accepted]] = {}
        for one in self.accepted:
            groups.setdefault(one.transforms, []).append(one)
        found = [_earning(transforms, group) for transforms, group in groups.items()]
        return sorted(found, key=lambda earning: (-earning.accepted, earning.transforms))


def _earning(transforms: tuple[str, ...], accepted: Sequence[Accepted], *counts: int) -> Earning:
    drawn, changed = counts or (None, None)
    gains = [one.gain for one in accepted if one.gain is not None]
    mean = sum(gains) / len(gains) if gains else None
    return Earning(transforms, drawn, changed, len(accepted), mean)
