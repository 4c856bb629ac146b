"""Writes files: the one way in which anything is written, so that nobody loses anything.

A file is replaced in one step. It never takes the place of a file that the same command reads, and
what a killed process left behind is cleared away by the next that writes there.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mncover.data.interrupts import held_back
from mncover.errors import SettingsError

if sys.platform != "win32":
    import fcntl

SUFFIX, LONGEST = ".mncover.tmp", 40  # of temporary names, and what they have of the file's own
_TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}" + re.escape(SUFFIX), re.DOTALL)
# What the folder of a model holds; whatever else is there may have been written by mncover.
_MODEL = (
    *("*config.json", "model*.safetensors", "adapter*", "*.index.json", "tokenizer*", "vocab*"),
    *("merges.txt", "special_tokens_map.json", "added_tokens.json", "modules.json", "*.model"),
)

_inputs: set[Path] = set()  # what the command that runs reads
_being_written: set[Path] = set()  # temporary files of this process
_cleared: set[Path] = set()  # folders in which leftovers were looked for


@contextmanager
def protecting() -> Iterator[None]:
    """In this block, files given to `protect` are not replaced."""
    _inputs.clear()
    _cleared.clear()
    try:
        yield
    finally:
        _inputs.clear()


def protect(paths: Iterable[Path | str | None]) -> None:
    """Let nothing take the place of these files, nor of those of a model in one of these folders.

    What is not there, such as the name of a model on the hub, is passed over.
    """
    for path in paths:
        with suppress(OSError, ValueError):  # such as a name that no file can have
            place = Path(os.path.realpath(path or os.devnull))
            if place.is_dir():
                _inputs.update(file for name in _MODEL for file in place.glob(name))
            elif place.is_file():
                _inputs.add(place)


def refuse_input(path: Path) -> None:
    """Refuse to write to a file that the command reads, whatever it is called here."""
    place = Path(os.path.realpath(path))
    if place in _inputs or _is_linked(place):
        raise SettingsError(
            f"{path}: this command reads it, so it is not replaced; choose another --output."
        )


def _is_linked(place: Path) -> bool:
    """Return whether a file that is read is this one under another name: a hard link."""
    try:
        mine = place.stat()
        return mine.st_nlink > 1 and any(os.path.samestat(mine, one.stat()) for one in _inputs)
    except OSError:
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it there once the block has succeeded.

    If the block fails, or the machine does, what was at `path` stays as it was.
    """
    if path in _being_written:  # a writer inside another's block
        yield path
        return
    refuse_input(path)
    if path.exists() and not path.is_file():  # such as a folder, or /dev/null
        raise SettingsError(f"{path}: not a file that can be replaced; choose another --output.")
    path.parent.mkdir(parents=True, exist_ok=True)
    clear_leftovers(path.parent)
    made: list[tuple[int, Path]] = []
    try:
        with held_back():  # a signal must not come before it is known what to clear away
            made.append(_temporary(path))
            temporary = made[0][1]
            _being_written.add(temporary)
        yield temporary
        mask = os.umask(0)  # it can be read only by setting it
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)  # after the block: some writers set their own
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
    except OSError as error:  # such as a disk that is full: nobody knows the temporary name
        named = error.filename is not None and Path(os.fsdecode(error.filename))
        # Without a number, its words would be lost.
        if named in _being_written or (not named and error.errno is not None):
            error.filename = str(path)
        raise
    finally:
        with held_back():
            _forget(made)


@contextmanager
def naming_temporary() -> Iterator[None]:
    """Let an error of an unnamed temporary file, such as a full disk, name the folder of those."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = tempfile.gettempdir()
        raise


def _forget(made: Iterable[tuple[int, Path]]) -> None:
    for descriptor, temporary in made:
        _being_written.discard(temporary)
        temporary.unlink(missing_ok=True)
        os.close(descriptor)


def _temporary(path: Path) -> tuple[int, Path]:
    """Make a temporary file; as long as it is locked, its process lives."""
    while True:
        descriptor, name = tempfile.mkstemp(SUFFIX, f".{path.name[:LONGEST]}.", path.parent)
        _lock(descriptor, wait=True)
        if os.path.exists(name):  # nobody cleared it away before it was locked
            return descriptor, Path(name)
        os.close(descriptor)


def _lock(descriptor: int, wait: bool) -> bool:
    """Lock a file; return whether it is this process that has it now."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:  # locked by somebody else, or a file system without locks
        return False
    return True


def clear_leftovers(folder: Path) -> None:
    """Delete temporary files of processes that were killed; those that live hold a lock."""
    if folder in _cleared:
        return
    _cleared.add(folder)
    with suppress(OSError):
        for found in list(os.scandir(folder)):
            if _TEMPORARY.fullmatch(found.name) and found.is_file(follow_symlinks=False):
                _clear(Path(found.path))


def _clear(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            if _lock(descriptor, wait=False):
                path.unlink()
        finally:
            os.close(descriptor)
