"""Learn where a model's sites are, by running short texts through it.

Nothing is taken on trust. What a model returns as attention is read only if it is a weight for each
pair of tokens, at two lengths, and if asking for it does not change what the model computes. If it
is not, hidden states are measured alone; without one for each token a model is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from mncover.engine.attention import NotCoveredError
from mncover.engine.subject import Subject
from mncover.engine.taps import (
    Key,
    LayerHeads,
    Taps,
    declared_taps,
    hooks_restored,
    states_of,
    with_states,
)
from mncover.errors import ModelError

Inputs = dict[str, Tensor]

NONE = "it returns no attention weights"
NO_PAIRS = "what it returns as attention is not a weight for each pair of tokens"
CHANGED = "it computes other states when it is asked for its attention"
ROUNDING = 0.05  # by which weights in half precision may exceed 1 in sum
# How far states may lie apart, of their length: far more than rounding moves them.
APART = {torch.float32: 0.05, torch.float64: 0.05}
APART_HALF = 0.2


def find_taps(subject: Subject) -> Taps:
    """Return how a subject's sites are read."""
    inputs = subject.probe_inputs()
    hidden, _ = _states(subject, inputs, attention=False)
    _check_hidden(subject, inputs, hidden)
    width = tuple(h.shape[2] for h in hidden)
    taps, *expected = _with_attention(Taps(subject, width, (), causal=False), inputs, hidden)
    if not taps.heads:
        taps = replace(taps, causal=_is_blind_to_later(subject, inputs, hidden))
    return _hooked(taps, inputs, *expected)


def _states(
    subject: Subject, inputs: Inputs, attention: bool
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return hidden states and attentions; without attention, as the model runs by itself."""
    state = subject.measuring("eager" if attention else None)
    with state, hooks_restored(subject.model), torch.inference_mode(), subject.trying(inputs):
        return states_of(with_states(subject, inputs, attention))


def _check_hidden(subject: Subject, inputs: Inputs, hidden: Sequence[Tensor]) -> None:
    """Refuse a model that has no hidden state for each layer and token."""
    length, why = inputs["input_ids"].shape[1], ""
    if len(hidden) < 2:
        why = "it returns no hidden states of its layers"
    elif any(h.dim() != 3 or h.shape[1] != length for h in hidden):
        why = "not every layer has one hidden state for each token"
    if why:
        raise ModelError(f"{type(subject.model).__name__} cannot be measured: {why}.")


def _with_attention(
    taps: Taps, inputs: Inputs, alone: Sequence[Tensor]
) -> tuple[Taps, Sequence[Tensor], Sequence[Tensor]]:
    """Add the attention that can be read, or say why there is none.

    `alone` has the hidden states when attention is not asked for. Returned are also the hidden
    states and attentions that the taps have to see.
    """
    shorter = {name: values[:, 1:] for name, values in inputs.items()}  # an end may be needed
    try:
        hidden, found = _states(taps.subject, inputs, attention=True)
        _, second = _states(taps.subject, shorter, attention=True)
    except (TypeError, ValueError):  # it does not know such a question
        return _without(taps, NONE), alone, ()
    pairs = list(zip(found, second, strict=False))
    both = [_are_weights(a, inputs) and _are_weights(b, shorter) for a, b in pairs]
    heads = [a.shape[1] if good else 0 for a, good in zip(found, both, strict=False)]
    if not any(heads):
        return _without(taps, NO_PAIRS if found else NONE), alone, ()
    if not _agree(hidden, alone):
        return _without(taps, CHANGED), alone, ()
    read = [one for pair, n in zip(pairs, heads, strict=True) if n for one in pair]
    layers = tuple(LayerHeads(i, n) for i, n in enumerate(heads, start=1))
    causal = all(bool((one.triu(1) == 0).all()) for one in read)
    return replace(taps, heads=layers, causal=causal), hidden, found


def _without(taps: Taps, why: str) -> Taps:
    return replace(taps, attention=None, without_because=why)


def _are_weights(values: Any, inputs: Inputs) -> bool:
    """Return whether every head gives every token shares of all tokens."""
    length = inputs["input_ids"].shape[1]
    if not isinstance(values, Tensor) or values.dim() != 4 or values.shape[2:] != (length, length):
        return False
    # Less than 1 in sum if a head may look at nothing.
    return bool((values >= 0).all()) and bool((values.float().sum(-1) <= 1 + ROUNDING).all())


def _agree(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    """Return whether most tokens have the same last states, but for rounding."""
    one, other = some[-1].float(), others[-1].float()
    apart = (one - other).norm(dim=-1) / other.norm(dim=-1).clamp(min=1e-9)
    return float(apart.median()) <= APART.get(others[-1].dtype, APART_HALF)


def _is_blind_to_later(subject: Subject, inputs: Inputs, hidden: Sequence[Tensor]) -> bool:
    """Return whether another last token leaves the states of all earlier ones alone."""
    ids = inputs["input_ids"].clone()
    ids[:, -1] += 1 if int(ids[0, -1]) == 0 else -1
    changed, _ = _states(subject, {**inputs, "input_ids": ids}, attention=False)
    moved = [(a - b).abs() for a, b in zip(hidden, changed, strict=True)]
    return all(float(m[:, :-1].max()) <= 1e-3 * float(m[:, -1].max()) for m in moved)


def _hooked(
    taps: Taps, inputs: Inputs, hidden: Sequence[Tensor], attention: Sequence[Tensor]
) -> Taps:
    """Return taps that read by hooks if these see what the model returns."""
    declared, owner = declared_taps(taps.subject.traced)
    modules = tuple(tap for tap in declared if taps.heads or tap.kind == "hidden")
    expected: dict[Key, Tensor] = {("hidden", i): h for i, h in enumerate(hidden)}
    for (layer, n), values in zip(taps.heads, attention, strict=True):
        expected |= {("attention", layer): values} if n else {}
    for final in (None, owner) if modules else ():  # without and with a last norm
        candidate = replace(taps, modules=modules, final=final)
        order = _order_seen(candidate, inputs, expected)
        if order is not None:
            return replace(candidate, heads=_in_layers(candidate, order))
    return taps


def _order_seen(taps: Taps, inputs: Inputs, expected: dict[Key, Tensor]) -> list[Key] | None:
    """Return in what order hooks see the sites; None if not bit for bit what is expected."""
    seen: dict[Key, Tensor] = {}
    try:
        with taps.open() as run:
            run(inputs, lambda kind, layer, values: seen.update({(kind, layer): values}))
    except (ModelError, NotCoveredError, IndexError, AttributeError, TypeError):
        return None
    same = seen.keys() == expected.keys() and all(
        isinstance(seen[key], Tensor) and torch.equal(seen[key], expected[key]) for key in seen
    )
    return list(seen) if same else None


def _in_layers(taps: Taps, order: list[Key]) -> tuple[LayerHeads, ...]:
    """Return heads with the layers they are in: in a hybrid model not every layer has attention.

    A layer yields its states after its attention, the first one also what enters it.
    """
    kinds = [kind for kind, _ in order]
    at = {key: max(1, kinds[:n].count("hidden")) for n, key in enumerate(order)}
    found = tuple(LayerHeads(at.get(("attention", layer), 0), n) for layer, n in taps.heads)
    layers = [one.layer for one in found if one.n]
    distinct = len(set(layers)) == len(layers) and max(layers, default=0) < taps.n_hidden
    return found if distinct else taps.heads
