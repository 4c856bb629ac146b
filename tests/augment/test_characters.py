"""Mistyped words: one edit, inside one word."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given

from mncover.augment.transforms import transform
from mncover.augment.transforms.words import pairs
from tests.augment.material import PLAIN, SEEDS, changed_places

CHARACTER = [
    "WordSwapHomoglyphSwap",
    "WordSwapQWERTY",
    "WordSwapNeighboringCharacterSwap",
    "WordSwapRandomCharacterDeletion",
    "WordSwapRandomCharacterInsertion",
    "WordSwapRandomCharacterSubstitution",
]


def is_deletion(old: str, new: str) -> bool:
    return new in {old[:i] + old[i + 1 :] for i in range(1, len(old) - 1)}


def is_insertion(old: str, new: str) -> bool:
    return any(new[:i] + new[i + 1 :] == old for i in range(1, len(new) - 1))


def is_swap(old: str, new: str) -> bool:
    return new in {old[:i] + old[i + 1] + old[i] + old[i + 2 :] for i in range(1, len(old) - 1)}


def one_exchanged(old: str, new: str) -> tuple[str, str]:
    """Return the only characters in which two words differ, which stand inside."""
    (place,) = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
    assert 0 < place < len(old) - 1
    return old[place], new[place]


def is_substitution(old: str, new: str) -> bool:
    a, b = one_exchanged(old, new)
    return a.isupper() == b.isupper() and b.isalpha() and b.isascii()


def is_mistyped(old: str, new: str) -> bool:
    a, b = one_exchanged(old, new)
    return b.lower() in pairs("keyboard")[a.lower()] and a.isupper() == b.isupper()


def is_look_alike(old: str, new: str) -> bool:
    a, b = one_exchanged(old, new)
    return pairs("homoglyphs")[a] == b and not b.isascii()


KINDS: dict[str, Callable[[str, str], bool]] = dict(
    zip(
        CHARACTER,
        [is_look_alike, is_mistyped, is_swap, is_deletion, is_insertion, is_substitution],
        strict=True,
    )
)


@pytest.mark.parametrize("name", CHARACTER)
@given(words=PLAIN, seed=SEEDS)
def test_characters_change_in_one_word_by_one_edit(name: str, words: list[str], seed: int) -> None:
    shortest = 3 if name == "WordSwapNeighboringCharacterSwap" else 4
    text = " ".join(words)
    changed = transform(name)(text, random.Random(seed))
    assert (changed is None) == all(len(word.replace("-", "")) < shortest for word in words)
    if changed is not None:
        (place,) = changed_places(text, changed)
        assert KINDS[name](words[place], changed.split(" ")[place])


def test_keys_and_look_alikes_are_mutual_and_one_to_one() -> None:
    keyboard, homoglyphs = pairs("keyboard"), pairs("homoglyphs")
    assert all(key in keyboard[beside] for key, keys in keyboard.items() for beside in keys)
    assert len(set(homoglyphs.values())) == len(homoglyphs)
    assert all(a.isascii() and not b.isascii() and b.isalpha() for a, b in homoglyphs.items())
