"""Small changes to a text, by name: `REGISTRY` lists all of them.

A new one is a function in a file of this package and an entry in the registry. Dictionaries, word
vectors and language models are loaded on first use; nothing heavy is imported before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from pathlib import Path

from mncover.augment.transforms import characters, rewriting
from mncover.errors import SettingsError
from mncover.types import Text, joined, split_like

Change = Callable[[str, random.Random], "str | None"]


@dataclass(frozen=True)
class Transform:
    """A small change to a text; it returns None if there is nothing to change.

    `batched` is there if the change runs a language model, which is faster for many texts at once.
    """

    name: str
    change: Change
    batched: Callable[[Sequence[str], Sequence[random.Random]], list[str | None]] | None = None

    @property
    def needs_model(self) -> bool:
        """Whether it runs a language model."""
        return self.batched is not None

    def __call__(self, text: str, rng: random.Random) -> str | None:
        """Return the changed text, or None."""
        return self.many([text], [rng])[0]

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        """Return the results of single calls, each text with its own generator."""
        if self.batched is not None:
            return self.batched(texts, rngs)
        changed = [self.change(text, rng) for text, rng in zip(texts, rngs, strict=True)]
        return [None if new == old else new for old, new in zip(texts, changed, strict=True)]


@dataclass(frozen=True)
class Resources:
    """Where to find what some transformations need; None means the usual places.

    `masked_lm`, a folder or hub name, has no usual place. `device` is where that model runs.
    """

    wordnet: Path | None = None
    vectors: Path | None = None
    masked_lm: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A transformation in the registry.

    `change` is its function or, if that needs resources, "module:function": what makes it from
    `Resources`, imported when it is asked for. `paper` marks the sixteen of the paper, the ones
    that a search draws from by default.
    """

    name: str
    summary: str
    change: Change | str
    paper: bool = True


_ENTRIES = (
    Entry("RandomSynonymInsertion", "inserts a synonym after a word", "wordnet:insertion"),
    Entry("WordSwapEmbedding", "replaces a word with one whose vector is near", "neighbours:swap"),
    Entry("WordSwapChangeLocation", "replaces a city or a country", rewriting.locations),
    Entry("WordSwapChangeName", "replaces a first name", rewriting.names),
    Entry("WordSwapChangeNumber", "replaces a number", rewriting.change_number),
    Entry("WordSwapContract", "contracts two words into one", rewriting.contract),
    Entry("WordSwapExtend", "expands a contraction", rewriting.extend),
    Entry("WordSwapHomoglyphSwap", "replaces a letter with a look-alike", characters.look_alike),
    Entry("WordSwapMaskedLM", "replaces a word with a language model's guess", "masked_lm:swap"),
    Entry("WordSwapQWERTY", "replaces a letter with a neighbouring key", characters.mistype),
    Entry("WordSwapNeighboringCharacterSwap", "swaps two letters of a word", characters.swap),
    Entry("WordSwapRandomCharacterDeletion", "deletes a letter", characters.delete),
    Entry("WordSwapRandomCharacterInsertion", "inserts a letter", characters.insert),
    Entry("WordSwapRandomCharacterSubstitution", "replaces a letter", characters.substitute),
    Entry("RandomSwap", "swaps two words", rewriting.swap_words),
    Entry("WordSwapWordNet", "replaces a word with a synonym", "wordnet:swap"),
    Entry("typos", "swaps two neighbouring letters", rewriting.typos, paper=False),
    Entry("contractions", "expands or contracts all it can", rewriting.contractions, paper=False),
    Entry("punctuation", "removes or adds final punctuation", rewriting.punctuation, paper=False),
    Entry("names", "replaces a first name", rewriting.names, paper=False),
    Entry("locations", "replaces a city or a country", rewriting.locations, paper=False),
    Entry("numbers", "changes a whole number by up to a fifth", rewriting.numbers, paper=False),
    Entry("negation", "negates a verb, or removes its negation", rewriting.negation, paper=False),
    Entry("urls_and_handles", "adds a URL or a user name", rewriting.urls_and_handles, paper=False),
)
REGISTRY = {entry.name: entry for entry in _ENTRIES}
PAPER = tuple(entry.name for entry in _ENTRIES if entry.paper)
_USUAL = Resources()


def transform(name: str, resources: Resources = _USUAL) -> Transform:
    """Return a transformation by name; raises if what it needs is missing.

    >>> transform("WordSwapContract")("This is not bad.", random.Random(0))
    "This isn't bad."
    """
    if name not in REGISTRY:
        raise SettingsError(f"there is no transformation {name!r}; known: {', '.join(REGISTRY)}.")
    change = REGISTRY[name].change
    if isinstance(change, str):
        module, _, function = change.partition(":")
        change = getattr(import_module(f"{__name__}.{module}"), function)(resources)
    return Transform(name, change, getattr(change, "many", None))


def apply(change: Transform, text: Text, rng: random.Random) -> Text | None:
    """Return a changed text or pair, or None if there is nothing to change.

    In a pair, names, places and numbers change alike on both sides; anything else on one.

    >>> apply(transform("WordSwapExtend"), ("It isn't.", "Is it?"), random.Random(0))
    ('It is not.', 'Is it?')
    """
    return apply_many([change], [text], [rng])[0]


def apply_many(
    changes: Sequence[Transform], texts: Sequence[Text], rngs: Sequence[random.Random]
) -> list[Text | None]:
    """Return the results of `apply`, one change per text; each change sees its texts together."""
    groups: dict[int, list[int]] = {}
    for place, (change, _, _) in enumerate(zip(changes, texts, rngs, strict=True)):
        groups.setdefault(id(change), []).append(place)
    found: list[Text | None] = [None] * len(texts)
    for places in groups.values():
        whole = [joined(texts[i]) for i in places]
        changed = changes[places[0]].many(whole, [rngs[i] for i in places])
        for i, text in zip(places, changed, strict=True):
            found[i] = None if text is None else split_like(text, texts[i])
    return found


def variants_of(
    text: Text, changes: Sequence[Transform], n: int, rng: random.Random
) -> tuple[Text, ...]:
    """Return up to n different variants, each made by all changes one after the other.

    A change that finds nothing is skipped; an unchanged text is not a variant.
    """
    whole = joined(text)
    found: dict[str, None] = {}
    for _ in range(5 * n):  # some draws repeat
        changed = reduce(lambda old, change: change(old, rng) or old, changes, whole)
        if changed != whole:
            found.setdefault(changed)
        if len(found) == n:
            break
    return tuple(split_like(changed, text) for changed in found)
