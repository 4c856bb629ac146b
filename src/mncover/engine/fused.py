"""Whether a model's attention can be computed together with its bins: try it, and compare."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mncover.data.layout import Kind
from mncover.engine.kernels.base import Block, Heads, Kernels
from mncover.engine.subject import PROBE_TEXT
from mncover.engine.taps import Key, Taps

LENGTHS = (12, 24, 48, 96, 200)  # to try, beside the longest there may be


def lengths_to_try(max_length: int) -> list[int]:
    """Return the lengths of the texts on which attention is tried."""
    return sorted({min(n, max_length) for n in (*LENGTHS, max_length)})


def fused_taps(
    taps: Taps,
    kernels: Kernels,
    max_length: int,
    bar: Callable[[str, int], AbstractContextManager[Callable[[int], None]]],
) -> Taps:
    """Return such taps if they are possible, with a bar: the first time, programs are compiled."""
    with bar("Compiling", len(lengths_to_try(max_length))) as advance:
        return with_fused_attention(taps, kernels, max_length, advance)


def with_fused_attention(
    taps: Taps, kernels: Kernels, max_length: int, advance: Callable[[int], None]
) -> Taps:
    """Return taps that compute attention together with its bins, or say why that is impossible."""
    if not taps.heads:
        return taps
    if taps.way != "hooks":
        return replace(taps, eager_because="sites are read from the model's outputs")
    if taps.subject.prompting.read == "answer":
        return replace(taps, eager_because="only the attention of answers is read")
    choices = taps.subject.choices
    if choices is not None and choices.longest > 1:
        return replace(taps, eager_because="choices of several tokens are run behind their prompts")
    candidate = replace(taps, fused=True)
    for length in lengths_to_try(max_length):
        why = _difference(candidate, taps, kernels, length)
        advance(1)
        if why:
            return replace(taps, eager_because=why)
    return candidate


def _difference(fused: Taps, eager: Taps, kernels: Kernels, length: int) -> str:
    """Return how a text's sites differ between the two ways; nothing if they do not."""
    subject = fused.subject
    texts = subject.tokenise([" ".join([PROBE_TEXT] * length)], length)
    inputs = subject.tensors(texts)
    expected: dict[Key, Tensor] = {}
    found: dict[Key, Tensor] = {}
    with eager.open() as forward:
        forward(inputs, lambda kind, layer, values: expected.update({(kind, layer): values[:1]}))
    try:
        with fused.open() as forward:
            forward(inputs, _keep(found, kernels))
    # Whatever goes wrong, down to a compiler's errors, eager attention is right.
    except Exception as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    if found.keys() != expected.keys():
        return "the model does not take another attention function"
    worst = max(
        float((found[key].float() - one.float()).abs().max())
        for key, one in expected.items()
        if key[0] == "attention"
    )
    return "" if worst <= _tolerance(subject.dtype) else f"weights differ by {worst:.2g}"


def _keep(found: dict[Key, Tensor], kernels: Kernels) -> Any:
    """Return a reader that keeps one text's sites; the range over one text is its weights."""

    def read(kind: Kind, layer: int, values: Any) -> None:
        if isinstance(values, Heads):
            site, length = kernels.site(kind, layer), values.query.shape[2]
            bounds = kernels.new_bounds()
            rows = torch.zeros(len(values.query), dtype=torch.int32, device=kernels.device)
            kernels.widen(Block(site, length, values, rows), bounds)
            low = kernels.touched(bounds.low, site, length)
            values = torch.where(torch.isinf(low), 0, low).view(1, site.groups, length, length)
        found[kind, layer] = values[:1]

    return read


def _tolerance(kind: torch.dtype) -> float:
    """Return by how much weights may differ that were rounded in another order."""
    single = 1e-4 if torch.get_float32_matmul_precision() == "highest" else 5e-3
    return {torch.float32: single, torch.float16: 1e-2}.get(kind, 5e-2)
