"""What a search is told, what it found, and which transformations earned their place. No torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from mncover.criteria import CRITERIA
from mncover.errors import SettingsError
from mncover.types import Text

# The coverage that a new text must raise; "none" accepts any text that still means the same.
NO_GUIDE = "none"


def check_guide(name: str) -> str:
    """Return the name of a guide, a criterion or "none"; refuse an unknown one."""
    if name not in (*CRITERIA, NO_GUIDE):
        known = ", ".join((*CRITERIA, NO_GUIDE))
        raise SettingsError(f"the guide must be one of {known}, got {name!r}.")
    return name


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
        """Make a state from what `to_json` returned."""
        counts = {name: Counter(row["tally"][name]) for name in ("drawn", "changed")}
        tally = Tally(**{**row["tally"], **counts})
        return cls(**{**row, "accepted": list(map(_accepted, row["accepted"])), "tally": tally})


def _accepted(row: dict[str, Any]) -> Accepted:
    text = row["text"] if isinstance(row["text"], str) else tuple(row["text"])
    return Accepted(**{**row, "text": text, "transforms": tuple(row["transforms"])})


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
        found = [
            _earning(
                (name,),
                [one for one in self.accepted if name in one.transforms],
                self.tally.drawn[name],
                self.tally.changed[name],
            )
            for name in names
        ]
        return sorted(found, key=lambda earning: -earning.accepted)

    def by_combination(self) -> list[Earning]:
        """Return how each combination of transformations did, most accepted first."""
        groups: dict[tuple[str, ...], list[Accepted]] = {}
        for one in self.accepted:
            groups.setdefault(one.transforms, []).append(one)
        found = [_earning(transforms, group) for transforms, group in groups.items()]
        return sorted(found, key=lambda earning: (-earning.accepted, earning.transforms))


def _earning(
    transforms: tuple[str, ...],
    accepted: Sequence[Accepted],
    drawn: int | None = None,
    changed: int | None = None,
) -> Earning:
    gains = [one.gain for one in accepted if one.gain is not None]
    mean = sum(gains) / len(gains) if gains else None
    return Earning(transforms, drawn, changed, len(accepted), mean)
