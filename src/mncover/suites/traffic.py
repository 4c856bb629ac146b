"""Traffic: what people sent to a model, read line by line; equal texts are counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.addresses import recorded, shown
from mncover.errors import SettingsError, TextError
from mncover.suites.formats import is_test_suite, read_records
from mncover.suites.formats.hub import is_hub
from mncover.suites.formats.records import Fields, choose_fields, pick
from mncover.suites.intake import given_texts
from mncover.types import Text

MOST = 200_000  # lines that are kept unless told otherwise


@dataclass(frozen=True, slots=True)
class Traffic:
    """Distinct texts, how often each came, of how many lines they were drawn, and from where."""

    texts: list[Text]
    counts: NDArray[np.int64]
    lines: int
    source: str = ""

    @property
    def drawn(self) -> int:
        """How many lines were looked at."""
        return int(self.counts.sum())


def read_traffic(
    path: Path, fields: Fields | None = None, most: int = MOST, seed: int = 0
) -> Traffic:
    """Read a file of texts; of more than `most` lines, so many are drawn at random."""
    if is_test_suite(path):
        raise TextError(f"{shown(path)}: this is a test suite; traffic is a file of texts.")
    return _drawn(_texts(path, fields or Fields()), most, seed, recorded(path))


def given_traffic(given: Any, fields: Fields, most: int = MOST, seed: int = 0) -> Traffic:
    """Return traffic from a file, whose path a string is, or from texts that were handed in."""
    if isinstance(given, Traffic):
        return given
    if most < 1:
        raise SettingsError(f"`limit` must be at least 1, got {most}.")
    if isinstance(given, str | Path) and not is_hub(given):
        return read_traffic(Path(given), fields, most, seed)
    return _drawn(given_texts(given, fields.text, fields.pair), most, seed, "")


def _drawn(texts: Iterable[Text], most: int, seed: int, source: str) -> Traffic:
    drawn: list[Text] = []
    lines, rng = 0, random.Random(seed)
    for text in texts:
        lines += 1
        if len(drawn) < most:
            drawn.append(text)
        elif (place := rng.randrange(lines)) < most:  # every line is as likely to be kept
            drawn[place] = text
    if not drawn:
        raise TextError(f"{source}: the file holds no text." if source else "no text was given.")
    counted = Counter(drawn)
    counts = np.array(list(counted.values()), dtype=np.int64)
    return Traffic(list(counted), counts, lines, source)


def _texts(path: Path, fields: Fields) -> Iterator[Text]:
    chosen: Fields | None = None
    for line, record in read_records(path):
        try:
            chosen = chosen or choose_fields(record, fields)
            yield pick(record, chosen, "")[0]
        except TextError as error:
            raise TextError(f"{shown(path)}, line {line}: {error}") from None
