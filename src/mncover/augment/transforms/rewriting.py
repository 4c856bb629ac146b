"""Changes by rules and word lists: contractions, names, places, numbers, negation, word order.

Each takes a text and a random generator and returns the changed text, or None if there is nothing
to change. In a pair, names, places and numbers change alike on both sides.
"""

from __future__ import annotations

import random
import re
import string
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise

from mncover.augment.transforms.words import (
    Word,
    article,
    hide_markup,
    lexicon,
    like,
    pairs,
    proper_names,
    show_markup,
    starts_sentence,
    table,
    words,
)
from mncover.types import BETWEEN


def typos(text: str, rng: random.Random) -> str | None:
    """Swap two neighbouring letters anywhere in the text.

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


def punctuation(text: str, rng: random.Random) -> str | None:
    """Remove the final punctuation or, if there is none, add a full stop.

    >>> punctuation("Good film!", random.Random(0))
    'Good film'
    """
    return BETWEEN.join(_ending_changed(part) for part in text.split(BETWEEN))


def _ending_changed(text: str) -> str:
    bare = text.rstrip(string.whitespace + ".!?,;:")
    if not bare:
        return text
    return bare if bare != text.rstrip() else f"{bare}."


_VERBS = (
    "ca(?=n't)|wo(?=n't)|is|are|was|were|am|does|do|did|has|have|had|can|could|will|would|should"
)


def negation(text: str, rng: random.Random) -> str | None:
    """Negate the first verb that can be negated, or remove its negation.

    >>> negation("The film was good.", random.Random(0))
    'The film was not good.'
    """
    match = re.search(rf"\b({_VERBS})(n't| not)?\b", text, flags=re.IGNORECASE)
    if match is None:
        return None
    verb = {"ca": "can", "wo": "will"}.get(match[1].lower(), match[1])
    return text[: match.start()] + (verb if match[2] else f"{verb} not") + text[match.end() :]


def urls_and_handles(text: str, rng: random.Random) -> str | None:
    """Add a made-up address or user name before or after the text."""
    letters = string.ascii_letters + string.digits
    token = "".join(rng.choice(letters) for _ in range(6))
    extra = rng.choice([f"@{token}", f"https://t.co/{token}"])
    return f"{extra} {text}" if rng.random() < 0.5 else f"{text} {extra}"


_ALONE, _ENDED = r"(?<![\w'\u2019-])", r"(?![\w'\u2019-])"


@cache
def _long() -> dict[str, str]:
    return {short: long for long, short in pairs("contractions").items()}


def contractions(text: str, rng: random.Random) -> str | None:
    """Expand every contraction, or contract everything that can be.

    >>> contractions("It isn't bad.", random.Random(0))
    'It is not bad.'
    """
    plain = text.replace("\u2019", "'")
    options = [_looked_up(plain, forms) for forms in (_long(), pairs("contractions"))]
    changed = [found for found in options if found != plain]
    return rng.choice(changed) if changed else None


def _looked_up(text: str, forms: Mapping[str, str]) -> str:
    either = "|".join(re.escape(form) for form in sorted(forms, key=len, reverse=True))

    def swap(match: re.Match[str]) -> str:
        found = forms[match[0].lower()]
        return found[0].upper() + found[1:] if match[0][0].isupper() else found

    return re.sub(rf"\b(?:{either})\b", swap, text, flags=re.IGNORECASE)


def contract(text: str, rng: random.Random) -> str | None:
    """Contract one form.

    >>> contract("It was not bad.", random.Random(0))
    "It wasn't bad."
    """
    short = pairs("contractions")
    return _one_changed(text, _written_out(), lambda form: like(form, short[form.lower()]), rng)


@cache
def _written_out() -> re.Pattern[str]:
    """Return a pattern of the forms that can be contracted.

    A word must follow "it is": one says "I know what it is", but not "what it's".
    """
    forms = pairs("contractions").items()
    negated = "|".join(long for long, short in forms if short.endswith("n't"))
    other = "|".join(long for long, short in forms if not short.endswith("n't"))
    either = rf"(?:{negated}){_ENDED}|(?:{other})(?= (?!n['\u2019]t)\w)"
    return re.compile(rf"{_ALONE}(?:{either})", re.IGNORECASE)


def extend(text: str, rng: random.Random) -> str | None:
    """Expand one contraction.

    >>> extend("it does n't work", random.Random(0))
    'it does not work'
    """

    def long(found: str) -> str:
        plain = found.replace(" ", "").replace("\u2019", "'")
        return like(plain, _long()[plain.lower()])

    return _one_changed(text, _contracted(), long, rng)


@cache
def _contracted() -> re.Pattern[str]:
    """Return a pattern of the contractions, including those that a tokeniser has split in two.

    Before "been" or "got", "it's" means "it has".
    """
    forms = (re.sub(r"(n't|'\w+)$", r" ?\1", short) for short in _long())
    either = "|".join(forms).replace("'", "['\u2019]")
    return re.compile(rf"{_ALONE}(?:{either}){_ENDED}(?! (?:been|got)\b)", re.IGNORECASE)


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


def names(text: str, rng: random.Random) -> str | None:
    """Replace a first name with another one from the same list of women's or men's names."""
    return _relisted(text, ("female_name", "male_name"), rng)


def locations(text: str, rng: random.Random) -> str | None:
    """Replace a city with another city, or a country with another country."""
    return _relisted(text, ("city", "country"), rng)


def _relisted(text: str, lists: Sequence[str], rng: random.Random) -> str | None:
    """Replace one of the listed words, wherever it occurs, with another word of its list."""
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
    """Replace a name wherever it occurs; an "a" or "an" before it is adapted."""

    def put(match: re.Match[str]) -> str:
        if match[1] is None or match[1].lower() != article(old):
            return f"{match[1]} {new}" if match[1] else new
        return f"{match[1][0]}{article(new)[1:]} {new}"

    return re.sub(rf"\b(?:(an?|An?) )?{old}\b", put, text)


# A whole number that is not part of something longer.
_NUMBER = re.compile(r"(?<![\w.,/@#-])[1-9][0-9]{0,8}(?![\w/]|[.,]\d)")


def numbers(text: str, rng: random.Random) -> str | None:
    """Change a whole number by up to a fifth, wherever it occurs; it never loses a digit."""

    def other(old: str) -> str:
        reach = max(1, int(old) // 5)
        low, high = max(10 ** (len(old) - 1), int(old) - reach), int(old) + reach
        drawn = [rng.randint(low, high) for _ in range(20)]
        return str(rng.choice([n for n in drawn if n != int(old)] or [high]))

    return _all_of_one_changed(text, _NUMBER, other, rng)


def change_number(text: str, rng: random.Random) -> str | None:
    """Change a number, in digits or in words from two to twenty, wherever it occurs."""
    for change in rng.sample([numbers, _number_words], 2):
        changed = change(text, rng)
        if changed is not None:
            return changed
    return None


def _number_words(text: str, rng: random.Random) -> str | None:
    known = " ".join(table("number_words")).split()
    pattern = re.compile(rf"{_ALONE}(?:{'|'.join(known)}){_ENDED}", re.IGNORECASE)

    def other(old: str) -> str:
        return rng.choice([word for word in known if word != old])

    return _all_of_one_changed(text, pattern, other, rng)


def _all_of_one_changed(
    text: str, pattern: re.Pattern[str], other: Callable[[str], str], rng: random.Random
) -> str | None:
    """Choose one of the matches, and replace it wherever it occurs."""
    bare, pieces = hide_markup(text)
    found = [match[0].lower() for match in pattern.finditer(bare)]
    if not found:
        return None
    old = rng.choice(found)
    new = other(old)

    def put(match: re.Match[str]) -> str:
        return like(match[0], new) if match[0].lower() == old else match[0]

    return show_markup(pattern.sub(put, bare), pieces)


def swap_words(text: str, rng: random.Random) -> str | None:
    """Swap two different words of one side; the capital of a first word stays in front.

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
    """Yield the words of each side of a pair, or of a single text."""
    ends = [match.start() for match in re.finditer(BETWEEN, text)]
    for _, side in groupby(words(text), key=lambda word: bisect(ends, word.start)):
        yield list(side)


def _recased(text: str, word: Word, other: Word) -> str:
    """Return a word as it is written in the other's position."""
    if starts_sentence(text, other) and other.text[0].isupper():
        return word.text[0].upper() + word.text[1:]
    movable = word.text[1:].islower() and word.text not in proper_names()
    if movable and starts_sentence(text, word) and not re.match(r"I['\u2019]", word.text):
        return word.text[0].lower() + word.text[1:]
    return word.text
