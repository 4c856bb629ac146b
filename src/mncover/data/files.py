"""Files: kept in the cache, read as TOML, and the state of work that is interrupted.

Long work keeps its state in a file beside its outcome, with `.partial` behind the name, so that
an interrupted command resumes. A key, or whatever the caller compares, says whose work it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

import platformdirs

from mncover.data.limits import LINE
from mncover.data.writing import replacing
from mncover.errors import DataFileError, MismatchError, SettingsError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PARTIAL_SUFFIX = ".partial"
# Save at most this often, and spend at most this share of the time on saving.
SECONDS, SHARE = 10.0, 0.02

State = TypeVar("State")
Kind = Literal["ranges", "neighbours", "demo"]  # of what is cached; `data/cache.py` lists them
Say = Callable[[str], None]

MOST_PARTS = 100
_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*"""
_NESTED_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*(?:{_PART}\.[ \t]*){{{MOST_PARTS}}}", re.M)


def cache_folder(kind: Kind | None = None) -> Path:
    """Return the folder for one kind of things, or that of all."""
    override = os.environ.get("MNCOVER_CACHE_DIR")
    return (Path(override) if override else platformdirs.user_cache_path("mncover")) / (kind or "")


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        LINE.check(path.stat().st_size, f"{path}: bytes")
        content = path.read_text(encoding="utf-8")
        if _NESTED_KEY.search(content):  # takes time that grows with the square of its parts
            raise ValueError(f"a key of more than {MOST_PARTS} parts")
        found: dict[str, Any] = tomllib.loads(content)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror}).") from error
    except (ValueError, RecursionError) as error:  # such as a number of thousands of digits
        raise SettingsError(f"{path}: cannot be read ({error}).") from error
    return found


def silent(line: str) -> None:
    """Say nothing."""


def partial_path(path: Path) -> Path:
    """Return where the unfinished work for an outcome is kept."""
    return path.with_name(path.name + PARTIAL_SUFFIX)


class Unfinished:
    """The file of some unfinished work; `what` names the work in messages, such as "run"."""

    def __init__(self, path: Path, what: str, say: Say = silent) -> None:
        self.path, self.what, self.say = path, what, say
        self._saved = time.monotonic()
        self._pause = SECONDS

    def load(
        self, read: Callable[[Path], State | None], done: Callable[[State], str]
    ) -> State | None:
        """Return the state that an earlier call saved, or None.

        `read` returns None, or raises, for a file that belongs to other work. `done` says how
        much is done, such as "120 texts".
        """
        if not self.path.exists():
            return None
        try:
            state = read(self.path)
        except MismatchError:
            state = None
        except Exception:  # damaged bytes make what reads them raise almost anything
            self.say(f"{self.path} is damaged or no unfinished {self.what}: starting over.")
            return None
        if state is None:
            self.say(f"{self.path} belongs to another {self.what}: starting over.")
        else:
            self.say(f"Resuming from {self.path}: {done(state)} done.")
        return state

    @property
    def is_time(self) -> bool:
        """Whether the last save is long enough ago."""
        return time.monotonic() - self._saved >= self._pause

    def save(self, write: Callable[[Path], None]) -> None:
        """Let `write` write the state to a temporary path, and rename it into place."""
        start = time.monotonic()
        with replacing(self.path) as temporary:
            write(temporary)
        self._saved = time.monotonic()
        self._pause = max(SECONDS, (self._saved - start) / SHARE if SHARE else 0.0)

    def remove(self) -> None:
        """Delete the file: the outcome is safe."""
        self.path.unlink(missing_ok=True)

    @contextmanager
    def announced(self) -> Iterator[None]:
        """On Ctrl-C, say where the unfinished work is."""
        try:
            yield
        except KeyboardInterrupt:
            if self.path.exists():
                self.say(f"Unfinished work is in {self.path}: run the same command to resume.")
            raise


def save_json(path: Path, key: Any, state: Any) -> None:
    """Write a state with its key and a checksum, replacing the file in one step."""
    content = json.dumps({"key": key, "state": state})
    with replacing(path) as temporary:
        temporary.write_text(f"{_digest(content)}\n{content}\n", encoding="utf-8")


def load_json(path: Path, key: Any) -> Any:
    """Return the state in a file that was saved under an equal key; otherwise None.

    A damaged file is a `DataFileError`.
    """
    try:
        digest, _, content = path.read_text(encoding="utf-8").partition("\n")
        if digest != _digest(content.removesuffix("\n")):
            raise ValueError("its checksum is not that of its content")
        found = json.loads(content)
        return found["state"] if found["key"] == json.loads(json.dumps(key)) else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataFileError(f"{path}: damaged ({error}).") from error


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()
