"""The loops from values to cells: a registry of implementations. A new one is a file and a line.

Torch is not imported here: the command line lists the names.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from mncover.data.layout import Layout
from mncover.errors import SettingsError

if TYPE_CHECKING:
    import torch

    from mncover.engine.kernels.base import Kernels

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Entry:
    """An implementation: which devices it is made for, and how it is loaded, late and once."""

    summary: str
    fits: Callable[[torch.device], bool]
    load: Callable[[], type[Kernels]]


def _late(module: str, name: str) -> Callable[[], type[Kernels]]:
    # Late, because numba is slow to import.
    return lambda: getattr(import_module(f"{__name__}.{module}"), name)


def _has_triton(device: torch.device) -> bool:
    """Return whether Triton runs there; its interpreter, which needs no GPU, is for tests."""
    if find_spec("triton") is None:
        return False
    return device.type == ("cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda")


_cpu, _torch = _late("cpu", "CpuKernels"), _late("plain_torch", "TorchKernels")
# Of those that fit a device, the first is taken.
KERNELS: dict[str, Entry] = {
    "cpu": Entry("compiled loops (numba)", lambda device: device.type == "cpu", _cpu),
    "triton": Entry("programs for a GPU (Triton)", _has_triton, _late("gpu", "TritonKernels")),
    "torch": Entry("torch operations", lambda device: True, _torch),
}


def kernels_for(layout: Layout, device: torch.device, name: str = AUTO) -> Kernels:
    """Return the kernels of a name, or those made for a device."""
    if name == AUTO:
        name = next(known for known, entry in KERNELS.items() if entry.fits(device))
    if name not in KERNELS:
        known = ", ".join((AUTO, *KERNELS))
        raise SettingsError(f"there are no kernels {name!r}; there are {known}.")
    if not KERNELS[name].fits(device):
        raise SettingsError(f"the kernels {name!r} do not work on the device {device.type!r}.")
    return KERNELS[name].load()(layout, device)
