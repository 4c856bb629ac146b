"""Which words of a text may meet under masks: small enough to keep, and to draw. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mncover.data.schema import check_shape
from mncover.errors import DataFileError

MEETS, UNSEEN, APART = "+", "?", "-"  # a pair that training saw or did not see may meet, or neither
MEETINGS = "meetings.json"  # the member of a data file
MOST_MEETINGS = 6  # that a data file keeps
MOST_WORDS = 24  # of a text that is drawn

_SHAPE = [{"words": [str], "kept": str, "pairs": [str]}]


@dataclass(frozen=True, slots=True)
class Meeting:
    """The words of a text, special tokens left out, and which of them masks let meet.

    `kept` has a 1 for each word that counts and a 0 for each other. `pairs` has a line for each
    word: a character for every word before it, `MEETS`, `UNSEEN` (they may meet, but training did
    not see the pair) or `APART`.
    """

    words: tuple[str, ...]
    kept: str
    pairs: tuple[str, ...]

    def rows(self) -> Iterator[tuple[str, bool, str]]:
        """Yield each word, whether it counts, and its line."""
        kept = [one == "1" for one in self.kept]
        return zip(self.words, kept, self.pairs, strict=True)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def meetings_from_json(values: Any) -> tuple[Meeting, ...]:
    """Make meetings from what `to_json` returned; the values may come from a stranger."""
    check_shape(values, _SHAPE, "meetings")
    found = tuple(Meeting(tuple(one["words"]), one["kept"], tuple(one["pairs"])) for one in values)
    for one in found:
        lines = [len(line) for line in one.pairs]
        sound = lines == list(range(len(one.words))) and len(one.kept) == len(one.words)
        letters = set("".join(one.pairs)) <= {MEETS, UNSEEN, APART} and set(one.kept) <= {"0", "1"}
        if not (sound and letters and len(one.words) <= MOST_WORDS):
            raise DataFileError("its drawings of masks do not fit their words")
    if len(found) > MOST_MEETINGS:
        raise DataFileError("it has too many drawings of masks")
    return found
