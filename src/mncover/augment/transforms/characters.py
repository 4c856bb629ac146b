"""Six ways to mistype one word, by changing one character inside it.

The first and the last character stay where the word is long enough.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from string import ascii_lowercase, ascii_uppercase

from mncover.augment.transforms.words import letters, pairs, words

# How many words are tried before a text counts as having nothing to change.
TRIES = 500

Change = Callable[[str, random.Random], "str | None"]
New = Callable[[str, int, random.Random], str]


def _in_one_word(
    fits: Callable[[str, int], bool], new: New, n: int = 1, shortest: int = 4
) -> Change:
    """Return a change of n characters in one word of at least `shortest` letters.

    Given a word and a place in it, `fits` says whether to change it there, and `new` into what.
    """

    def change(text: str, rng: random.Random) -> str | None:
        long = [word for word in words(text) if len(letters(word.text)) >= shortest]
        for start, end, word in rng.sample(long, min(len(long), TRIES)):
            last = len(word) - n
            places = [i for i in range(1, last) if fits(word, i)]
            if n == 2 and not places and fits(word, last):  # swap the last one if no others differ
                places = [last]
            if places:
                i = rng.choice(places)
                return text[:start] + word[:i] + new(word, i, rng) + word[i + n :] + text[end:]
        return None

    return change


def _replacing(fits: Callable[[str], bool], other: Callable[[str, random.Random], str]) -> Change:
    """Return a change of an inner letter that fits into another one, in its case."""

    def new(word: str, i: int, rng: random.Random) -> str:
        found = other(word[i], rng)
        return found.upper() if word[i].isupper() else found

    return _in_one_word(lambda word, i: fits(word[i]), new)


def _latin(text: str) -> bool:
    return text.isascii() and text.isalpha()


def _any_other(letter: str, rng: random.Random) -> str:
    return rng.choice(ascii_lowercase.replace(letter.lower(), ""))


def _beside(letter: str, rng: random.Random) -> str:
    return rng.choice(pairs("keyboard")[letter.lower()])


swap = _in_one_word(
    lambda word, i: word[i] != word[i + 1] and word[i : i + 2].isalpha(),
    lambda word, i, rng: word[i + 1] + word[i],
    n=2,
    shortest=3,
)
insert = _in_one_word(
    lambda word, i: _latin(word[i - 1 : i + 1]),
    lambda word, i, rng: rng.choice(ascii_uppercase if word.isupper() else ascii_lowercase),
    n=0,
)
delete = _replacing(str.isalpha, lambda letter, rng: "")
substitute = _replacing(_latin, _any_other)
mistype = _replacing(lambda letter: letter.lower() in pairs("keyboard"), _beside)
look_alike = _replacing(
    lambda letter: letter in pairs("homoglyphs"), lambda letter, rng: pairs("homoglyphs")[letter]
)
