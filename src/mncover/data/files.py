"""Write files so that a reader, or a crash, never meets half of one.

Where costly things are kept: in `MNCOVER_CACHE_DIR`, or in the user's cache folder.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import platformdirs

from mncover.errors import SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it there once the block has succeeded.

    If the block fails, or the machine does, what was at `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())  # after the block: some writers set their own
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    """Return the process's umask; it can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def cache_folder(kind: str) -> Path:
    """Return the folder for one kind of things: ranges, neighbours, demo."""
    override = os.environ.get("MNCOVER_CACHE_DIR")
    return (Path(override) if override else platformdirs.user_cache_path("mncover")) / kind


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SettingsError(f"{path}: cannot be read ({why}).") from error
    return found
