"""Counts of cells, and the shares that they make up."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Count:
    """How many cells were covered, of how many, and how many of them can be reached at all."""

    covered: int = 0
    total: int = 0
    reachable: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(
            self.covered + other.covered, self.total + other.total, self.reachable + other.reachable
        )

    @property
    def share(self) -> float:
        """The covered share of all cells, 0 to 1."""
        return self.covered / self.total if self.total else 0.0

    @property
    def share_of_reachable(self) -> float:
        """The covered share of the cells that can be reached, 0 to 1."""
        return self.covered / self.reachable if self.reachable else 0.0


@dataclass(frozen=True, slots=True)
class Tally:
    """Cells of both kinds of neuron, and the weighted share that a criterion is."""

    word: Count
    attention: Count
    attention_weight: float

    @property
    def share(self) -> float:
        """(word + weight · attention) hits over all cells weighted alike."""
        return self._weighted(self.word.total, self.attention.total)

    @property
    def share_of_reachable(self) -> float:
        """The share, if cells that no text can reach are left out of the total."""
        return self._weighted(self.word.reachable, self.attention.reachable)

    def _weighted(self, word: int, attention: int) -> float:
        weight = self.attention_weight
        total = word + weight * attention
        covered = self.word.covered + weight * self.attention.covered
        return covered / total if total else 0.0
