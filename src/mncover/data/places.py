"""What can be said of paths and of room before the work: no torch here.

A wrong path is an error at once, not after a model was loaded or texts were run.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from mncover.data.layout import Layout
from mncover.data.maps import int_type, ints_per_neuron
from mncover.data.writing import refuse_input
from mncover.errors import ModelError, SettingsError, TextError

# Memory that measuring takes is worth a line from here on.
WORTH_SAYING = 2 * 10**9


def check_model_folder(name: str) -> None:
    """Refuse a mistyped folder, telling it from a name on the hub, which has at most one slash.

    If there is a folder of the name before that slash, a folder in it was meant.
    """
    looks_local = name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name
    owner, slash, _ = name.partition("/")
    if (looks_local or (slash and Path(owner).is_dir())) and not Path(name).is_dir():
        raise ModelError(f"{name}: no such folder.")
    if Path(name).is_dir() and not (Path(name) / "config.json").is_file():
        raise ModelError(f"{name}: the folder has no config.json, so it is no Hugging Face model.")


def check_source(path: Path) -> None:
    """Refuse a file to read that is not there."""
    if path.is_dir():
        raise TextError(f"{path}: a folder, not a file.")
    if not path.exists():
        raise TextError(f"{path}: no such file.")


def check_target(path: Path, folder: bool = False) -> None:
    """Refuse a file, or a folder, that could not be written; folders on the way are made later."""
    if path.exists() and path.is_dir() is not folder:
        kind = "a file" if folder else "a folder"
        raise SettingsError(f"{path}: {kind} is there already; choose another --output.")
    if path.exists() and not (path.is_file() or folder):
        raise SettingsError(f"{path}: not a file that can be replaced; choose another --output.")
    refuse_input(path)
    place = path if path.is_dir() else _existing(path.absolute().parent)
    if not place.is_dir():
        raise SettingsError(f"{path}: {place} is no folder; choose another --output.")
    if not os.access(place, os.W_OK | os.X_OK):
        raise SettingsError(f"{path}: {place} cannot be written to; choose another --output.")


def _existing(folder: Path) -> Path:
    """Return the nearest of a folder and those above it that exists."""
    return next(place for place in (folder, *folder.parents) if place.exists())


@dataclass(frozen=True, slots=True)
class Room:
    """What measuring takes, in bytes: the ranges, which are cached, and memory."""

    neurons: int
    ranges: int
    memory: int

    @classmethod
    def of(cls, layout: Layout, criteria: Iterable[tuple[Layout, int]]) -> Room:
        """Estimate it for a layout, and the layout and cells per neuron of each criterion.

        Low and high of each neuron are there twice while texts are calibrated. Of each criterion
        there are the union, the context being filled, a copy to go back to, and one being packed.
        """
        slots = layout.slots
        maps = sum(mine.slots * ints_per_neuron(n) * int_type(n).itemsize for mine, n in criteria)
        neurons = sum(layout.neurons(site) for site in layout.sites)
        return cls(neurons, 8 * slots, max(16 * slots, 8 * slots + 4 * maps))

    def require_memory(self) -> None:
        """Refuse what a machine cannot hold."""
        free = free_memory()
        if free is not None and self.memory > free:
            raise SettingsError(
                f"measuring takes about {in_bytes(self.memory)} of memory for {self.neurons:,} "
                f"neurons, and {in_bytes(free)} are free: use a smaller max_length, or "
                "positions any or mean."
            )

    def words(self, max_length: int) -> str:
        """Say what it takes, if that is worth a line; attention grows with the square of length."""
        if self.memory < WORTH_SAYING:
            return ""
        return (
            f"--max-length {max_length} makes {self.neurons:,} neurons: about "
            f"{in_bytes(self.memory)} of memory, and {in_bytes(self.ranges)} in the cache "
            f"(`mncover cache`). Half the length takes about a quarter; --positions mean, next to "
            "nothing."
        )


def free_memory() -> int | None:
    """Return how much memory is available, if the system says so."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        (found,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(found) * 1024
    except (OSError, ValueError):
        return None


def free_disk(folder: Path) -> int:
    """Return how much room there is where a folder is, or is to be."""
    return shutil.disk_usage(_existing(folder.absolute())).free


def in_bytes(size: float) -> str:
    """Return a size as people read it.

    >>> in_bytes(0), in_bytes(1500), in_bytes(2.4e9)
    ('0 B', '1.5 kB', '2.4 GB')
    """
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.{0 if units[0] == 'B' or size >= 99.5 else 1}f} {units[0]}"
