"""Which modules of a model yield its sites, by transformers' own declaration.

Each model class may declare `_can_record_outputs`: for `hidden_states` and `attentions` the
classes (or names) of the modules that produce them and the place in their output. This file
reads the declaration; `taps.py` checks it against the model and uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from mncover.sites import Kind


@dataclass(frozen=True, slots=True)
class Tap:
    """A module that yields a site each time it is called, and where in its output that is."""

    module: nn.Module
    kind: Kind
    index: int


def declared_taps(traced: Any) -> tuple[tuple[Tap, ...], nn.Module | None]:
    """Collect the modules that transformers declares, and the model that owns the layers."""
    taps: list[Tap] = []
    owner: nn.Module | None = None
    for model, name, module in _owned_modules(traced, traced, ""):
        for kind, spec in _specs(model):
            if _matches(spec, name, module):
                taps.append(Tap(module, kind, getattr(spec, "index", 0)))
                owner = model if kind == "hidden" else owner
    return tuple(taps), owner


def _owned_modules(
    owner: nn.Module, module: nn.Module, name: str
) -> Iterator[tuple[nn.Module, str, nn.Module]]:
    """Yield every module with the innermost model around it: each model declares its own."""
    for child_name, child in module.named_children():
        inner = child if hasattr(child, "_can_record_outputs") else owner
        yield from _owned_modules(inner, child, f"{name}.{child_name}")
    yield owner, name, module


@dataclass(frozen=True, slots=True)
class _Spec:
    """What a bare class or name in a declaration means."""

    target_class: type[nn.Module] | None
    class_name: str | None
    index: int
    layer_name: str | None = None


def _specs(model: Any) -> Iterator[tuple[Kind, Any]]:
    declared = getattr(model, "_can_record_outputs", None) or {}
    kinds: dict[str, Kind] = {"hidden_states": "hidden", "attentions": "attention"}
    for key, kind in kinds.items():
        specs = declared.get(key, [])
        for spec in specs if isinstance(specs, list) else [specs]:
            if hasattr(spec, "target_class"):
                yield kind, spec
            else:
                index = 0 if kind == "hidden" else 1
                named = isinstance(spec, str)
                yield kind, _Spec(None if named else spec, spec if named else None, index)


def _matches(spec: Any, name: str, module: nn.Module) -> bool:
    by_class = spec.target_class is not None and isinstance(module, spec.target_class)
    by_name = spec.class_name is not None and name.endswith(spec.class_name)
    if not (by_class or by_name):
        return False
    return spec.layer_name is None or f".{spec.layer_name.strip('.')}." in f"{name}."
