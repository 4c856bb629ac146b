"""Six ways to mistype one word: a character swapped, dropped, added, hit beside, or looking alike.

Each changes one character inside a word, so that its first and last stay, where the word is long
enough.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable

from mncover.augment.transforms.kinds import TextTransform
from mncover.augment.transforms.words import Word, letters, words

Edit = Callable[[str, random.Random], "str | None"]

# How many words are looked at before a text counts as one without anything to change.
TRIES = 500
_SHORTEST = 4

# The keys beside each letter on an American keyboard.
KEYS = {
    **{"q": "wa", "w": "qeas", "e": "wrsd", "r": "etdf", "t": "ryfg", "y": "tugh", "u": "yihj"},
    **{"i": "uojk", "o": "ipkl", "p": "ol", "a": "qwsz", "s": "awedxz", "d": "serfcx"},
    **{"f": "drtgvc", "g": "ftyhbv", "h": "gyujnb", "j": "huikmn", "k": "jiolm", "l": "kop"},
    **{"z": "asx", "x": "zsdc", "c": "xdfv", "v": "cfgb", "b": "vghn", "n": "bhjm", "m": "njk"},
}
# A Cyrillic, Greek or Armenian letter that looks like each Latin one.
HOMOGLYPHS = {
    **{"a": "\u0430", "c": "\u0441", "d": "\u0501", "e": "\u0435", "h": "\u04bb"},
    **{"i": "\u0456", "j": "\u0458", "k": "\u03ba", "l": "\u04cf", "n": "\u0578", "o": "\u043e"},
    **{"p": "\u0440", "q": "\u051b", "s": "\u0455", "u": "\u057d", "v": "\u03bd", "w": "\u051d"},
    **{"x": "\u0445", "y": "\u0443", "A": "\u0410", "B": "\u0412", "C": "\u0421", "E": "\u0415"},
    **{"G": "\u050c", "H": "\u041d", "I": "\u0406", "J": "\u0408", "K": "\u041a", "M": "\u041c"},
    **{"N": "\u039d", "O": "\u041e", "P": "\u0420", "Q": "\u051a", "S": "\u0405", "T": "\u0422"},
    **{"V": "\u0474", "W": "\u051c", "X": "\u0425", "Y": "\u04ae", "Z": "\u0396"},
}


def swap_neighbours(word: str, rng: random.Random) -> str | None:
    """Swap two neighbouring characters; the first stays, and the last if any others differ.

    >>> swap_neighbours("film", random.Random(0))
    'flim'
    """
    pairs = [i for i in range(1, len(word) - 1) if _may_swap(word[i], word[i + 1])]
    inner = [i for i in pairs if i < len(word) - 2] or pairs
    if not inner:
        return None
    i = rng.choice(inner)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def _may_swap(a: str, b: str) -> bool:
    return a != b and a.isalpha() and b.isalpha()


def delete(word: str, rng: random.Random) -> str | None:
    """Drop a character.

    >>> delete("film", random.Random(0))
    'fim'
    """
    places = [i for i in _inner(word) if word[i].isalpha()]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + word[i + 1 :]


def insert(word: str, rng: random.Random) -> str | None:
    """Put a letter between two.

    >>> insert("film", random.Random(0))
    'fiylm'
    """
    places = [i for i in range(1, len(word)) if _latin(word[i - 1]) and _latin(word[i])]
    if not places:
        return None
    i = rng.choice(places)
    new = rng.choice(string.ascii_lowercase)
    return word[:i] + (new.upper() if word.isupper() else new) + word[i:]


def substitute(word: str, rng: random.Random) -> str | None:
    """Put another letter in the place of one.

    >>> substitute("film", random.Random(0))
    'fizm'
    """
    return _exchanged(word, _latin, lambda c: string.ascii_lowercase.replace(c, ""), rng)


def mistype(word: str, rng: random.Random) -> str | None:
    """Hit a key beside the right one.

    >>> mistype("film", random.Random(0))
    'fiom'
    """
    return _exchanged(word, lambda c: c.lower() in KEYS, KEYS.__getitem__, rng)


def look_alike(word: str, rng: random.Random) -> str | None:
    """Put a letter of another alphabet that looks the same in the place of one."""
    places = [i for i in _inner(word) if word[i] in HOMOGLYPHS]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + HOMOGLYPHS[word[i]] + word[i + 1 :]


def _exchanged(
    word: str, fits: Callable[[str], bool], options: Callable[[str], str], rng: random.Random
) -> str | None:
    """Put another letter, in its case, in the place of an inner one that fits."""
    places = [i for i in _inner(word) if fits(word[i])]
    if not places:
        return None
    i = rng.choice(places)
    new = rng.choice(options(word[i].lower()))
    return word[:i] + (new.upper() if word[i].isupper() else new) + word[i + 1 :]


def _inner(word: str) -> range:
    return range(1, len(word) - 1)


def _latin(character: str) -> bool:
    return character.isascii() and character.isalpha()


EDITS: dict[str, tuple[Edit, int]] = {
    "WordSwapHomoglyphSwap": (look_alike, _SHORTEST),
    "WordSwapQWERTY": (mistype, _SHORTEST),
    "WordSwapNeighboringCharacterSwap": (swap_neighbours, 3),
    "WordSwapRandomCharacterDeletion": (delete, _SHORTEST),
    "WordSwapRandomCharacterInsertion": (insert, _SHORTEST),
    "WordSwapRandomCharacterSubstitution": (substitute, _SHORTEST),
}


def character_transform(name: str) -> TextTransform:
    """Return one of the six by its name."""
    edit, shortest = EDITS[name]

    def change(text: str, rng: random.Random) -> str | None:
        long = [word for word in words(text) if len(letters(word.text)) >= shortest]
        for word in rng.sample(long, min(len(long), TRIES)):
            edited = edit(word.text, rng)
            if edited is not None:
                return _put(text, word, edited)
        return None

    return TextTransform(name, change)


def _put(text: str, word: Word, edited: str) -> str:
    return text[: word.start] + edited + text[word.end :]
