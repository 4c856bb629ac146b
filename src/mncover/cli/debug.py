"""The commands below `mncover debug`: facts that a bug report needs."""

from __future__ import annotations

import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from mncover.cli import options as o
from mncover.cli.options import Config
from mncover.data.cache import entries
from mncover.data.datafile import read_header
from mncover.data.files import cache_folder
from mncover.data.places import in_bytes
from mncover.report.screen import say
from mncover.types import __version__

if TYPE_CHECKING:
    from mncover.engine.taps import Taps

app = typer.Typer(help="Show what a bug report needs.", no_args_is_help=True)

PACKAGES = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "numba",
    "pyarrow",
)


@app.command("sys")
def show_system() -> None:
    """Show versions, devices and the cache folder."""
    installed = {one.name.lower(): one.version for one in metadata.distributions()}
    folder, kept = cache_folder(), entries()
    size = in_bytes(sum(entry.size for entry in kept))
    _show(
        {
            "mncover": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: installed.get(name, "not installed") for name in PACKAGES},
            **_devices(),
            "cache": f"{folder} ({len(kept)} entries, {size})",
        }
    )


def _devices() -> dict[str, Any]:
    """Return what torch has to work with; nothing where only reports are installed."""
    try:
        import torch
    except ModuleNotFoundError:
        return {}
    cuda = torch.cuda.get_device_name() if torch.cuda.is_available() else "not available"
    return {"threads": torch.get_num_threads(), "cuda": cuda}


@app.command("model")
@o.configured("bins", "max_length", "positions", "sites", *o.LOADING, "criteria", *o.PROMPTING)
def show_model(model: o.Model, *, config: Config) -> None:
    """Show how a model's sites are read, and how many cells it has."""
    engine = o.coverage_for(model, config, quiet=True).engine
    subject, sites, cells = engine.subject, engine.layout.sites, engine.group(engine.main).cells
    layout, bins = engine.setups.layout_of(engine.main), {"hidden": 0, "attention": 0}
    for site in layout.sites:
        bins[site.kind] += layout.neurons(site) * cells
    _show(
        {
            "model": subject.name,
            "class": type(subject.model).__name__,
            "dtype": str(subject.dtype).removeprefix("torch."),
            "device": subject.device,
            "labels": ", ".join(subject.labels) or "none (not a classifier)",
            "read by": engine.taps.way,
            "kernels": engine.kernels.name,
            "attention": _attention(engine.taps, engine.settings.pooled),
            "causal": engine.taps.causal,
            "sites": ", ".join(f"{site.name} {list(site.shape)}" for site in sites),
            "word bins": f"{bins['hidden']:,}",
            "attention bins": f"{bins['attention']:,}",
        }
    )


@app.command("data")
@o.configured()
def show_data(file: o.DataFile = None, *, config: Config) -> None:
    """Show a data file's header."""
    header = read_header(file or Path(config.output))
    criteria = [f"{one['name']} ({one['cells']} cells)" for one in header.pop("criteria", [])]
    shown = {k: v for k, v in header.items() if k not in ("checksums", "layout", "reachable")}
    _show({**shown, "criteria": ", ".join(criteria)} if criteria else shown)


def _attention(taps: Taps, pooled: bool) -> str:
    """Say who computes attention, and why; or why it is not read."""
    if taps.without_because:
        return f"not read: {taps.without_because}"
    if not taps.heads:
        return "not read"
    if taps.fused:
        return "statistics from queries and keys" if pooled else "computed together with its bins"
    return "eager" + (f": {taps.eager_because}" if taps.eager_because else "")


def _show(facts: dict[str, Any]) -> None:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        say(f"{name:<{width}}  {value}")
