"""How much a file may ask for. A file comes from anywhere, and a small one can ask for a lot.

Each limit is an environment variable, so that whoever knows a file can let it in.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from mncover.errors import LimitError, SettingsError

# A compressed file may hold this many bytes, or as many times its own size, whichever is more.
FREE, RATIO = 2**24, 100


@dataclass(frozen=True, slots=True)
class Limit:
    """A number that no file may exceed, and the environment variable that sets it."""

    variable: str
    default: int

    @property
    def given(self) -> int | None:
        """What the environment says, if it says anything."""
        raw = os.environ.get(self.variable)
        if not raw:
            return None
        try:
            return int(raw)
        except ValueError:
            what = f"{self.variable} must be a whole number"
            raise SettingsError(f"{what}, got {raw!r:.40}.") from None

    @property
    def value(self) -> int:
        """The limit that holds."""
        return self.default if self.given is None else self.given

    def check(self, n: int, what: str, most: int | None = None) -> None:
        """Refuse more than the limit, or than `most`; `what` is what there are n of, and where."""
        allowed = self.value if most is None else most
        if n > allowed:
            raise LimitError(
                f"{what}: more than {allowed:,}; "
                f"if that is right, set {self.variable} to a larger number."
            )


BYTES = Limit("MNCOVER_MAX_BYTES", 2**30)  # of a file after decompression
LINE = Limit("MNCOVER_MAX_LINE", 2**24)  # bytes of a line
ROWS = Limit("MNCOVER_MAX_ROWS", 10_000_000)  # texts or records of a file
VARIANTS = Limit("MNCOVER_MAX_VARIANTS", 1000)  # of one text of a recipe
TEXTS = Limit("MNCOVER_MAX_TEXTS", 500_000)  # that a recipe makes
MAP = Limit("MNCOVER_MAX_MAP", 2**31)  # bytes of a coverage map in memory
VALUES = Limit("MNCOVER_MAX_VALUES", 200_000)  # values of a YAML file, each list and mapping twice
CLASSES = Limit("MNCOVER_MAX_CLASSES", 1000)  # of predictions
LAYERS = Limit("MNCOVER_MAX_LAYERS", 1000)  # of a model, or experts of a layer
DEPTH = Limit("MNCOVER_MAX_DEPTH", 50)  # of keys within keys
LIMITS = (BYTES, LINE, ROWS, VALUES, VARIANTS, TEXTS, MAP, CLASSES, LAYERS, DEPTH)


def most_bytes(size: int, free: int = FREE, ratio: int = RATIO) -> int:
    """Return how many bytes a compressed file of this size may hold."""
    if BYTES.given is not None:
        return BYTES.given
    return max(min(BYTES.default, max(free, ratio * size)), 2 * size)


def check_bytes(n: int, size: int, what: str, free: int = FREE, ratio: int = RATIO) -> None:
    """Refuse to unpack n bytes from a compressed file of this size if that is too much."""
    BYTES.check(n, f"{what}: bytes after decompression", most_bytes(size, free, ratio))


@dataclass
class Budget:
    """How many characters may be made of a file; `what` they are is said if there are more."""

    most: int
    what: str
    spent: int = 0

    def spend(self, characters: int) -> None:
        """Count characters, before they are made; refuse too many."""
        self.spent += characters
        BYTES.check(self.spent, self.what, self.most)
