"""What a saturation curve is. No torch here."""

from __future__ import annotations

from dataclasses import dataclass

from mncover.metrics import Metric


@dataclass(frozen=True, slots=True)
class Curve:
    """Coverage (`shares`) of the first so many texts kept (`texts`), and how many were visited.

    `seed` is that of the shuffled order, None for the given order. `threshold` None means that
    every text was kept.
    """

    name: str
    metric: Metric
    seed: int | None
    threshold: float | None
    visited: int
    texts: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def kept(self) -> int:
        """How many texts were kept."""
        return self.texts[-1] if self.texts else 0

    @property
    def share(self) -> float:
        """The coverage of all texts kept."""
        return self.shares[-1] if self.shares else 0.0

    @property
    def reduction(self) -> float:
        """The share of the texts that was left out."""
        return 1 - self.kept / self.visited if self.visited else 0.0
