"""Six numbers for each row of a head's attention, computed over blocks of rows.

They stand for the weights where all positions of a text share their neurons. From queries and keys
they need no array of length by length; what attention gives is then computed by torch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from mncover.data.layout import STATISTICS, Kind
from mncover.engine.kernels.base import Heads
from mncover.engine.subject import PROBE_TEXT
from mncover.engine.taps import Key, Taps

BLOCK = 2**21  # weights at a time
# Blocks end at multiples of so many rows. A causal one takes the columns up to there: later weights
# are zero, and how many are left out does not depend on the batch.
ROWS = 256
LENGTHS = (2, 12, 48, 200)  # of the texts on which the two ways are compared
TOLERANCES = {torch.float32: 1e-3, torch.float16: 3e-2}


def of_weights(weights: Tensor) -> Tensor:
    """Return the statistics [texts, T, heads, 6] of attention weights [texts, heads, T, T]."""
    return _in_blocks(weights.shape, weights.device, lambda rows: weights[:, :, rows].float())


def of_heads(heads: Heads) -> Tensor:
    """Return the same for attention that is not computed yet, and fill its output."""
    heads.fill()
    query, key = heads.query.float(), heads.key.float()
    texts, n, length, _ = query.shape
    key = key.repeat_interleave(n // key.shape[1], dim=1).transpose(2, 3)
    future = torch.arange(length, device=query.device)

    def weights(rows: slice) -> Tensor:
        seen = min(length, _end(rows.start)) if heads.causal else length
        scores = (query[:, :, rows] @ key[..., :seen]).mul_(heads.scale)
        if heads.causal:
            scores.masked_fill_(future[:seen] > future[rows, None], -torch.inf)
        return scores.softmax(-1)

    return _in_blocks((texts, n, length, length), query.device, weights)


def _in_blocks(
    shape: tuple[int, ...], device: torch.device, weights: Callable[[slice], Tensor]
) -> Tensor:
    """Take the weights of some rows after the other."""
    texts, heads, length, _ = shape
    found = torch.empty((texts, length, heads, len(STATISTICS)), device=device)
    step = max(1, BLOCK // (texts * heads * length))
    start = 0
    while start < length:
        rows = slice(start, min(length, start + step, _end(start)))
        found[:, rows] = _of_rows(weights(rows), start).transpose(1, 2)
        start = rows.stop
    return found


def _end(start: int) -> int:
    """Return where the blocks of a row have their end."""
    return (start // ROWS + 1) * ROWS


def _of_rows(weights: Tensor, start: int) -> Tensor:
    """Return the statistics [texts, heads, rows, 6] of rows of weights from a row on."""
    rows, length = weights.shape[2:]
    own = torch.arange(start, start + rows, device=weights.device)
    to = torch.arange(length, device=weights.device)

    def at(columns: Tensor) -> Tensor:
        return weights.gather(3, columns.expand(*weights.shape[:2], rows)[..., None])[..., 0]

    entropy = torch.special.entr(weights).sum(-1)
    distance = torch.einsum("bhij,ij->bhi", weights, (own[:, None] - to).abs().float())
    previous = torch.where(own > 0, at((own - 1).clamp(min=0)), 0.0)
    each = (entropy, weights.amax(-1), at(own), previous, weights[..., 0], distance)
    return torch.stack(each, -1)


def statistical_taps(taps: Taps, max_length: int) -> Taps:
    """Return taps that hand over queries and keys, if the model allows it and gives the same."""
    if taps.way != "hooks":
        return replace(taps, eager_because="sites are read from the model's outputs")
    candidate = replace(taps, fused=True)
    for length in sorted({min(n, max_length) for n in LENGTHS}):
        why = _difference(candidate, taps, length)
        if why:
            return replace(taps, eager_because=why)
    return candidate


def _difference(fused: Taps, eager: Taps, length: int) -> str:
    """Return how a text's statistics differ between the two ways; nothing if they do not."""
    subject = fused.subject
    inputs = subject.tensors(subject.encode([" ".join([PROBE_TEXT] * length)], length))
    expected: dict[Key, Tensor] = {}
    found: dict[Key, Tensor] = {}

    def keep(into: dict[Key, Tensor], kind: Kind, layer: int, values: Tensor | Heads) -> None:
        if kind == "attention":
            of = of_heads(values) if isinstance(values, Heads) else of_weights(values)
            into[kind, layer] = of[:1]

    with eager.open() as forward:
        forward(inputs, lambda *read: keep(expected, *read))
    try:
        with fused.open() as forward:
            forward(inputs, lambda *read: keep(found, *read))
    # Whatever goes wrong, eager attention is right.
    except Exception as error:
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    if found.keys() != expected.keys():
        return "the model does not take another attention function"
    worst = max(float((found[key] - one).abs().max() / length) for key, one in expected.items())
    most = TOLERANCES.get(subject.dtype, 1e-1)
    return "" if worst <= most else f"statistics differ by {worst:.2g}"
