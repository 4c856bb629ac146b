"""Keep the state of a search in a file, and go on from it. No torch here."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mncover.augment.records import Accepted, Tally
from mncover.data.files import replacing

# Seconds between two writes; so much work is lost at most.
INTERVAL = 10.0


@dataclass(frozen=True, slots=True)
class SearchState:
    """Everything that a search has decided so far."""

    seed: int
    tries: int
    accepted: list[Accepted]
    tally: Tally
    texts_run: int


class Unfinished:
    """The file of an unfinished search; `key` says of which one."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path = path
        self.key = json.loads(json.dumps(key))
        self._written = time.monotonic()

    def is_time(self) -> bool:
        """Return whether the last write is long enough ago."""
        return time.monotonic() - self._written >= INTERVAL

    def save(self, state: SearchState) -> None:
        """Write the state, replacing the file in one step."""
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps({"key": self.key, "state": _plain(state)}))
        self._written = time.monotonic()

    def load(self) -> SearchState | None:
        """Return the saved state; None if there is none, or it belongs to another search."""
        try:
            content = json.loads(self.path.read_text())
            if content["key"] != self.key:
                return None
            state = content["state"]
            return SearchState(
                state["seed"],
                state["tries"],
                [_accepted(row) for row in state["accepted"]],
                _tally(state["tally"]),
                state["texts_run"],
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _plain(state: SearchState) -> dict[str, Any]:
    row = {name: getattr(state, name) for name in ("seed", "tries", "texts_run")}
    row |= {"accepted": [asdict(one) for one in state.accepted]}
    # Not by asdict, which makes nonsense of a Counter.
    return row | {"tally": {name: getattr(state.tally, name) for name in _COUNTS}}


_COUNTS = ("attempts", "made", "similar", "drawn", "changed")


def _accepted(row: dict[str, Any]) -> Accepted:
    text = row["text"]
    row = {**row, "text": text if isinstance(text, str) else tuple(text)}
    return Accepted(**{**row, "transforms": tuple(row["transforms"])})


def _tally(row: dict[str, Any]) -> Tally:
    counts = {name: Counter(row[name]) for name in ("drawn", "changed")}
    return Tally(row["attempts"], row["made"], row["similar"], **counts)
