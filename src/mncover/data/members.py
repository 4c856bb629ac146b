"""The members of a data file that is written: what each holds, made piece by piece.

docs/format.md describes them. Nothing of the size of the whole table is made in memory.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from mncover.data.blobs import BlobStore, Place
from mncover.data.jsonpieces import AT_ONCE, json_bytes, json_pieces
from mncover.data.meetings import MEETINGS
from mncover.data.memory import give_back
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
    return _made(list(_contents(data)), BlobStore())


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
        column = partial(_array, data, name, kind, (data.n_rows,))
        yield Content(f"table/{name}.npy", column)
    for criterion in data.identity.names:
        cells = partial(_array, data, NEW + criterion, NEW_TYPE, (2, data.n_rows))
        yield Content(f"new/{criterion}.npy", cells)
    shape = data.n_rows, len(data.identity.labels)
    chances = partial(_array, data, PROBABILITIES, "<f4", shape)
    yield Content(f"{PROBABILITIES}.npy", chances)
    if any(part.answers for part in data.parts):
        yield Content(ANSWERS, partial(_strings, data, "answers"))
    yield from _optional_contents(data)
    yield Content(TEXTS, partial(_strings, data, "texts"))


def _optional_contents(data: CoverageData) -> Iterator[Content]:
    """Yield what not every file has."""
    if data.space is not None:
        shape = data.n_rows, max(part.signature_size for part in data.parts)
        signatures = partial(_array, data, SIGNATURES, "<f2", shape)
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


def _array(data: CoverageData, name: str, kind: str, shape: tuple[int, ...]) -> Chunks:
    """Yield an array of the table piece by piece."""
    yield npy_header(shape, kind)
    for array in each_array(data.parts, name):
        for start in range(0, len(array), AT_ONCE):
            yield array[start : start + AT_ONCE].astype(kind, copy=False).tobytes()


def _strings(data: CoverageData, name: str) -> Chunks:
    """Yield a list of the table as JSON: the bytes of the whole list, whatever its parts are."""
    between = b"["
    for part in data.parts:
        values: Sequence[Any] = getattr(part, name)
        for start in range(0, len(values), AT_ONCE):
            yield between + json_bytes(list(values[start : start + AT_ONCE]))[1:-1]
            between = b", "
    yield b"]" if between != b"[" else b"[]"


def _made(contents: Sequence[Content], blobs: BlobStore) -> Iterator[Member]:
    """Yield members in order; compressed ones are made in threads, the long list first."""
    with ThreadPoolExecutor(WORKERS, "mncover-write") as pool:
        zipped = [one for one in reversed(contents) if one.compressed]
        coming = {one.name: pool.submit(Member.made, one, blobs) for one in zipped}
        for one in contents:
            yield coming.pop(one.name).result() if one.compressed else Member.made(one, blobs)
    give_back()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the archive, and where its compressed bytes are, if it has such.

    Its content is made twice: for its checksum and compressed bytes, and for the archive. So no
    more than a piece of it is ever held.
    """

    name: str
    chunks: Callable[[], Chunks]
    size: int
    digest: str
    deflated: Deflated | None

    @classmethod
    def made(cls, given: Content, blobs: BlobStore | None = None) -> Member:
        """Make the checksum of the content, and its compressed bytes as zipfile would."""
        name, chunks, compressed = given
        digest, size = hashlib.sha256(), 0
        deflated = Deflated(blobs or BlobStore()) if compressed else None
        for chunk in chunks():
            digest.update(chunk)
            size += len(chunk)
            if deflated is not None:
                deflated.add(chunk)
        if deflated is not None:
            deflated.end()
        return cls(name, chunks, size, digest.hexdigest(), deflated)

    def add(self, archive: zipfile.ZipFile) -> None:
        """Add the member to an archive."""
        # The date of a ZipInfo is fixed, so that equal data makes equal files.
        info = zipfile.ZipInfo(self.name)
        info.compress_type = zipfile.ZIP_STORED if self.deflated is None else zipfile.ZIP_DEFLATED
        info.file_size = self.size
        with archive.open(info, "w") as file:
            if self.deflated is not None:
                # zipfile compresses in this thread alone; if it does not ask here, it still does.
                file._compressor = self.deflated  # type: ignore[attr-defined]
            for chunk in self.chunks():
                file.write(chunk)


class Deflated:
    """Bytes that were compressed before, in a file; to zipfile it is a compressor."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs, self._places = blobs, deque[Place]()
        self._compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)

    def add(self, content: bytes) -> None:
        """Compress the next bytes."""
        self._keep(self._compressor.compress(content))

    def end(self) -> None:
        """Compress what is left; nothing comes after it."""
        self._keep(self._compressor.flush())

    def _keep(self, packed: bytes) -> None:
        if packed:
            self._places.append(self._blobs.put(packed))

    def compress(self, content: bytes) -> bytes:
        """Return the next piece, whatever the content: in the end all pieces will have come."""
        return self._blobs.get(self._places.popleft()) if self._places else b""

    def flush(self) -> bytes:
        """Return the pieces that did not come."""
        return b"".join(map(self._blobs.get, self._places))
