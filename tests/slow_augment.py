"""Algorithm 1 as it is written down: one attempt, one text at a time.

The coverage beside it is what a first version would be: Hugging Face's own hidden states and
attentions, and a NumPy array with a place for every bin. It shares no code with mncover.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mncover import Coverage
from mncover.augment.records import AugmentSettings
from mncover.augment.transforms import Transform, apply
from mncover.engine.ranges import Ranges
from mncover.types import Text

Found = tuple[int, Text, tuple[str, ...]]


def slow_augment(
    coverage: Coverage | PlainCoverage,
    cosine: Callable[[Text, Text], float],
    seeds: Sequence[Text],
    transforms: Mapping[str, Transform],
    settings: AugmentSettings,
) -> list[Found]:
    """Return the accepted texts, each with its seed's index and what changed it."""
    coverage.update(seeds)
    accepted: list[Found] = []
    queue: list[str] = []
    seen = set(seeds)
    for index, seed in enumerate(seeds):
        for tries in range(settings.max_iter):
            rng = random.Random(f"{settings.seed}:{index}:{tries}:first")
            first = rng.choice(settings.transforms)
            if queue:
                first = _from_queue(queue, rng)
            rng = random.Random(f"{settings.seed}:{index}:{tries}:second")
            second = rng.choice(settings.transforms)
            text, worked = _changed(seed, (first, second), transforms, rng)
            if text in seen or cosine(seed, text) < settings.similarity:
                continue
            if settings.guide != "none":
                gain = coverage.gain([text], settings.guide)[0]
                if gain <= settings.threshold:
                    continue
                coverage.update([text])
                queue += worked
            seen.add(text)
            accepted.append((index, text, worked))
            break
    return accepted


def _from_queue(queue: Sequence[str], rng: random.Random) -> str:
    """Draw from the queue: entry n + 1 takes the place of the one drawn of n in one of n + 1.

    The number of the entry that is the next to do so is drawn, instead of asking each.
    """
    taken, next_one = 1, 1
    while next_one <= len(queue):
        taken = next_one
        next_one = int(taken / (1 - rng.random())) + 1
    return queue[taken - 1]


def _changed(
    seed: Text, names: Sequence[str], transforms: Mapping[str, Transform], rng: random.Random
) -> tuple[Text, tuple[str, ...]]:
    text, worked = seed, ()  # type: tuple[Text, tuple[str, ...]]
    for name in names:
        changed = apply(transforms[name], text, rng)
        if changed is not None:
            text, worked = changed, (*worked, name)
    return text, worked


def slow_cosine(model: Any, tokenizer: Any, max_length: int) -> Callable[[Text, Text], float]:
    """Return the cosine of mean-pooled last hidden states, one text at a time."""

    def embed(text: Text) -> Any:
        pair = (text,) if isinstance(text, str) else text
        with torch.inference_mode():
            inputs = tokenizer(*pair, return_tensors="pt", truncation=True, max_length=max_length)
            inputs = {name: inputs[name] for name in ("input_ids", "token_type_ids")}
            return model(**inputs).last_hidden_state[0].mean(0)

    def cosine(one: Text, other: Text) -> float:
        return float(torch.nn.functional.cosine_similarity(embed(one), embed(other), dim=0))

    return cosine


class PlainCoverage:
    """Cover by dense arrays: one place for every bin of every neuron of every site.

    The ranges are those of `ranges`, cut into an array [groups, rows, columns] for each site.
    """

    def __init__(self, model: Any, tokenizer: Any, ranges: Ranges, bins: int) -> None:
        self.model, self.tokenizer, self.bins = model, tokenizer, bins
        self.bounds: dict[tuple[str, int], tuple[Any, Any]] = {}
        self.hit: dict[tuple[str, int], NDArray[np.bool_]] = {}
        self.max_length = ranges.layout.sites[0].rows
        self.total = bins * sum(ranges.layout.neurons(site) for site in ranges.layout.sites)
        for site, part in ranges.layout.spans():
            ends = (ranges.low[part], ranges.high[part])
            low, high = (end.reshape(site.shape).astype(np.float64) for end in ends)
            self.bounds[site.kind, site.layer] = low, high
            self.hit[site.kind, site.layer] = np.zeros((*site.shape, bins), dtype=bool)

    def update(self, texts: Sequence[Text]) -> None:
        """Add what texts hit."""
        for text in texts:
            for site, new in self.maps(text).items():
                self.hit[site] |= new

    def gain(self, texts: Sequence[Text], metric: str = "cover") -> list[float]:
        """Return what each text would add."""
        assert metric == "cover"
        found = []
        for text in texts:
            new = sum(np.count_nonzero(m & ~self.hit[s]) for s, m in self.maps(text).items())
            found.append(new / self.total)
        return found

    def maps(self, text: Text) -> dict[tuple[str, int], NDArray[np.bool_]]:
        """Return, for each site, which bins a text hits."""
        return {site: self._map(site, values) for site, values in self.values(text).items()}

    def _map(self, site: tuple[str, int], values: NDArray[np.float64]) -> NDArray[np.bool_]:
        low, high = self.bounds[site]
        found = np.zeros((*low.shape, self.bins), dtype=bool)
        _, rows, columns = values.shape
        low, high = low[:, :rows, :columns], high[:, :rows, :columns]
        inside = np.nonzero((values >= low) & (values <= high))
        value, low, high = values[inside], low[inside], high[inside]
        width = np.where(high > low, high - low, 1.0)
        place = np.minimum(np.floor((value - low) / width * self.bins), self.bins - 1)
        found[inside + (place.astype(np.int64),)] = True  # noqa: RUF005
        return found

    def values(self, text: Text) -> dict[tuple[str, int], NDArray[np.float64]]:
        """Return the activations [groups, rows, columns] of each site."""
        pair = (text,) if isinstance(text, str) else text
        inputs = self.tokenizer(
            *pair, return_tensors="pt", truncation=True, max_length=self.max_length
        )
        accepted = inspect.signature(self.model.forward).parameters
        inputs = {name: value for name, value in inputs.items() if name in accepted}
        with torch.inference_mode():
            output = self.model(**inputs, output_hidden_states=True, output_attentions=True)
        hidden = {("hidden", i): x.double().numpy() for i, x in enumerate(output.hidden_states)}
        heads = enumerate(output.attentions, start=1)
        return hidden | {("attention", i): x[0].double().numpy() for i, x in heads}
