"""The coverage maps of both metrics, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mncover.criteria import COVER, MNCOVER, Metric
from mncover.engine.kernels.backend import Array, Backend


@dataclass(slots=True)
class Hits:
    """What was hit, and what of it the masks let count; without masks there is only the first."""

    cover: Array
    mncover: Array | None = None

    @classmethod
    def empty(cls, backend: Backend, masked: bool) -> Hits:
        """Return maps in which nothing was hit."""
        return cls(backend.new_map(), backend.new_map() if masked else None)

    def __iter__(self) -> Iterator[tuple[Metric, Array]]:
        yield COVER, self.cover
        if self.mncover is not None:
            yield MNCOVER, self.mncover

    def of(self, metric: Metric) -> Array:
        """Return the map of one metric."""
        return dict(self)[metric]

    def copy(self, backend: Backend) -> Hits:
        """Return a copy."""
        return Hits(*(backend.copy_of(words) for _, words in self))

    def add(self, other: Hits) -> None:
        """Unite with other maps."""
        self.cover |= other.cover
        if self.mncover is not None:
            self.mncover |= other.mncover
