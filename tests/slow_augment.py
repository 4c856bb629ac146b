"""Algorithm 1 as it is written down: one attempt, one text at a time."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mncover import Coverage
from mncover.augmentation.settings import AugmentSettings
from mncover.texts import Text
from mncover.transforms import Transform, apply

Found = tuple[int, Text, tuple[str, ...]]


def slow_augment(
    coverage: Coverage,
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
    import torch

    def embed(text: Text) -> Any:
        pair = (text,) if isinstance(text, str) else text
        with torch.inference_mode():
            inputs = tokenizer(*pair, return_tensors="pt", truncation=True, max_length=max_length)
            inputs = {name: inputs[name] for name in ("input_ids", "token_type_ids")}
            return model(**inputs).last_hidden_state[0].mean(0)

    def cosine(one: Text, other: Text) -> float:
        return float(torch.nn.functional.cosine_similarity(embed(one), embed(other), dim=0))

    return cosine
