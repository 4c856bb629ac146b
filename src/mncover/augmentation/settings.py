"""What the search for new texts may be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from mncover.errors import SettingsError
from mncover.metrics import Metric

# What a new text must raise; "none" takes any text that still means the same.
Guide = Literal["cover", "mncover", "none"]
GUIDES: tuple[Guide, ...] = get_args(Guide)


def check_guide(name: str) -> Guide:
    """Return the guide of a name; refuse an unknown one."""
    for known in GUIDES:
        if name == known:
            return known
    raise SettingsError(f"the guide must be one of {', '.join(GUIDES)}, got {name!r}.")


@dataclass(frozen=True, slots=True)
class AugmentSettings:
    """How Algorithm 1 searches.

    A text is accepted if it adds more than `threshold` to the guide's coverage and its embedding
    has a cosine of at least `similarity` with its seed's. Each seed gets up to `max_iter`
    attempts. `seed` decides all that is left to chance.
    """

    transforms: tuple[str, ...]
    guide: Guide = "cover"
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
    def metric(self) -> Metric | None:
        """The coverage that guides the search, if one does."""
        return None if self.guide == "none" else self.guide
