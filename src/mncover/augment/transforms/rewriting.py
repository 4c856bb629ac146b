"""Changes by rules and word lists: contractions, names, places, numbers, negation, word order.

Each takes a text and a random generator and returns the changed text, or None if there is nothing
to change. In a pair, names, places and numbers change alike on both sides.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby

from mncover.augment.transforms import words as w
from mncover.types import BETWEEN


def typos(text: str, rng: random.Random) -> str | None:
    """Swap two neighbouring letters anywhere in the text.

    >>> typos("film", random.Random(1))
    'iflm'
    """
    twos = [(i, text[i : i + 2]) for i in range(len(text) - 1)]
    twos = [(i, two) for i, two in twos if two.isalpha() and two[0] != two[1]]
    if not twos:
        return None
    i, two = rng.choice(twos)
    return text[:i] + two[::-1] + text[i + 2 :]


def punctuation(text: str, rng: random.Random) -> str | None:
    """Remove the final punctuation or, if there is none, add a full stop.

    >>> punctuation("Good film!", random.Random(0))
    'Good film'
    """

    def changed(side: str) -> str:
        bare = side.rstrip(string.whitespace + ".!?,;:")
        return (bare if bare != side.rstrip() else f"{bare}.") if bare else side

    return BETWEEN.join(map(changed, text.split(BETWEEN)))


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
    token = "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(6))
    extra = rng.choice([f"@{token}", f"https://t.co/{token}"])
    return f"{extra} {text}" if rng.random() < 0.5 else f"{text} {extra}"


_ALONE, _ENDED = r"(?<![\w'\u2019-])", r"(?![\w'\u2019-])"


@cache
def _long() -> dict[str, str]:
    return {short: long for long, short in w.pairs("contractions").items()}


def contractions(text: str, rng: random.Random) -> str | None:
    """Expand every contraction, or contract everything that can be.

    >>> contractions("It isn't bad.", random.Random(0))
    'It is not bad.'
    """
    plain = text.replace("\u2019", "'")
    options = [_looked_up(plain, forms) for forms in (_long(), w.pairs("contractions"))]
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
    return _one_changed(text, _forms()[0], w.pairs("contractions").__getitem__, rng)


def extend(text: str, rng: random.Random) -> str | None:
    """Expand one contraction.

    >>> extend("it does n't work", random.Random(0))
    'it does not work'
    """

    def long(found: str) -> str:
        return _long()[found.replace(" ", "").replace("\u2019", "'")]

    return _one_changed(text, _forms()[1], long, rng)


@cache
def _forms() -> tuple[str, str]:
    """Return patterns of what can be contracted, and of contractions, perhaps split in two.

    A word must follow "it is": one says "I know what it is", but not "what it's". Before "been" or
    "got", "it's" means "it has".
    """
    forms = w.pairs("contractions").items()
    negated = "|".join(long for long, short in forms if short.endswith("n't"))
    other = "|".join(long for long, short in forms if not short.endswith("n't"))
    long = rf"{_ALONE}(?:(?:{negated}){_ENDED}|(?:{other})(?= (?!n['\u2019]t)\w))"
    split = re.sub(r"(n't|'\w+)(?=\||$)", r" ?\1", "|".join(_long())).replace("'", "['\u2019]")
    return long, rf"{_ALONE}(?:{split}){_ENDED}(?! (?:been|got)\b)"


def _one_changed(
    text: str, form: str, other: Callable[[str], str], rng: random.Random, everywhere: bool = False
) -> str | None:
    """Replace one match of a form, perhaps wherever it occurs, with what `other` makes of it."""
    bare, pieces = w.hide_markup(text)
    pattern = re.compile(form, re.IGNORECASE)
    found = list(pattern.finditer(bare))
    if not found:
        return None
    chosen = rng.choice(found)
    old = chosen[0].lower()
    new = other(old)

    def put(match: re.Match[str]) -> str:
        same = match[0].lower() == old if everywhere else match.start() == chosen.start()
        return w.like(match[0], new) if same else match[0]

    return w.show_markup(pattern.sub(put, bare), pieces)


# A whole number that is not part of something longer.
_NUMBER = r"(?<![\w.,/@#-])[1-9][0-9]{0,8}(?![\w/]|[.,]\d)"


def numbers(text: str, rng: random.Random) -> str | None:
    """Change a whole number by up to a fifth, wherever it occurs; it never loses a digit."""

    def other(old: str) -> str:
        reach = max(1, int(old) // 5)
        low, high = max(10 ** (len(old) - 1), int(old) - reach), int(old) + reach
        drawn = [rng.randint(low, high) for _ in range(20)]
        return str(rng.choice([n for n in drawn if n != int(old)] or [high]))

    return _one_changed(text, _NUMBER, other, rng, everywhere=True)


def change_number(text: str, rng: random.Random) -> str | None:
    """Change a number, in digits or in words from two to twenty, wherever it occurs."""
    changed = (change(text, rng) for change in rng.sample([numbers, _number_words], 2))
    return next((new for new in changed if new is not None), None)


def _number_words(text: str, rng: random.Random) -> str | None:
    known = " ".join(w.table("number_words")).split()
    form = rf"{_ALONE}(?:{'|'.join(known)}){_ENDED}"

    def other(old: str) -> str:
        return rng.choice([word for word in known if word != old])

    return _one_changed(text, form, other, rng, everywhere=True)


def _relisted(text: str, rng: random.Random, lists: Sequence[str]) -> str | None:
    """Replace one of the listed words, wherever it occurs, with another word of its list.

    An "a" or "an" before it is adapted.
    """
    bare, pieces = w.hide_markup(text)
    found = sorted(
        (match.start(), match[0], name)
        for name in lists
        for match in re.finditer(rf"\b(?:{'|'.join(w.lexicon(name))})\b", bare)
    )
    if not found:
        return None
    _, old, name = rng.choice(found)
    others = [word for word in w.lexicon(name) if word not in bare]
    if not others:
        return None
    new = rng.choice(others)

    def put(match: re.Match[str]) -> str:
        if match[1] is None or match[1].lower() != w.article(old):
            return f"{match[1]} {new}" if match[1] else new
        return f"{match[1][0]}{w.article(new)[1:]} {new}"

    return w.show_markup(re.sub(rf"\b(?:(an?|An?) )?{old}\b", put, bare), pieces)


# Names of women and of men, cities and countries, each replaced with another one of their list.
names = partial(_relisted, lists=("female_name", "male_name"))
locations = partial(_relisted, lists=("city", "country"))


def swap_words(text: str, rng: random.Random) -> str | None:
    """Swap two different words of one side; the capital of a first word stays in front.

    >>> swap_words("Good film", random.Random(0))
    'Film good'
    """
    groups = groupby(w.words(text), key=lambda word: text.count(BETWEEN, 0, word.start))
    sides = [list(side) for _, side in groups]
    sides = [side for side in sides if len({word.text.lower() for word in side}) > 1]
    if not sides:
        return None
    side = rng.choice([side for side in sides for _ in side])
    one = rng.choice(side)
    two = rng.choice([word for word in side if word.text.lower() != one.text.lower()])
    one, two = sorted((one, two))
    first, second = _recased(text, one, two), _recased(text, two, one)
    return text[: one.start] + second + text[one.end : two.start] + first + text[two.end :]


def _recased(text: str, word: w.Word, other: w.Word) -> str:
    """Return a word as it is written in the other's position."""
    if w.starts_sentence(text, other) and other.text[0].isupper():
        return word.text[0].upper() + word.text[1:]
    movable = word.text[1:].islower() and word.text not in w.proper_names()
    if movable and w.starts_sentence(text, word) and not re.match(r"I['\u2019]", word.text):
        return word.text[0].lower() + word.text[1:]
    return word.text
