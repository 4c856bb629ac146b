"""The members of a data file that is written: what each holds, made piece by piece.

docs/format.md describes them. Nothing of the size of the whole table is made in memory.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from numpy.typing import NDArray

from mncover.data.jsonpieces import AT_ONCE, json_bytes, json_pieces
from mncover.data.meetings import MEETINGS
from mncover.data.npy import npy_header, to_npy
from mncover.data.store import CoverageData
from mncover.data.table import COLUMNS, NEW, NEW_TYPE, PROBABILITIES, SIGNATURES, each_array
from mncover.data.threads import WORKERS

HEADER, TEXTS, SUITES, SPACE = "header.json", "texts.json", "suites.json", "space/"
OWNERS, CALIBRATION, ANSWERS = "owners.npy", "calibration/", "answers.json"

Chunks = Iterator[bytes]


class Content(NamedTuple):
    """A member's name, what yields its bytes piece by piece, and whether these are compressed."""

    name: str
    chunks: Callable[[], Chunks]
    compressed: bool = True


def members_of(data: CoverageData) -> Iterator[Member]:
    """Yield all members but the header."""
    return _made(list(_contents(data)))


def map_name(number: int, criterion: str) -> str:
    """Return the name of a criterion's map of a context."""
    return f"maps/{number:05d}.{criterion}.bits"


def alone(name: str, make: Callable[..., bytes], *given: Any, compressed: bool = True) -> Content:
    """Return content that is made at once."""

    def chunks() -> Chunks:
        yield make(*given)

    return Content(name, chunks, compressed)


def _contents(data: CoverageData) -> Iterator[Content]:
    for number, context in enumerate(data.contexts):
        for criterion in data.identity.names:
            name = map_name(number, criterion)
            yield alone(name, data.packed, context, criterion, compressed=False)
    for name, kind in COLUMNS.items():
        yield Content(f"table/{name}.npy", partial(_column, data, name, kind))
    for criterion in data.identity.names:
        yield Content(f"new/{criterion}.npy", partial(_new_cells, data, criterion))
    chances = partial(_column, data, PROBABILITIES, "<f4", len(data.identity.labels))
    yield Content(f"{PROBABILITIES}.npy", chances)
    if any(part.answers for part in data.parts):
        yield Content(ANSWERS, partial(_strings, data, "answers"))
    yield from _optional_contents(data)
    yield Content(TEXTS, partial(_strings, data, "texts"))


def _optional_contents(data: CoverageData) -> Iterator[Content]:
    """Yield what not every file has."""
    if data.space is not None:
        size = max(part.signature_size for part in data.parts)
        signatures = partial(_column, data, SIGNATURES, "<f2", size)
        yield Content(f"{SIGNATURES}.npy", signatures, compressed=False)
        for name, array in data.space.arrays().items():
            yield alone(f"{SPACE}{name}.npy", to_npy, array)
    if data.owners is not None:
        yield alone(OWNERS, to_npy, data.owners)
    if data.calibration is not None:
        for name, array in data.calibration.arrays().items():
            yield alone(f"{CALIBRATION}{name}.npy", to_npy, array)
    if data.meetings:
        yield alone(MEETINGS, json_bytes, [one.to_json() for one in data.meetings])
    if data.outlines:
        yield Content(SUITES, partial(json_pieces, data.outlines))


def _column(data: CoverageData, name: str, kind: str, *size: int) -> Chunks:
    """Yield an array of the table part by part: a number for each row, or `size` of them."""
    yield npy_header((data.n_rows, *size), kind)
    for array in each_array(data.parts, name):
        yield _bytes_of(array, kind)


def _new_cells(data: CoverageData, criterion: str) -> Chunks:
    """Yield what each text added: of hidden states first, then of attention."""
    yield npy_header((2, data.n_rows), NEW_TYPE)
    for of_kind in range(2):
        for array in each_array(data.parts, NEW + criterion):
            yield _bytes_of(array[of_kind], NEW_TYPE)


def _bytes_of(array: NDArray[Any], kind: str) -> bytes:
    return array.astype(kind, copy=False).tobytes()


def _strings(data: CoverageData, name: str) -> Chunks:
    """Yield a list of the table as JSON: the bytes of the whole list, whatever its parts are."""
    between = b"["
    for part in data.parts:
        values: tuple[Any, ...] = getattr(part, name)
        for start in range(0, len(values), AT_ONCE):
            yield between + json_bytes(values[start : start + AT_ONCE])[1:-1]
            between = b", "
    yield b"]" if between != b"[" else b"[]"


def _made(contents: Sequence[Content]) -> Iterator[Member]:
    """Yield members in order; compressed ones are made in threads, the long list first."""
    with ThreadPoolExecutor(WORKERS, "mncover-write") as pool:
        zipped = [one for one in reversed(contents) if one.compressed]
        coming = {one.name: pool.submit(Member.made, one) for one in zipped}
        for one in contents:
            yield coming.pop(one.name).result() if one.compressed else Member.made(one)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the archive; it is also the compressor that zipfile asks for its bytes.

    Its content is made twice: for its checksum and compressed bytes, and for the archive. So no
    more than a piece of it is ever held.
    """

    name: str
    chunks: Callable[[], Chunks]
    size: int
    digest: str
    deflated: bytes | None

    @classmethod
    def made(cls, given: Content) -> Member:
        """Make the checksum of the content and its compressed bytes, as zipfile would."""
        name, chunks, compressed = given
        digest, size, deflated = hashlib.sha256(), 0, list[bytes]()
        compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        for chunk in chunks():
            digest.update(chunk)
            size += len(chunk)
            if compressed:
                deflated.append(compressor.compress(chunk))
        packed = b"".join([*deflated, compressor.flush()]) if compressed else None
        return cls(name, chunks, size, digest.hexdigest(), packed)

    def add(self, archive: zipfile.ZipFile) -> None:
        """Add the member to an archive."""
        # The date of a ZipInfo is fixed, so that equal data makes equal files.
        info = zipfile.ZipInfo(self.name)
        info.compress_type = zipfile.ZIP_STORED if self.deflated is None else zipfile.ZIP_DEFLATED
        info.file_size = self.size
        with archive.open(info, "w") as file:
            if self.deflated is not None:
                # zipfile compresses in this thread alone; if it does not ask here, it still does.
                file._compressor = self  # type: ignore[attr-defined]
            for chunk in self.chunks():
                file.write(chunk)

    def compress(self, content: bytes) -> bytes:
        """Return nothing yet."""
        return b""

    def flush(self) -> bytes:
        """Return the bytes that were compressed before."""
        return self.deflated or b""
