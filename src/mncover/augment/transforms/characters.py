"""Six ways to mistype one word, by changing one character inside it.

The first and the last character stay where the word is long enough.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from mncover.augment.transforms.words import letters, pairs, words

Edit = Callable[[str, random.Random], "str | None"]

# How many words are tried before a text counts as having nothing to change.
TRIES = 500


def _in_one_word(edit: Edit, shortest: int = 4) -> Edit:
    """Return a change of texts that edits one word of at least `shortest` letters."""

    def change(text: str, rng: random.Random) -> str | None:
        long = [word for word in words(text) if len(letters(word.text)) >= shortest]
        for word in rng.sample(long, min(len(long), TRIES)):
            edited = edit(word.text, rng)
            if edited is not None:
                return text[: word.start] + edited + text[word.end :]
        return None

    return change


def _replacing(fits: Callable[[str], bool], other: Callable[[str, random.Random], str]) -> Edit:
    """Return an edit that replaces an inner letter that fits, keeping its case."""

    def edit(word: str, rng: random.Random) -> str | None:
        places = [i for i in range(1, len(word) - 1) if fits(word[i])]
        if not places:
            return None
        i = rng.choice(places)
        new = other(word[i], rng)
        return word[:i] + (new.upper() if word[i].isupper() else new) + word[i + 1 :]

    return edit


def _swapped(word: str, rng: random.Random) -> str | None:
    """Swap two neighbouring letters, the last one only if no others differ."""
    places = [i for i in range(1, len(word) - 1) if _may_swap(word[i], word[i + 1])]
    inner = [i for i in places if i < len(word) - 2] or places
    if not inner:
        return None
    i = rng.choice(inner)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def _may_swap(a: str, b: str) -> bool:
    return a != b and a.isalpha() and b.isalpha()


def _inserted(word: str, rng: random.Random) -> str | None:
    """Insert a letter between two others."""
    places = [i for i in range(1, len(word)) if _latin(word[i - 1]) and _latin(word[i])]
    if not places:
        return None
    i = rng.choice(places)
    new = rng.choice(string.ascii_lowercase)
    return word[:i] + (new.upper() if word.isupper() else new) + word[i:]


def _latin(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _any_other(letter: str, rng: random.Random) -> str:
    return rng.choice(string.ascii_lowercase.replace(letter.lower(), ""))


def _beside(letter: str, rng: random.Random) -> str:
    return rng.choice(pairs("keyboard")[letter.lower()])


swap = _in_one_word(_swapped, shortest=3)
insert = _in_one_word(_inserted)
delete = _in_one_word(_replacing(str.isalpha, lambda letter, rng: ""))
substitute = _in_one_word(_replacing(_latin, _any_other))
mistype = _in_one_word(_replacing(lambda c: c.lower() in pairs("keyboard"), _beside))
look_alike = _in_one_word(
    _replacing(lambda c: c in pairs("homoglyphs"), lambda c, rng: pairs("homoglyphs")[c])
)
