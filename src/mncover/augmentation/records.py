"""What a search found, and which transformations earned their place. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from mncover.texts import Text


@dataclass(frozen=True, slots=True)
class Accepted:
    """A text that was accepted.

    `transforms` are those that changed its seed, in order; `gain` is what it added to the guide's
    coverage, as a share of all bins, None without a guide.
    """

    seed: int
    text: Text
    transforms: tuple[str, ...]
    similarity: float
    gain: float | None = None


@dataclass(slots=True)
class Tally:
    """What became of the attempts.

    `made` counts those that made a text not seen before, `similar` those of them that came close
    enough to their seed. `drawn` and `changed` count, for each transformation, how often it was
    drawn and how often it found something to change.
    """

    attempts: int = 0
    made: int = 0
    similar: int = 0
    drawn: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Earning:
    """How a transformation, or several in a row, fared; `mean_gain` is of the accepted texts."""

    transforms: tuple[str, ...]
    drawn: int | None
    changed: int | None
    accepted: int
    mean_gain: float | None


@dataclass(slots=True)
class Augmented:
    """The accepted texts of a search, in order, and its account.

    `seeds` is the number of seed texts; `before` and `after` are the guide's coverage by the
    seeds, and by seeds and accepted texts, None without a guide; `texts_run` says how many texts
    the subject ran, those that were guessed in vain included.
    """

    seeds: int
    accepted: list[Accepted] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    before: float | None = None
    after: float | None = None
    texts_run: int = 0

    @property
    def model_calls(self) -> int:
        """How many texts had to be run, one attempt after the other: the similar ones."""
        return self.tally.similar

    def by_transform(self, names: Sequence[str]) -> list[Earning]:
        """Return how each transformation fared, most accepted first."""
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
        """Return how those fared that made accepted texts together, most accepted first."""
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
