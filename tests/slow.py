"""Cover, computed slowly and obviously: the independent check of every number.

It runs each text alone, takes Hugging Face's own `hidden_states` and `attentions`, visits every
neuron in a Python loop with Python's own floats, and keeps hits in a set. It shares no code
with mncover.
"""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any

import torch

Neuron = tuple[str, int, int, int, int]  # kind, layer, group, row, column
Hit = tuple[Neuron, int]
Layers = tuple[int, ...] | None

COPIES = 64


def activations(
    model: Any, tokenizer: Any, text: Any, max_length: int, layers: Layers = None
) -> dict[Neuron, float]:
    """Return the value of every neuron that a text touches."""
    hidden, attention, causal = states(model, tokenizer, text, max_length, layers)
    values: dict[Neuron, float] = {}
    for layer, tensor in enumerate(hidden):
        for (t, d), value in each(tensor):
            values["hidden", layer, 0, t, d] = value
    for layer, tensor in attention.items():
        for (k, i, j), value in each(tensor):
            if not (causal and j > i):  # looking ahead is zero by construction: no neuron
                values["attention", layer, k, i, j] = value
    return values


def each(tensor: Any) -> Any:
    """Yield every index of a tensor with its value as a Python float."""
    for index in itertools.product(*(range(n) for n in tensor.shape)):
        yield index, tensor[index].item()


def states(model: Any, tokenizer: Any, text: Any, max_length: int, layers: Layers = None) -> Any:
    """Return what Hugging Face gives for one text: hidden states, attentions, causal or not.

    `layers` are those with attention weights; None means all of them.
    """
    # Copies of the text, of which the first is used: a lone row is rounded differently by the
    # CPU's libraries, and a neuron on the very edge of a bin would tell the difference.
    first, second = (text, None) if isinstance(text, str) else text
    first, second = [first] * COPIES, None if second is None else [second] * COPIES
    inputs = tokenizer(first, second, truncation=True, max_length=max_length, return_tensors="pt")
    module = model.get_encoder() if model.config.is_encoder_decoder else model
    accepted = inspect.signature(module.forward).parameters
    inputs = {k: v for k, v in inputs.items() if k in accepted}
    wanted = layers is None or bool(layers)
    if wanted:
        module = eager(module)
    with torch.no_grad():
        options = {"use_cache": False} if "use_cache" in accepted else {}
        options |= {"output_hidden_states": True, "output_attentions": wanted}
        output = module(**inputs, **options)
    hidden = [h[0].float() for h in output.hidden_states]
    given = [a[0].float() for a in output.attentions] if wanted else []
    every = range(1, len(hidden))
    if len(given) == len(every):
        given = [given[layer - 1] for layer in layers or every]
    attention = dict(zip(layers or every, given, strict=False))
    causal = all(bool((a.triu(1) == 0).all()) for a in attention.values())
    return hidden, attention, causal


def eager(module: Any) -> Any:
    """Return a model that computes its attention weights; some have to be made anew for that."""
    module.set_attn_implementation("eager")
    if module.config._attn_implementation == "eager":
        return module
    made = type(module)._from_config(module.config, attn_implementation="eager").eval()
    made.load_state_dict(module.state_dict())
    return made


class SlowCover:
    """Ranges as two dictionaries, coverage as a set of (neuron, bin)."""

    def __init__(
        self, model: Any, tokenizer: Any, bins: int, max_length: int, layers: Layers = None
    ) -> None:
        self.subject = model, tokenizer
        self.bins = bins
        self.max_length = max_length
        self.layers = layers  # with attention weights
        self.low: dict[Neuron, float] = {}
        self.high: dict[Neuron, float] = {}

    def activations(self, text: Any) -> dict[Neuron, float]:
        return activations(*self.subject, text, self.max_length, self.layers)

    def calibrate(self, texts: list[Any]) -> None:
        for text in texts:
            for neuron, value in self.activations(text).items():
                self.low[neuron] = min(value, self.low.get(neuron, math.inf))
                self.high[neuron] = max(value, self.high.get(neuron, -math.inf))

    def bin_of(self, neuron: Neuron, value: float) -> int | None:
        if neuron not in self.low:
            return None
        low, high = self.low[neuron], self.high[neuron]
        if value < low or value > high:
            return None
        if low == high:
            return 0
        return min(math.floor((value - low) / (high - low) * self.bins), self.bins - 1)

    def hits(self, text: Any) -> set[Hit]:
        found = set()
        for neuron, value in self.activations(text).items():
            number = self.bin_of(neuron, value)
            if number is not None:
                found.add((neuron, number))
        return found

    def union(self, texts: list[Any]) -> set[Hit]:
        return set().union(*(self.hits(text) for text in texts))

    def reachable(self, kind: str) -> int:
        return sum(n for neuron, n in self.reachable_cells() if neuron[0] == kind)

    def reachable_cells(self) -> list[tuple[Neuron, int]]:
        """Return every neuron that has a range, and how many of its bins can be hit."""
        return [(n, self.bins if self.low[n] < self.high[n] else 1) for n in self.low]


def count(hits: set[Hit], kind: str, layer: int | None = None, group: int | None = None) -> int:
    """Count hits of one kind, layer and head."""
    return sum(
        1
        for (k, la, g, _, _), _ in hits
        if k == kind and layer in (None, la) and group in (None, g)
    )


class SlowMasks:
    """Which words and pairs count, asked one at a time, from the plain definition.

    `words` has the scores of words seen in training, `pairs` those of pairs seen, each under the
    set of its two words. `unseen` is "keep", "drop" or "words"; with "words", `words` has the
    score of every word.
    """

    def __init__(
        self,
        words: dict[int, float],
        pairs: dict[frozenset[int], float],
        special: set[int],
        unseen: str,
    ) -> None:
        self.words, self.pairs, self.special, self.unseen = words, pairs, special, unseen

    def word(self, token: int) -> bool:
        if token in self.special:
            return True
        if token not in self.words:
            return self.unseen == "keep"
        return self.words[token] >= 0.5

    def pair(self, a: int, b: int) -> bool:
        if a == b or a in self.special or b in self.special:
            return True
        score = self.pairs.get(frozenset((a, b)))
        if score is not None:
            return score >= 0.5
        if self.unseen == "words":
            return self.word(a) and self.word(b)
        return self.unseen == "keep"

    def masked(self, hits: set[Hit], ids: list[int]) -> set[Hit]:
        """Return the hits of one text, whose tokens are `ids`, that count."""
        return {
            (neuron, number)
            for neuron, number in hits
            if (neuron[0] == "hidden" and self.word(ids[neuron[3]]))
            or (neuron[0] == "attention" and self.pair(ids[neuron[3]], ids[neuron[4]]))
        }
