"""What reports say of masks: how much they keep, how faithfully, and their extremes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from mncover.errors import MaskError

COUNTS = ("words", "words_kept", "pairs", "pairs_kept")
LISTS = ("top_words", "low_words", "top_pairs", "low_pairs")

# A word, or two words of a pair, with its score.
Scored = tuple[str, float]


@dataclass(frozen=True)
class MaskSummary:
    """Masks in a few numbers and words; two are equal if the same words and pairs count.

    Of `words` and `pairs` that training saw, so many are kept. `fidelity` is None if it was
    never measured, as for masks made by hand.
    """

    fingerprint: str
    words: int = field(compare=False)
    words_kept: int = field(compare=False)
    pairs: int = field(compare=False)
    pairs_kept: int = field(compare=False)
    unseen: str = field(compare=False)
    fidelity: float | None = field(compare=False)
    top_words: tuple[Scored, ...] = field(compare=False)
    low_words: tuple[Scored, ...] = field(compare=False)
    top_pairs: tuple[Scored, ...] = field(compare=False)
    low_pairs: tuple[Scored, ...] = field(compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MaskSummary:
        """Make a summary from what `to_json` returned; the value may come from a stranger."""
        counts = {name: int(value[name]) for name in COUNTS}
        lists = {
            name: tuple((str(word), float(score)) for word, score in value[name]) for name in LISTS
        }
        if min(counts.values()) < 0:
            raise MaskError("its summary of the masks has negative numbers")
        fidelity = value["fidelity"]
        known: dict[str, Any] = {**counts, **lists}
        return cls(
            fingerprint=str(value["fingerprint"]),
            unseen=str(value["unseen"]),
            fidelity=None if fidelity is None else float(fidelity),
            **known,
        )
