"""Facts that a bug report needs."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import torch

from mncover.data.files import cache_folder
from mncover.data.layout import Layout
from mncover.engine.loading import load_subject
from mncover.engine.taps import find_taps
from mncover.types import __version__

PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "numba", "safetensors", "pyarrow")


def system_facts() -> dict[str, Any]:
    """Return versions, devices and the cache folder with its size."""
    folder = cache_folder("ranges")
    kept = list(folder.glob("*")) if folder.is_dir() else []
    size = sum(path.stat().st_size for path in kept) / 2**20
    return {
        "mncover": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: _version(name) for name in PACKAGES},
        "threads": torch.get_num_threads(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else "not available",
        "cache": f"{folder} ({len(kept)} files, {size:.1f} MiB)",
    }


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def model_facts(model: str, max_length: int, bins: int) -> dict[str, Any]:
    """Return how a model's sites are read and what is counted."""
    subject = load_subject(model)
    subject.check_length(max_length)
    taps = find_taps(subject)
    layout = taps.layout(max_length)
    counts = {kind: _neurons(layout, kind) for kind in ("hidden", "attention")}
    return {
        "model": subject.name,
        "class": type(subject.model).__name__,
        "dtype": str(subject.dtype).removeprefix("torch."),
        "device": str(subject.device),
        "labels": ", ".join(subject.labels) or "none (not a classifier)",
        "read by": taps.way,
        "causal": taps.causal,
        "sites": ", ".join(f"{site.name} {list(site.shape)}" for site in layout.sites),
        "word bins": f"{counts['hidden'] * bins:,}",
        "attention bins": f"{counts['attention'] * bins:,}",
    }


def _neurons(layout: Layout, kind: str) -> int:
    return sum(layout.neurons(site) for site in layout.sites if site.kind == kind)
