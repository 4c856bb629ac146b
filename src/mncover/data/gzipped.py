"""Compressed files of strangers: what they hold is counted before anything is made of it."""

from __future__ import annotations

import gzip
import zlib
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, cast

from mncover.data.limits import check_bytes

# What damaged bytes make gzip raise.
DAMAGED = (OSError, EOFError, zlib.error)
_CHUNK = 2**20


def open_bytes(path: Path) -> BinaryIO:
    """Open a file, decompressed if its name ends with .gz; refuse one that holds too much."""
    if path.suffix != ".gz":
        return path.open("rb")
    about = path.stat()
    _check(path, about.st_size, about.st_mtime_ns)
    return cast(BinaryIO, gzip.open(path))


@lru_cache(maxsize=64)
def _check(path: Path, size: int, changed: int) -> None:
    """Refuse a file that is damaged or too large; a file is often read more than once."""
    found = 0
    with gzip.open(path) as file:
        while chunk := file.read(_CHUNK):
            found += len(chunk)
            check_bytes(found, size, str(path))
