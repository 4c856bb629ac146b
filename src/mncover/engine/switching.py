"""The state in which a model is measured, and its own state again afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn

# The implementations of attention that were asked for and are still wanted, the first its own.
_wanted: WeakKeyDictionary[nn.Module, list[list[Any]]] = WeakKeyDictionary()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode, and back afterwards."""
    with ExitStack() as undo:
        for module in [m for m in model.modules() if m.training]:
            undo.callback(setattr, module, "training", True)
            module.training = False
        yield


@contextmanager
def attending(model: Any, attention: str | None) -> Iterator[None]:
    """Let a model use an implementation of attention, and its own afterwards; None changes none."""
    if attention is None:
        yield
    elif _can_be_told(model):
        with _told(model, attention):
            yield
    else:
        with ExitStack() as undo:
            if attention == "eager":
                _make_eager(model, undo)
            yield


def _can_be_told(model: Any) -> bool:
    """Return whether a model can be told which implementation of attention to use."""
    asked = getattr(type(model), "_can_set_attn_implementation", None)
    return asked is None or bool(asked())


@contextmanager
def _told(model: Any, attention: str) -> Iterator[None]:
    """Tell a model to use an implementation as long as the block lasts.

    Blocks need not end in the order in which they began: that of a generator that nobody goes on
    with ends when it is cleared away. So the youngest that is left decides.
    """
    mine = [attention]  # known by its identity: others may ask for the same
    wanted = _wanted.setdefault(model, [])
    if not wanted:
        wanted.append([_used_by(model)])
    wanted.append(mine)
    _tell(model, attention)
    try:
        yield
    finally:
        del wanted[next(place for place, one in enumerate(wanted) if one is mine)]
        _tell(model, wanted[-1][0])
        if len(wanted) == 1:
            wanted.clear()


def _used_by(model: Any) -> Any:
    return getattr(model.config, "_attn_implementation", "eager")


def _tell(model: Any, attention: Any) -> None:
    if attention != _used_by(model):
        model.set_attn_implementation(attention)


def _make_eager(model: nn.Module, undo: ExitStack) -> None:
    """Switch attention by the configuration: told to switch, such a model stays as it is.

    Asked for weights in that state, Falcon adds another implementation's mask, which is true
    and false, to its scores, and so looks ahead.
    """
    found: list[Any] = [getattr(module, "config", None) for module in model.modules()]
    every = {id(one): one for one in found if hasattr(one, "_attn_implementation")}
    for config in reversed(every.values()):  # a part's before the whole's, put back after it
        undo.callback(setattr, config, "_attn_implementation", config._attn_implementation)
    for config in every.values():
        config._attn_implementation = "eager"
