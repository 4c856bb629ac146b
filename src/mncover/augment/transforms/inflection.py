"""Regular English endings: take them off a word, and put them on another."""

from __future__ import annotations

import re
from collections.abc import Sequence

ENDINGS = ("s", "ed", "ing")


def inflect(base: str, ending: str, irregular: Sequence[str] = ()) -> str | None:
    """Return a word with an ending, or None where the language has another form.

    `irregular` are the forms of this word that an exception list has.

    >>> inflect("story", "s"), inflect("love", "ed"), inflect("stop", "ing")
    ('stories', 'loved', 'stopping')
    >>> inflect("see", "ed", ["saw", "seen"]) is None
    True
    """
    listed = [form for form in irregular if form.endswith(ending)]
    if listed:
        return listed[0]
    if ending == "s":
        return None if irregular else _with_s(base)
    if ending == "ed" and any(not form.endswith("ing") for form in irregular):
        return None
    return _with_ed(base) if ending == "ed" else _with_ing(base)


def bases(word: str, ending: str) -> list[str]:
    """Return what a word may be an inflected form of; whether such a word exists is not known.

    >>> bases("stories", "s"), bases("loved", "ed")
    (['storie', 'story'], ['lov', 'love'])
    """
    if not word.endswith(ending) or len(word) < len(ending) + 2:
        return []
    stem = word[: -len(ending)]
    found = [stem]
    if ending == "s" and stem.endswith("e"):
        found.append(stem[:-1])
    if ending != "s":
        found.append(f"{stem}e")
        if stem[-1] == stem[-2]:
            found.append(stem[:-1])
    if ending in ("s", "ed") and stem.endswith("ie" if ending == "s" else "i"):
        found.append(re.sub("ie?$", "y", stem))
    return [base for base in found if inflect(base, ending) == word or base == stem]


def same_word(one: str, other: str) -> bool:
    """Return whether two words are equal or one is a regular form of the other.

    >>> same_word("film", "films"), same_word("film", "movie")
    (True, False)
    """
    if one == other:
        return True
    pairs = ((one, other), (other, one))
    return any(inflect(a, ending) == b for a, b in pairs for ending in ENDINGS)


def _with_s(base: str) -> str | None:
    if base.endswith("man") or re.search(r"[^aeiou]o$", base):
        return None  # women, but Romans; potatoes, but photos
    if re.search(r"(s|x|z|ch|sh)$", base):
        return f"{base}es"
    return re.sub(r"(?<=[^aeiou])y$", "ie", base) + "s"


def _with_ed(base: str) -> str:
    if base.endswith("e"):
        return f"{base}d"
    return _doubled(re.sub(r"(?<=[^aeiou])y$", "i", base)) + "ed"


def _with_ing(base: str) -> str:
    if base.endswith("ie"):
        return f"{base[:-2]}ying"
    if re.search(r"[^eoy]e$", base):
        return f"{base[:-1]}ing"
    return f"{_doubled(base)}ing"


def _doubled(base: str) -> str:
    """Double the last letter of a short word that ends in one vowel and one consonant."""
    return base + base[-1] if re.fullmatch(r"(?:[^aeiou]*|qu)[aeiou][^aeiouwxy]", base) else base
