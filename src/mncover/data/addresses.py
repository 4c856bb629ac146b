"""Files at addresses, such as `s3://bucket/suite.parquet`: copied here, then read like any other.

What fsspec opens has an address. A file is copied once a process, so that it can be read as often
as a reader likes, and with the limits that hold for every file. The one place that imports fsspec.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from mncover.errors import LimitError, MissingExtraError, TextError

# Windows has drives of one letter; `hf:/folder` is a data set.
_SCHEME = re.compile(r"(?!hf:)([a-z][a-z0-9+.-]+):/+")
_CHUNK = 2**20


def is_address(path: str | Path) -> bool:
    """Return whether a path is an address.

    >>> is_address("s3://bucket/suite.parquet"), is_address("suite.parquet")
    (True, False)
    """
    return _SCHEME.match(Path(path).as_posix()) is not None


def shown(path: Path) -> str:
    """Return a path as people write it: of `//` in an address, a `Path` keeps one slash.

    >>> shown(Path("s3://bucket/suite.parquet"))
    's3://bucket/suite.parquet'
    """
    found = _SCHEME.match(path.as_posix())
    if found is None:
        return str(path)
    slashes = ":///" if found[1] in ("file", "local") else "://"
    return found[1] + slashes + path.as_posix()[found.end() :]


def recorded(path: Path) -> str:
    """Return a path as data files and pages keep it, which others read.

    An address loses what may be secret: a user with a password, and the question of a signed link.

    >>> recorded(Path("https://me:password@host/suite.csv?signature=abc"))
    'https://host/suite.csv'
    """
    if not is_address(path):
        return str(path)
    return re.sub(r"(?<=://)[^/@]*@", "", re.split(r"[?#]", shown(path), maxsplit=1)[0])


def file_name(path: Path) -> str:
    """Return the name of a file; an address may end with a question or a place in it.

    >>> file_name(Path("https://host/suite.jsonl?download=1"))
    'suite.jsonl'
    """
    if is_address(path):
        return PurePosixPath(re.split(r"[?#]", path.as_posix(), maxsplit=1)[0]).name
    return path.name


@contextmanager
def here(path: Path) -> Iterator[Path]:
    """Yield where a file can be read; errors name it as it was given."""
    if not is_address(path):
        yield path
        return
    local = _copied(shown(path), file_name(path))
    try:
        yield local
    except (TextError, LimitError) as error:
        raise type(error)(str(error).replace(str(local), shown(path))) from None


@cache
def _folder() -> Any:
    return tempfile.TemporaryDirectory(prefix="mncover-")  # removed when the process ends


@cache
def _copied(address: str, name: str) -> Path:
    """Copy a file to this machine; return where it is."""
    fsspec = _fsspec()
    local = Path(tempfile.mkdtemp(dir=_folder().name)) / name
    try:
        with fsspec.open(address, "rb") as source, local.open("wb") as copy:
            shutil.copyfileobj(source, copy, _CHUNK)
    except FileNotFoundError as error:
        raise TextError(f"{address}: no such file.") from error
    # What reads an address raises whatever its own libraries raise, or asks for one of them.
    except Exception as error:
        why = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise TextError(f"{address}: cannot be read ({why}).") from error
    return local


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise MissingExtraError("reading a file at an address", "fsspec", "remote") from error
    return fsspec
