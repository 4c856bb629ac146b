"""Byte strings in an unnamed temporary file, so that they do not stay in memory."""

from __future__ import annotations

import tempfile
from typing import NamedTuple


class Blob(NamedTuple):
    """Where a byte string lies."""

    offset: int
    size: int


class BlobStore:
    """Keeps byte strings until the store goes away; they are only ever added."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="mncover-")  # noqa: SIM115 (lives as long as the store)

    def put(self, data: bytes) -> Blob:
        """Keep a byte string."""
        offset = self._file.seek(0, 2)
        self._file.write(data)
        return Blob(offset, len(data))

    def get(self, blob: Blob) -> bytes:
        """Give a byte string back."""
        self._file.seek(blob.offset)
        return self._file.read(blob.size)
