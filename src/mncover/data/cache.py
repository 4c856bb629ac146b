"""What is in the cache folder: list it, and delete it. No torch here."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open

from mncover.data.files import PARTIAL_SUFFIX, Kind, cache_folder
from mncover.data.layout import Layout

# What mncover puts into each folder. Anything else is somebody else's and left alone, because
# MNCOVER_CACHE_DIR may be any folder.
_KEY = "[0-9a-f]" * 40
PATTERNS: dict[Kind, tuple[str, ...]] = {
    "ranges": (f"{_KEY}.*", f".{_KEY}.*.tmp"),
    "neighbours": ("*.npz", ".*.tmp"),
    "demo": ("minilm-*", ".minilm-*"),
}
DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of the cache; `used` is when it was last written or read."""

    kind: Kind
    path: Path
    size: int
    used: float

    @property
    def days(self) -> int:
        """How many whole days ago it was used."""
        return max(0, int((time.time() - self.used) // DAY))

    def about(self) -> str:
        """Say what it is of."""
        if self.path.name.endswith(".tmp"):
            return "left by a process that ended"
        if self.kind != "ranges":
            return self.path.name
        if self.path.suffix == ".json":
            return "what random calibration texts reach"
        unfinished = "unfinished, " if self.path.name.endswith(PARTIAL_SUFFIX) else ""
        return unfinished + (_ranges(self.path) or self.path.name)


def _ranges(path: Path) -> str:
    """Say which ranges a file has; only its header is read."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = json.loads((file.metadata() or {})["mncover"])
        layout, texts = Layout.from_json(about["layout"]), int(about["texts"])
    except Exception:  # damaged bytes make safetensors and JSON raise almost anything
        return ""
    layers = max(site.layer for site in layout.sites)
    rows = layout.sites[0].rows
    tokens = f"{rows:,} tokens" if rows > 1 else "shared positions"
    return f"{layers} layers, {tokens}, {texts:,} texts"


def entries() -> list[Entry]:
    """Return all that the cache holds, kind by kind, the largest first."""
    found = []
    for kind, patterns in PATTERNS.items():
        paths = {path for pattern in patterns for path in cache_folder(kind).glob(pattern)}
        mine = [Entry(kind, path, _size(path), path.stat().st_mtime) for path in sorted(paths)]
        found += sorted(mine, key=lambda entry: -entry.size)
    return found


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())


def clear(chosen: Sequence[Entry]) -> None:
    """Delete entries of the cache; what is needed again is made again."""
    for entry in chosen:
        if entry.path.is_dir() and not entry.path.is_symlink():
            shutil.rmtree(entry.path)
        else:
            entry.path.unlink(missing_ok=True)
