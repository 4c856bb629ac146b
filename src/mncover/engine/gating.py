"""Attention between chosen tokens only: weights are multiplied by a gate, then normalised again.

transformers lets a model use an attention function of ours. It computes plain attention and, inside
a `gating` block, lets only those tokens of the running batch meet that the gate says. Masks that
were learnt in attention are learnt and judged in this way (see `masks/wimask.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

from mncover.engine.attention import CHANGES, NotCoveredError
from mncover.engine.subject import Subject
from mncover.errors import MaskError

GATED = "mncover_gated"
TINY = 1e-30  # a row whose weights all vanish stays 0 instead of becoming NaN


class Gate:
    """Which tokens of the running batch may meet: `pairs` [n, T, T], from 0 to 1, or all of them.

    `watch` is told the weights [n, heads, T, T] of every layer before they are gated.
    """

    def __init__(self, watch: Callable[[Tensor], None] | None = None) -> None:
        self.pairs: Tensor | None = None
        self.watch = watch
        self.layers = 0  # that have run


_gate: ContextVar[Gate | None] = ContextVar("mncover_gate", default=None)


@contextmanager
def gating(subject: Subject, watch: Callable[[Tensor], None] | None = None) -> Iterator[Gate]:
    """Let the gate that is yielded decide which tokens meet while the block runs."""
    gate = Gate(watch)
    token = _gate.set(gate)
    try:
        with subject.measuring(GATED):
            yield gate
    finally:
        _gate.reset(token)


def gated_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **options: Any,
) -> tuple[Tensor, Tensor]:
    """Compute attention as transformers asks for it, between the tokens that may meet."""
    odd = [name for name in sorted(CHANGES & options.keys()) if options[name] is not None]
    if key.shape[2] != query.shape[2]:
        odd.append("keys of other tokens")
    if odd:
        raise NotCoveredError(f"it has {', '.join(odd)}")
    groups = query.shape[1] // key.shape[1]  # heads that share a key
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = _gated(scores.softmax(-1, dtype=torch.float32)).to(query.dtype)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def _gated(weights: Tensor) -> Tensor:
    """Return the weights of the pairs that may meet, each row with a sum of 1 again."""
    gate = _gate.get()
    if gate is None:
        return weights
    gate.layers += 1
    if gate.watch is not None:
        gate.watch(weights)
    if gate.pairs is None:
        return weights
    gated: Tensor = _Gated.apply(weights, gate.pairs[:, None])  # type: ignore[no-untyped-call]
    return gated


class _Gated(torch.autograd.Function):
    """Weights times a gate, each row normalised again.

    The slope of a pair that is off is taken for what switching it on would change, w / (sum + w).
    At the point itself it is w / sum, which is huge where little else is on: a single such text
    would outweigh all others.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, gate: Tensor) -> Tensor:
        kept = weights * gate
        total = kept.sum(-1, keepdim=True).clamp(min=TINY)
        found = kept / total
        ctx.save_for_backward(weights, gate, total, found)
        return found

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, Tensor]:
        weights, gate, total, found = ctx.saved_tensors
        [slope] = slopes
        relative = slope - (found * slope).sum(-1, keepdim=True)
        switched = weights / (total + (1 - gate) * weights)
        return relative * gate / total, (relative * switched).sum(1, keepdim=True)


def check_gating(subject: Subject) -> None:
    """Refuse a model whose attention cannot be gated in every layer."""
    if why := _obstacle(subject):
        way = "learn its masks with --pairs messages"
        raise MaskError(f"{subject.name}: its attention cannot be gated ({why}): {way}.")


def _obstacle(subject: Subject) -> str:
    """Return why a model's attention cannot be gated; nothing if it can."""
    if getattr(subject.model.config, "is_encoder_decoder", False):
        return "words also meet in its decoder"
    if not subject.model._can_set_attn_implementation():
        return "it does not take another attention function"
    inputs = subject.probe_inputs()
    with torch.inference_mode():
        with subject.measuring():
            expected = subject.model(**inputs).logits.float()
        try:
            with gating(subject) as gate:
                found = subject.model(**inputs).logits.float()
        # Whatever goes wrong in a model that is not made for this, it cannot be gated.
        except Exception as error:
            return str(error).splitlines()[0] if str(error) else type(error).__name__
    layers = subject.model.config.get_text_config().num_hidden_layers
    if gate.layers != layers:
        return f"only {gate.layers} of {layers} layers take another attention function"
    worst = float((found - expected).abs().max() / (1 + expected.abs().max()))
    return f"its answers differ by {worst:.2g}" if worst > _tolerance(subject.dtype) else ""


def _tolerance(kind: torch.dtype) -> float:
    """Return by how much answers may differ that were rounded in another order."""
    single = 1e-4 if torch.get_float32_matmul_precision() == "highest" else 5e-3
    return {torch.float32: single, torch.float16: 1e-2}.get(kind, 5e-2)


AttentionInterface.register(GATED, gated_attention)
AttentionMaskInterface.register(GATED, eager_mask)
