"""Sixteen small changes to a text, by name, for suites and for growing a training set.

What they need, a dictionary, word vectors or a language model, is loaded on first use and kept.
Nothing heavy is imported before.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from mncover.augment.transforms.kinds import Resources, Transform
from mncover.errors import SettingsError
from mncover.types import Text, joined, split_like

__all__ = [
    "SUMMARIES",
    "TRANSFORMS",
    "Resources",
    "Transform",
    "all_transforms",
    "apply",
    "apply_many",
    "transform",
]

SUMMARIES = {
    "RandomSynonymInsertion": "puts a synonym behind a word",
    "WordSwapEmbedding": "a word that is near in meaning, by word vectors",
    "WordSwapChangeLocation": "another city for a city, another country for a country",
    "WordSwapChangeName": "another first name",
    "WordSwapChangeNumber": "another number",
    "WordSwapContract": "contracts what is written out",
    "WordSwapExtend": "writes out a contraction",
    "WordSwapHomoglyphSwap": "a letter of another alphabet that looks the same",
    "WordSwapMaskedLM": "a word that a language model puts in the place of one",
    "WordSwapQWERTY": "a letter mistyped as one beside it on the keyboard",
    "WordSwapNeighboringCharacterSwap": "swaps two neighbouring letters of a word",
    "WordSwapRandomCharacterDeletion": "drops a letter of a word",
    "WordSwapRandomCharacterInsertion": "adds a letter to a word",
    "WordSwapRandomCharacterSubstitution": "another letter in a word",
    "RandomSwap": "swaps two words",
    "WordSwapWordNet": "a synonym in the place of a word",
}
TRANSFORMS = tuple(SUMMARIES)
_USUAL = Resources()


def transform(name: str, resources: Resources = _USUAL) -> Transform:
    """Return a transformation by its name; what it needs must be there.

    >>> transform("WordSwapContract")("This is not bad.", random.Random(0))
    "This isn't bad."
    """
    from mncover.augment.transforms.characters import EDITS, character_transform
    from mncover.augment.transforms.rewriting import REWRITINGS, rewriting_transform

    if name not in TRANSFORMS:
        raise SettingsError(f"there is no transformation {name!r}; {', '.join(TRANSFORMS)}.")
    if name in EDITS:
        return character_transform(name)
    if name in REWRITINGS:
        return rewriting_transform(name)
    return _with_resources(name, resources)


def _with_resources(name: str, resources: Resources) -> Transform:
    if name == "WordSwapMaskedLM":
        from mncover.augment.transforms.masked_lm import masked_lm_transform

        return masked_lm_transform(resources.masked_lm, resources.device)
    if name == "WordSwapEmbedding":
        from mncover.augment.transforms.neighbours import embedding_transform

        return embedding_transform(resources.vectors)
    from mncover.augment.transforms.synonyms import synonym_transform

    return synonym_transform(name, resources.wordnet)


def all_transforms(
    names: Sequence[str] | None = None, resources: Resources = _USUAL
) -> list[Transform]:
    """Return the named transformations, or all sixteen."""
    return [transform(name, resources) for name in (TRANSFORMS if names is None else names)]


def apply(change: Transform, text: Text, rng: random.Random) -> Text | None:
    """Return a text or a pair changed, or None where there is nothing to change.

    In a pair names, places and numbers change alike on both sides; anything else changes on one.

    >>> apply(transform("WordSwapExtend"), ("It isn't.", "Is it?"), random.Random(0))
    ('It is not.', 'Is it?')
    """
    changed = change(joined(text), rng)
    return None if changed is None else split_like(changed, text)


def apply_many(
    changes: Sequence[Transform], texts: Sequence[Text], rngs: Sequence[random.Random]
) -> list[Text | None]:
    """Return what `apply` would one by one, with the texts of one transformation together."""
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
