"""Save the state of learning, and go on from it: tensors as safetensors, never a pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from mncover.data.files import replacing

State = dict[str, Tensor]


@dataclass(slots=True)
class Progress:
    """How far learning is; the best state by held-out fidelity, and how long it has stood."""

    step: int = 0
    best: float = -1.0
    stale: int = 0
    kept: State | None = None


def state_of(layer: nn.Module) -> State:
    """Return a copy of a layer's parameters."""
    return {name: value.detach().clone() for name, value in layer.state_dict().items()}


class Checkpoint:
    """A file that belongs to one model, set of texts and settings, which `key` names."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path = path
        self.key = key

    def save(self, progress: Progress, layer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write everything that learning needs to go on, replacing the file in one step."""
        tensors = {f"now.{name}": value for name, value in state_of(layer).items()}
        tensors |= {f"kept.{name}": value for name, value in (progress.kept or {}).items()}
        for number, state in optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{number}.{name}": value for name, value in state.items()}
        header = {"key": self.key, **{n: getattr(progress, n) for n in ("step", "best", "stale")}}
        tensors = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        with replacing(self.path) as temporary:
            save_file(tensors, temporary, {"mncover_learning": json.dumps(header)})

    def load(self, layer: nn.Module, optimizer: torch.optim.Optimizer) -> Progress | None:
        """Put a saved state into the layer and the optimiser; None if there is none of ours."""
        try:
            with safe_open(self.path, framework="pt") as file:
                header = json.loads((file.metadata() or {}).get("mncover_learning", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError, ValueError):
            return None
        now = _group(tensors, "now.")
        shapes = {name: value.shape for name, value in layer.state_dict().items()}
        if header.get("key") != json.loads(json.dumps(self.key)):
            return None
        if {name: value.shape for name, value in now.items()} != shapes:
            return None
        layer.load_state_dict(now)
        optimizer.load_state_dict(
            {"state": _adam(tensors), "param_groups": optimizer.state_dict()["param_groups"]}
        )
        kept = _group(tensors, "kept.") or None
        return Progress(header["step"], header["best"], header["stale"], kept)


def _group(tensors: State, prefix: str) -> State:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}


def _adam(tensors: State) -> dict[int, State]:
    states: dict[int, State] = {}
    for name, tensor in _group(tensors, "adam.").items():
        number, what = name.split(".", 1)
        states.setdefault(int(number), {})[what] = tensor
    return states
