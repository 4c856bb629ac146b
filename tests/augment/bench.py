"""A tiny subject with ranges and an encoder, and simple transformations, to run searches with."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from mncover import Coverage
from mncover.augment.judge import Embedder, Judge
from mncover.augment.records import Augmented, AugmentSettings
from mncover.augment.search import Search, search
from mncover.augment.transforms import Transform
from mncover.engine.subject import Subject
from mncover.types import BETWEEN, Text
from tests import tiny
from tests.slow_augment import PlainCoverage, slow_augment, slow_cosine


def _other_word(text: str, rng: random.Random) -> str | None:
    places = list(re.finditer(rf"[^\s{BETWEEN}]+", text))
    if not places:
        return None
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(tiny.WORDS) + text[place.end() :]


def _longer(text: str, rng: random.Random) -> str | None:
    return f"{text} {rng.choice(tiny.WORDS)}"


def _no_film(text: str, rng: random.Random) -> str | None:
    return text.replace("film", "food", 1) if "film" in text else None


class Slowly:
    """Stands in for a change with a model: it remembers how many texts it saw at once."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, text: str, rng: random.Random) -> str | None:
        return self.many([text], [rng])[0]

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        self.sizes.append(len(texts))
        return [f"{rng.choice(tiny.WORDS)} {t}" for t, rng in zip(texts, rngs, strict=True)]


def transforms() -> dict[str, Transform]:
    changes = [
        Transform("Other", _other_word),
        Transform("Longer", _longer),
        Transform("NoFilm", _no_film),
        Transform("Slowly", slowly := Slowly(), slowly.many),
    ]
    return {change.name: change for change in changes}


NAMES = tuple(transforms())


class Bench:
    """A tiny subject, ranges, and an encoder: another tiny model, or the subject itself."""

    def __init__(self, architecture: str = "bert", own: bool = False, **options: Any) -> None:
        self.model, self.tokenizer = tiny.make(architecture)
        self.own = own
        self.encoder = self.model if own else tiny.make("bert", 7)[0]
        self.options = options

    def coverage(self) -> Coverage:
        cov = Coverage(self.model, self.tokenizer, bins=20, max_length=16, **self.options)
        return cov.calibrate(tiny.texts(40, seed=1), cache=False)

    def embedder(self) -> Embedder:
        return Embedder(Subject(self.encoder, self.tokenizer), 16, batch_size=5)

    def fast(self, seeds: Sequence[Text], settings: AugmentSettings, ahead: int = 7) -> Augmented:
        engine = self.coverage().engine
        embedder = Embedder(engine.subject, 16) if self.own else self.embedder()
        judge = Judge(engine, embedder, seeds, settings.similarity, settings.criterion)
        return search(Search(seeds, transforms(), judge, settings, ahead))

    def slow(self, seeds: Sequence[Text], settings: AugmentSettings) -> list[Any]:
        cosine = slow_cosine(self.encoder.base_model, self.tokenizer, 16)
        coverage = self.coverage()
        ranges = coverage.engine.ranges
        assert ranges is not None
        if settings.guide == "mncover":  # tests/test_mncover.py has its own slow check
            return slow_augment(coverage, cosine, seeds, transforms(), settings)
        self.model.set_attn_implementation("eager")
        plain = PlainCoverage(self.model, self.tokenizer, ranges, bins=20)
        return slow_augment(plain, cosine, seeds, transforms(), settings)


def same_but_for_digits(one: Augmented, other: Augmented) -> bool:
    """Compare all but `texts_run`; a cosine's last digits hang on what was embedded with it."""
    cosines = [accepted.similarity for accepted in one.accepted]
    assert cosines == pytest.approx([accepted.similarity for accepted in other.accepted], abs=1e-5)
    plain = [
        replace(
            found,
            texts_run=0,
            accepted=[replace(accepted, similarity=0.0) for accepted in found.accepted],
        )
        for found in (one, other)
    ]
    return plain[0] == plain[1]
