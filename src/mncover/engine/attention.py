"""Attention that is computed together with its bins, where the kernels can.

transformers lets a model use an attention function of ours. It hands queries, keys and values to
whoever reads the running batch, who computes the output and never writes the weights to memory.
Which models are run in this way is decided in `fused.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface

from mncover.engine.kernels.base import Heads

FUSED = "mncover_fused"
KINDS = (torch.float32, torch.float16, torch.bfloat16)
WIDEST = 128  # head that a program can hold
# Options of an attention function that change its weights.
CHANGES = {"softcap", "s_aux", "position_bias", "head_mask", "alibi"}

_reading: ContextVar[Callable[[Heads], None]] = ContextVar("mncover_reading")


class NotCoveredError(Exception):
    """Why a model's attention cannot be computed here."""


@contextmanager
def reading(take: Callable[[Heads], None]) -> Iterator[None]:
    """Hand the attention of every layer that runs inside the block to `take`."""
    token = _reading.set(take)
    try:
        yield
    finally:
        _reading.reset(token)


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Compute attention as transformers asks for it, by whoever reads the batch."""
    _check(query, key, value, attention_mask, options)
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    texts, heads, length, width = query.shape
    output = query.new_empty((texts, length, heads, width))
    scale = float(width**-0.5 if scaling is None else scaling)
    query, key, value = map(_without_gaps, (query, key, value))
    _reading.get()(Heads(query, key, value, scale, bool(causal) and length > 1, output))
    return output, None


def _check(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, options: dict[str, Any]
) -> None:
    """Refuse what the kernels do not compute."""
    length, width = query.shape[2:]
    odd = [name for name in sorted(CHANGES & options.keys()) if options[name] is not None]
    window = options.get("sliding_window")
    if mask is not None:
        odd.append("a mask or a bias of its own")
    if window is not None and window < length:
        odd.append(f"a window of {window} tokens")
    if width > WIDEST or key.shape[-1] != width or value.shape[-1] != width:
        odd.append(f"heads of {width} dimensions")
    if query.dtype not in KINDS:
        odd.append(f"states in {str(query.dtype).removeprefix('torch.')}")
    if key.shape[2] != length:
        odd.append("keys of other tokens")
    if odd:
        raise NotCoveredError(", ".join(odd))


def _without_gaps(states: Tensor) -> Tensor:
    return states if states.stride(-1) == 1 else states.contiguous()


AttentionInterface.register(FUSED, attention)
