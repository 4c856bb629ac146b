"""Small changes to a text that a model should not mind, or should: the variants of a suite.

Each takes a text and a source of chance and returns a changed text, or None where there is
nothing to change. Equal seeds give equal variants. In a pair, names, places and numbers change
alike on both sides. No torch here.

Transformations by tables: contractions, names, places, numbers, and two words swapped.
"""

from __future__ import annotations

import random
import re
import string
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise

from mncover.augment.transforms import TRANSFORMS, transform
from mncover.augment.transforms.kinds import Change, TextTransform
from mncover.augment.transforms.words import (
    Word,
    article,
    hide_markup,
    lexicon,
    like,
    proper_names,
    show_markup,
    starts_sentence,
    words,
)
from mncover.errors import SettingsError
from mncover.types import BETWEEN, Text, joined, split_like

Perturb = Callable[[str, random.Random], str | None]


def typos(text: str, rng: random.Random) -> str | None:
    """Swap two neighbouring characters of a word.

    >>> typos("film", random.Random(1))
    'iflm'
    """
    places = [
        i for i, (a, b) in enumerate(pairwise(text)) if a.isalpha() and b.isalpha() and a != b
    ]
    if not places:
        return None
    i = rng.choice(places)
    return text[:i] + text[i + 1] + text[i] + text[i + 2 :]


SHORT = {
    "is not": "isn't",
    "are not": "aren't",
    "was not": "wasn't",
    "were not": "weren't",
    "do not": "don't",
    "does not": "doesn't",
    "did not": "didn't",
    "have not": "haven't",
    "has not": "hasn't",
    "had not": "hadn't",
    "cannot": "can't",
    "could not": "couldn't",
    "should not": "shouldn't",
    "would not": "wouldn't",
    "will not": "won't",
    "must not": "mustn't",
    "need not": "needn't",
    "i am": "i'm",
    "i have": "i've",
    "you have": "you've",
    "we have": "we've",
    "they have": "they've",
    "i will": "i'll",
    "you will": "you'll",
    "he will": "he'll",
    "she will": "she'll",
    "it will": "it'll",
    "we will": "we'll",
    "they will": "they'll",
    "you are": "you're",
    "we are": "we're",
    "they are": "they're",
    "it is": "it's",
    "that is": "that's",
    "there is": "there's",
    "what is": "what's",
    "who is": "who's",
    "where is": "where's",
    "he is": "he's",
    "she is": "she's",
}
LONG = {short: long for long, short in SHORT.items()}


def contractions(text: str, rng: random.Random) -> str | None:
    """Write out every contraction, or contract what is written out.

    >>> contractions("It isn't bad.", random.Random(0))
    'It is not bad.'
    """
    plain = text.replace("\u2019", "'")
    options = [_swapped(plain, table) for table in (LONG, SHORT)]
    changed = [found for found in options if found != plain]
    return rng.choice(changed) if changed else None


def _swapped(text: str, table: dict[str, str]) -> str:
    words = "|".join(re.escape(word) for word in sorted(table, key=len, reverse=True))

    def swap(match: re.Match[str]) -> str:
        found = table[match[0].lower()]
        return found[0].upper() + found[1:] if match[0][0].isupper() else found

    return re.sub(rf"\b(?:{words})\b", swap, text, flags=re.IGNORECASE)


def punctuation(text: str, rng: random.Random) -> str | None:
    """Take away the punctuation at the end, or put a full stop there.

    >>> punctuation("Good film!", random.Random(0))
    'Good film'
    """
    changed = BETWEEN.join(_ending_changed(part) for part in text.split(BETWEEN))
    return changed if changed != text else None


def _ending_changed(text: str) -> str:
    bare = text.rstrip(string.whitespace + ".!?,;:")
    if not bare:
        return text
    return bare if bare != text.rstrip() else f"{bare}."


def names(text: str, rng: random.Random) -> str | None:
    """Put another first name in the place of one, of the same list of women's or men's names."""
    return _replaced(text, ("female_name", "male_name"), rng)


def locations(text: str, rng: random.Random) -> str | None:
    """Put another city in the place of a city, or another country in that of a country."""
    return _replaced(text, ("city", "country"), rng)


def _replaced(text: str, lists: Sequence[str], rng: random.Random) -> str | None:
    """Replace one of the words that occur, everywhere, by another word of its list."""
    bare, pieces = hide_markup(text)
    found = sorted(
        (match.start(), match[0], name)
        for name in lists
        for match in re.finditer(rf"\b(?:{'|'.join(lexicon(name))})\b", bare)
    )
    if not found:
        return None
    _, old, name = rng.choice(found)
    others = [word for word in lexicon(name) if word not in bare]
    return show_markup(_everywhere(bare, old, rng.choice(others)), pieces) if others else None


def _everywhere(text: str, old: str, new: str) -> str:
    """Replace a name wherever it occurs; an "a" or "an" before it follows."""

    def put(match: re.Match[str]) -> str:
        if match[1] is None or match[1].lower() != article(old):
            return f"{match[1]} {new}" if match[1] else new
        return f"{match[1][0]}{article(new)[1:]} {new}"

    return re.sub(rf"\b(?:(an?|An?) )?{old}\b", put, text)


# A whole number that is no part of something longer.
_NUMBER = r"(?<![\w.,/@#-])[1-9][0-9]{0,8}(?![\w/]|[.,]\d)"


def numbers(text: str, rng: random.Random) -> str | None:
    """Change a whole number by up to a fifth, wherever it occurs; years stay four digits long."""
    bare, pieces = hide_markup(text)
    found = re.findall(_NUMBER, bare)
    if not found:
        return None
    old = rng.choice(found)
    reach = max(1, int(old) // 5)
    low, high = max(10 ** (len(old) - 1), int(old) - reach), int(old) + reach
    new = str(rng.choice([n for n in _between(low, high, rng) if n != int(old)] or [high]))
    changed = re.sub(_NUMBER, lambda match: new if match[0] == old else match[0], bare)
    return show_markup(changed, pieces)


def _between(low: int, high: int, rng: random.Random) -> list[int]:
    return [rng.randint(low, high) for _ in range(20)]


def negation(text: str, rng: random.Random) -> str | None:
    """Negate the first verb that can be, or take its negation away: the meaning turns round.

    >>> negation("The film was good.", random.Random(0))
    'The film was not good.'
    """
    match = re.search(rf"\b({_VERBS})(n't| not)?\b", text, flags=re.IGNORECASE)
    if match is None:
        return None
    verb = {"ca": "can", "wo": "will"}.get(match[1].lower(), match[1])
    return text[: match.start()] + (verb if match[2] else f"{verb} not") + text[match.end() :]


_VERBS = (
    "ca(?=n't)|wo(?=n't)|is|are|was|were|am|does|do|did|has|have|had|can|could|will|would|should"
)


def urls_and_handles(text: str, rng: random.Random) -> str | None:
    """Put a made-up address or user name before or behind the text."""
    letters = string.ascii_letters + string.digits
    token = "".join(rng.choice(letters) for _ in range(6))
    extra = rng.choice([f"@{token}", f"https://t.co/{token}"])
    return f"{extra} {text}" if rng.random() < 0.5 else f"{text} {extra}"


PERTURBATIONS: dict[str, Perturb] = {
    "typos": typos,
    "contractions": contractions,
    "punctuation": punctuation,
    "names": names,
    "locations": locations,
    "numbers": numbers,
    "negation": negation,
    "urls_and_handles": urls_and_handles,
}


def perturbation(name: str) -> Perturb:
    """Return a perturbation, or one of the transformations, by its name."""
    if name == "WordSwapMaskedLM":
        raise SettingsError(
            f"{name} cannot be used in a recipe: it needs a masked language model, and a recipe "
            "names none."
        )
    if name in TRANSFORMS:
        return transform(name)
    if name not in PERTURBATIONS:
        known = ", ".join([*PERTURBATIONS, *TRANSFORMS])
        raise SettingsError(f"there is no perturbation {name!r}; {known}.")
    return PERTURBATIONS[name]


def variants_of(
    text: Text, perturbs: Sequence[Perturb], n: int, rng: random.Random
) -> tuple[Text, ...]:
    """Return up to n different variants, each made by all perturbations one after the other.

    A perturbation that finds nothing to change is passed over; nothing changed is no variant.
    """
    whole = joined(text)
    found: dict[str, None] = {}
    for _ in range(5 * n):  # some draws repeat
        changed = whole
        for perturb in perturbs:
            changed = perturb(changed, rng) or changed
        if changed != whole:
            found.setdefault(changed)
        if len(found) == n:
            break
    return tuple(split_like(changed, text) for changed in found)


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
