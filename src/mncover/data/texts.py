"""Texts in a temporary file, so that a large suite takes as little memory as a small one."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from mncover.data.blobs import BlobStore
from mncover.data.columns import Column, Places
from mncover.types import Text

SPAN = 2**20  # bytes that are read at once if texts in them are wanted
WAITING = 2**16  # bytes that wait until they are written


class TextFile:
    """Texts in an unnamed temporary file, in the order in which they come.

    The file is gone when nobody has it any more, however the process ends.
    """

    def __init__(self) -> None:
        self._blobs = BlobStore()
        self._ends = array("q", [0])
        self._waiting: list[bytes] = []
        self._written = 0
        self._lock = Lock()  # several threads may be the first to read

    def add(self, text: Text) -> None:
        """Add a text to the end."""
        content = _encoded(text)
        self._waiting.append(content)
        self._ends.append(self._ends[-1] + len(content))
        if self._ends[-1] - self._written > WAITING:
            self._write()

    def __len__(self) -> int:
        return len(self._ends) - 1

    def texts(self, start: int = 0, stop: int | None = None) -> Texts:
        """Return the texts, or some of them, as a column."""
        return Texts(self, start, len(self) if stop is None else stop)

    def at(self, places: Places) -> list[Text]:
        """Return the texts at some places; those that are near each other are read at once."""
        if not len(places):
            return []
        self._write()
        ends = np.frombuffer(self._ends, np.int64)
        starts, stops = ends[places], ends[places + 1]
        first, last = int(starts.min()), int(stops.max())
        each = zip(starts.tolist(), stops.tolist(), strict=True)
        if last - first > SPAN:
            return [_decoded(self._blobs.get((start, stop - start))) for start, stop in each]
        content = self._blobs.get((first, last - first))
        return [_decoded(content[start - first : stop - first]) for start, stop in each]

    def _write(self) -> None:
        with self._lock:
            if self._waiting:
                self._blobs.put(b"".join(self._waiting))
                self._waiting, self._written = [], self._ends[-1]


class Texts(Column[Text]):
    """Texts of a file that follow each other."""

    def __init__(self, file: TextFile, start: int, stop: int) -> None:
        self.file, self.start, self.stop = file, start, stop

    def __len__(self) -> int:
        return self.stop - self.start

    def at(self, places: Places) -> list[Text]:
        """Return the texts at some places."""
        return self.file.at(places + self.start)


def on_disk(texts: Iterable[Text]) -> Texts:
    """Return texts as a column, whose file is made here."""
    file = TextFile()
    for text in texts:
        file.add(text)
    return file.texts()


class Alone(Column[list[Text]]):
    """Cases of one text each."""

    def __init__(self, texts: Sequence[Text]) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def at(self, places: Places) -> list[list[Text]]:
        """Return the cases at some places."""
        if isinstance(self.texts, Column):
            return [[text] for text in self.texts.at(places)]
        return [[self.texts[place]] for place in places.tolist()]


PARTS = 16  # of texts among which equal ones are looked for


def first_equal(texts: Iterable[Text]) -> NDArray[np.int32]:
    """Return for each text the place of the first one that equals it.

    Texts are told by a digest of 128 bits, which takes a sixth of the memory that they would.
    """
    digests = bytearray()
    for text in texts:
        digests += hashlib.blake2b(_encoded(text), digest_size=16).digest()
    keys = np.frombuffer(digests, "S16")
    part = np.frombuffer(digests, np.uint8)[::16] % PARTS
    found = np.empty(len(keys), np.int32)
    for number in range(PARTS):  # of all at once, sorting would take three times the memory
        mine = np.flatnonzero(part == number)
        _, first, which = np.unique(keys[mine], return_index=True, return_inverse=True)
        found[mine] = mine[first][which]
    return found


def to_bytes(texts: Sequence[Text]) -> bytes:
    """Return texts as bytes: their number, how long each is, and what they are."""
    contents = [_encoded(text) for text in texts]
    sizes = np.array([len(contents), *map(len, contents)], np.int64)
    return b"".join([sizes.tobytes(), *contents])


def from_bytes(content: bytes) -> list[Text]:
    """Return the texts that `to_bytes` got."""
    n = int(np.frombuffer(content, np.int64, 1)[0])
    start = 8 * (n + 1)
    ends = np.cumsum(np.frombuffer(content, np.int64, n + 1)[1:]) + start
    return [_decoded(content[a:b]) for a, b in pairwise([start, *ends.tolist()])]


# No text in UTF-8 begins with this byte, so it tells pairs.
_PAIR, _SIZE = b"\xff", 8


def _encoded(text: Text) -> bytes:
    # surrogatepass: lone surrogates occur in scraped data.
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    first, second = (part.encode("utf-8", "surrogatepass") for part in text)
    return _PAIR + len(first).to_bytes(_SIZE, "little") + first + second


def _decoded(content: bytes) -> Text:
    if not content.startswith(_PAIR):
        return content.decode("utf-8", "surrogatepass")
    start = 1 + _SIZE
    stop = start + int.from_bytes(content[1:start], "little")
    parts = content[start:stop], content[stop:]
    first, second = (part.decode("utf-8", "surrogatepass") for part in parts)
    return first, second
