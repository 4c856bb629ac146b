"""Where costly things are kept: in `MNCOVER_CACHE_DIR`, or in the user's cache folder."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def cache_folder(kind: str) -> Path:
    """Return the folder for one kind of things: ranges, neighbours, demo."""
    override = os.environ.get("MNCOVER_CACHE_DIR")
    return (Path(override) if override else platformdirs.user_cache_path("mncover")) / kind
