"""The settings that define what a coverage number means.

Two coverage maps can be united only if they agree on all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from mncover.errors import SettingsError

MIN_BINS, MAX_BINS = 2, 1000


@dataclass(frozen=True, slots=True)
class Settings:
    """How neurons are cut into bins, and how the two kinds of neuron are weighed."""

    bins: int = 10
    max_length: int = 128
    attention_weight: float = 1.0

    def __post_init__(self) -> None:
        _require_int("bins", self.bins, MIN_BINS, MAX_BINS)
        _require_int("max_length", self.max_length, 1, 1_000_000)
        weight = self.attention_weight
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise SettingsError(f"`attention_weight` must be a number, got {weight!r}.")
        if not 0.0 <= weight < float("inf"):
            raise SettingsError(f"`attention_weight` must be finite and at least 0, got {weight}.")
        object.__setattr__(self, "attention_weight", float(weight))

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a plain dictionary."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Settings:
        """Make settings from what `to_json` returned; refuse unknown or missing names."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            raise SettingsError(f"settings must be exactly {sorted(names)}, got {sorted(values)}.")
        return cls(**values)


def _require_int(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise SettingsError(f"`{name}` must be a whole number from {low} to {high}, got {value!r}.")
