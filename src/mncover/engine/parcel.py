"""A loaded model on its way to another process, without the hooks that transformers put on it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

INSTALLED = "_output_capturing_hooks_installed"


class Parcel:
    """Is pickled as a model, and arrives as that.

    transformers marks a model whose outputs it captures and gives it hooks that cannot be pickled.
    With the mark and without the hooks it would never show its layers again.
    """

    def __init__(self, model: Any) -> None:
        self.model = model

    def __reduce__(self) -> tuple[Any, ...]:
        with _without_hooks(self.model):
            return _unpacked, (pickle.dumps(self.model, protocol=pickle.HIGHEST_PROTOCOL),)


def _unpacked(data: bytes) -> Any:
    """Return the model; tell transformers what it can show, which it learns when it makes one."""
    from transformers.utils import output_capturing

    model = pickle.loads(data)  # which a process of the same crew has made
    for module in model.modules():
        shown = getattr(module, "_can_record_outputs", None)
        if shown is not None:
            output_capturing._CAN_RECORD_REGISTRY.setdefault(str(type(module)), shown)
    return model


@contextmanager
def _without_hooks(model: Any) -> Iterator[None]:
    """Take transformers' own hooks and its mark off a model; put them back afterwards."""
    taken: list[tuple[Any, dict[int, Any]]] = []
    marked = [one for one in model.modules() if one.__dict__.pop(INSTALLED, False)]
    for module in model.modules():
        hooks = module._forward_hooks
        mine = {n: one for n, one in hooks.items() if "output_capturing" in _module_of(one)}
        for number in mine:
            del hooks[number]
        taken.append((hooks, mine))
    try:
        yield
    finally:
        for hooks, mine in taken:
            hooks.update(mine)
        for one in marked:
            setattr(one, INSTALLED, True)


def _module_of(hook: Any) -> str:
    return str(getattr(getattr(hook, "func", hook), "__module__", ""))
