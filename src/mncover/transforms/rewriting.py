"""Transformations by tables: contractions, names, places, numbers, and two words swapped."""

from __future__ import annotations

import random
import re
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import groupby

from mncover.suites.perturbations import LONG, SHORT, locations, names, numbers
from mncover.texts import BETWEEN
from mncover.transforms.kinds import Change, TextTransform
from mncover.transforms.words import (
    Word,
    hide_markup,
    like,
    proper_names,
    show_markup,
    starts_sentence,
    words,
)

_ALONE, _ENDED = r"(?<![\w'\u2019-])", r"(?![\w'\u2019-])"
_NUMBER_WORDS = (
    *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)


def _written_out() -> str:
    """Return a pattern of the forms that can be contracted.

    "it is" must go on with a word: one can say "I know what it is", but not "what it's".
    """
    negated = "|".join(long for long, short in SHORT.items() if short.endswith("n't"))
    other = "|".join(long for long, short in SHORT.items() if not short.endswith("n't"))
    return rf"{_ALONE}(?:(?:{negated}){_ENDED}|(?:{other})(?= (?!n['\u2019]t)\w))"


def _contracted() -> str:
    """Return a pattern of the contractions, also split in two as tokenised texts have them.

    Before "been" or "got", "it's" is "it has".
    """
    forms = (re.sub(r"(n't|'\w+)$", r" ?\1", short) for short in LONG)
    either = "|".join(forms).replace("'", "['\u2019]")
    return rf"{_ALONE}(?:{either}){_ENDED}(?! (?:been|got)\b)"


_WRITTEN_OUT = re.compile(_written_out(), re.IGNORECASE)
_CONTRACTED = re.compile(_contracted(), re.IGNORECASE)
_COUNTED = re.compile(rf"{_ALONE}(?:{'|'.join(_NUMBER_WORDS)}){_ENDED}", re.IGNORECASE)


def contract(text: str, rng: random.Random) -> str | None:
    """Contract one form that is written out.

    >>> contract("It was not bad.", random.Random(0))
    "It wasn't bad."
    """

    def short(found: str) -> str:
        return like(found, SHORT[found.lower()])

    return _one_changed(text, _WRITTEN_OUT, short, rng)


def extend(text: str, rng: random.Random) -> str | None:
    """Write out one contraction.

    >>> extend("it does n't work", random.Random(0))
    'it does not work'
    """

    def long(found: str) -> str:
        plain = found.replace(" ", "").replace("\u2019", "'")
        return like(plain, LONG[plain.lower()])

    return _one_changed(text, _CONTRACTED, long, rng)


def _one_changed(
    text: str, pattern: re.Pattern[str], change: Callable[[str], str], rng: random.Random
) -> str | None:
    bare, pieces = hide_markup(text)
    found = list(pattern.finditer(bare))
    if not found:
        return None
    match = rng.choice(found)
    changed = bare[: match.start()] + change(match[0]) + bare[match.end() :]
    return show_markup(changed, pieces)


def change_number(text: str, rng: random.Random) -> str | None:
    """Change a number, in digits or from two to twenty in words, wherever it occurs."""
    for change in rng.sample([numbers, _number_words], 2):
        changed = change(text, rng)
        if changed is not None:
            return changed
    return None


def _number_words(text: str, rng: random.Random) -> str | None:
    bare, pieces = hide_markup(text)
    found = [match[0].lower() for match in _COUNTED.finditer(bare)]
    if not found:
        return None
    old = rng.choice(found)
    new = rng.choice([word for word in _NUMBER_WORDS if word != old])

    def put(match: re.Match[str]) -> str:
        return like(match[0], new) if match[0].lower() == old else match[0]

    return show_markup(_COUNTED.sub(put, bare), pieces)


def swap_words(text: str, rng: random.Random) -> str | None:
    """Swap two different words of one side; a capital that begins a sentence stays where it is.

    >>> swap_words("Good film", random.Random(0))
    'Film good'
    """
    sides = [side for side in _sides(text) if len({word.text.lower() for word in side}) > 1]
    if not sides:
        return None
    side = rng.choice([side for side in sides for _ in side])
    one = rng.choice(side)
    two = rng.choice([word for word in side if word.text.lower() != one.text.lower()])
    one, two = sorted((one, two))
    first, second = _recased(text, one, two), _recased(text, two, one)
    return text[: one.start] + second + text[one.end : two.start] + first + text[two.end :]


def _sides(text: str) -> Iterator[list[Word]]:
    """Yield the words of each side of a pair; a text that is no pair is one side."""
    ends = [match.start() for match in re.finditer(BETWEEN, text)]
    for _, side in groupby(words(text), key=lambda word: bisect(ends, word.start)):
        yield list(side)


def _recased(text: str, word: Word, other: Word) -> str:
    """Return a word as it is to be written in the other's place."""
    if starts_sentence(text, other) and other.text[0].isupper():
        return word.text[0].upper() + word.text[1:]
    movable = word.text[1:].islower() and word.text not in proper_names()
    if movable and starts_sentence(text, word) and not re.match(r"I['\u2019]", word.text):
        return word.text[0].lower() + word.text[1:]
    return word.text


REWRITINGS: dict[str, Change] = {
    "WordSwapChangeLocation": locations,
    "WordSwapChangeName": names,
    "WordSwapChangeNumber": change_number,
    "WordSwapContract": contract,
    "WordSwapExtend": extend,
    "RandomSwap": swap_words,
}


def rewriting_transform(name: str) -> TextTransform:
    """Return one of the six by its name."""
    return TextTransform(name, REWRITINGS[name])
