"""What a transformation is, and what some of them need from outside."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Change = Callable[[str, random.Random], "str | None"]


class Transform(Protocol):
    """A small change to a text; where there is nothing to change it returns None."""

    @property
    def name(self) -> str:
        """The name by which it is asked for."""

    @property
    def needs_model(self) -> bool:
        """Whether it runs a language model, which is worth doing for many texts at once."""

    def __call__(self, text: str, rng: random.Random) -> str | None:
        """Return a changed text, or None."""

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        """Return what the calls one by one would, each text with its own source of chance."""


@dataclass(frozen=True)
class Resources:
    """Where the data lies that some transformations need; None means: look in the usual places.

    `masked_lm`, a folder or hub name, has no usual place. `device` is where that model runs.
    """

    wordnet: Path | None = None
    vectors: Path | None = None
    masked_lm: str | None = None
    device: str | None = None


@dataclass(frozen=True)
class TextTransform:
    """A transformation that is one function of a text and a source of chance."""

    name: str
    change: Change
    needs_model: bool = False

    def __call__(self, text: str, rng: random.Random) -> str | None:
        """Return a changed text, or None."""
        changed = self.change(text, rng)
        return None if changed == text else changed

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        """Return what the calls one by one would."""
        return [self(text, rng) for text, rng in zip(texts, rngs, strict=True)]
