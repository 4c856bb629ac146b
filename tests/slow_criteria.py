"""The criteria, computed slowly and obviously, under every way to treat positions.

Like `slow.py`, whose activations it starts from, it visits one neuron after the other with
Python's own floats and shares no code with mncover. A text gives, for each neuron, the values
that it takes: one for each position, one for every token, or the mean.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from tests.slow import Hit, Neuron, states

Values = dict[Neuron, list[float]]


def statistics_of(row: list[float], own: int) -> list[float]:
    """Return the six statistics of a row of attention weights, one after the other."""
    entropy = -sum(weight * math.log(weight) for weight in row if weight > 0)
    distance = sum(weight * abs(own - to) for to, weight in enumerate(row))
    previous = row[own - 1] if own else 0.0
    return [entropy, max(row), row[own], previous, row[0], distance]


class SlowCriteria:
    """Ranges and hits of the criteria of DESIGN's table that need nothing but values."""

    def __init__(self, model: Any, tokenizer: Any, bins: int, max_length: int, how: str) -> None:
        self.subject, self.bins, self.max_length = (model, tokenizer), bins, max_length
        self.how = how
        self.row_has_its_number = False  # behind its weights, where some rows are left out
        self.low: dict[Neuron, float] = {}
        self.high: dict[Neuron, float] = {}

    def tokens(self, text: Any) -> tuple[list[list[list[float]]], list[list[list[list[float]]]]]:
        """Return hidden states [layer, token, dimension] and attention [layer, head, i, j]."""
        hidden, attention, self.causal = states(*self.subject, text, self.max_length)
        return [one.tolist() for one in hidden], [one.tolist() for one in attention.values()]

    def hidden(self, text: Any) -> Values:
        """Return the values that a text gives to each hidden neuron."""
        found: Values = defaultdict(list)
        for layer, tokens in enumerate(self.tokens(text)[0]):
            for t, state in enumerate(tokens):
                for d, value in enumerate(state):
                    found["hidden", layer, 0, t if self.how == "each" else 0, d].append(value)
        return self.pooled(found)

    def attention(self, text: Any) -> Values:
        """Return the values that a text gives to each attention neuron."""
        found: Values = defaultdict(list)
        for layer, heads in enumerate(self.tokens(text)[1], start=1):
            for k, rows in enumerate(heads):
                for i, row in enumerate(rows):
                    if self.how == "each":
                        for j, weight in enumerate(row):
                            if not (self.causal and j > i):
                                found["attention", layer, k, i, j].append(weight)
                    else:
                        *weights, own = row if self.row_has_its_number else [*row, i]
                        for s, value in enumerate(statistics_of(weights, int(own))):
                            found["attention", layer, k, 0, s].append(value)
        return self.pooled(found)

    def pooled(self, found: Values) -> Values:
        if self.how != "mean":
            return found
        return {neuron: [sum(values) / len(values)] for neuron, values in found.items()}

    def calibrate(self, texts: list[Any]) -> None:
        for text in texts:
            for neuron, values in {**self.hidden(text), **self.attention(text)}.items():
                self.low[neuron] = min(*values, self.low.get(neuron, math.inf))
                self.high[neuron] = max(*values, self.high.get(neuron, -math.inf))

    def hits(self, criterion: str, text: Any, number: float = 0) -> set[Hit]:
        """Return the cells that a text hits."""
        if criterion == "cover":
            return self.binned({**self.hidden(text), **self.attention(text)})
        if criterion == "kmnc":
            return self.binned(self.hidden(text))
        if criterion in ("nbc", "snac"):
            return self.outside(criterion, self.hidden(text))
        return self.scaled(text, number) if criterion == "nc" else self.largest(text, int(number))

    def binned(self, values: Values) -> set[Hit]:
        found = set()
        for neuron, each in values.items():
            low, high = self.low.get(neuron, math.inf), self.high.get(neuron, -math.inf)
            for value in each:
                if low <= value <= high:
                    share = 0.0 if low == high else (value - low) / (high - low)
                    found.add((neuron, min(math.floor(share * self.bins), self.bins - 1)))
        return found

    def outside(self, criterion: str, values: Values) -> set[Hit]:
        found = set()
        for neuron, each in values.items():
            if neuron not in self.low:
                continue
            if max(each) > self.high[neuron]:
                found.add((neuron, 0 if criterion == "snac" else 1))
            if min(each) < self.low[neuron] and criterion == "nbc":
                found.add((neuron, 0))
        return found

    def layers(self, text: Any) -> list[list[list[float]]]:
        """Return what of each layer is looked at: every token, or the mean."""
        every = self.tokens(text)[0]
        if self.how != "mean":
            return every
        return [[[sum(d) / len(d) for d in zip(*tokens, strict=True)]] for tokens in every]

    def scaled(self, text: Any, threshold: float) -> set[Hit]:
        found = set()
        for layer, tokens in enumerate(self.layers(text)):
            least, most = min(map(min, tokens)), max(map(max, tokens))
            for t, state in enumerate(tokens):
                for d, value in enumerate(state):
                    if most > least and (value - least) / (most - least) > threshold:
                        row = t if self.how == "each" else 0
                        found.add((("hidden", layer, 0, row, d), 0))
        return found

    def largest(self, text: Any, k: int) -> set[Hit]:
        found = set()
        for layer, tokens in enumerate(self.layers(text)):
            for t, state in enumerate(tokens):
                least = sorted(state, reverse=True)[k - 1]
                row = t if self.how == "each" else 0
                found |= {
                    (("hidden", layer, 0, row, d), 0) for d, v in enumerate(state) if v >= least
                }
        return found
