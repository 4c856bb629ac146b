"""Find the words of a text that may be changed, and put other words in their place.

A word is a run of letters, perhaps with apostrophes or hyphens inside. Addresses, user names,
hashtags, tags, entities, special tokens and placeholders are markup, in which nothing changes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import NamedTuple

from mncover.lexicons import lexicon
from mncover.texts import BETWEEN

# Stands for a piece of markup while the rest of the text is changed.
_VEIL = "\x1e"
_MARKUP = re.compile(
    rf"""
      <[/!]?[A-Za-z][^<>{BETWEEN}]*>        # <br />, <mask>, </s>
    | <\|[^<>|\s]*\|>                       # <|endoftext|>
    | &(?:\#?\w{{1,32}});                   # &amp;
    | \[(?:[A-Z][A-Z0-9_]*|unused\d+)\]     # [MASK]
    | \{{[^{{}}{BETWEEN}]*\}}               # {{name}}
    | :[a-z][a-z0-9_+-]{{1,30}}:            # :smile:
    | [:;=]-?[DPpOo](?!\w)                  # :D
    | [0-9*]\ufe0f?\u20e3                   # a digit in a key cap
    | {_VEIL}
    """,
    re.VERBOSE,
)
# What makes a whole run without spaces an address, a user name or a hashtag.
_ADDRESS = re.compile(r"[@#]|://|www\.|\w\.(?:com|org|net|edu|gov|uk)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_INNER = str.maketrans("", "", "'\u2019-")
_CLITICS = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_APOSTROPHES = frozenset("'\u2019")
_PARTS = frozenset({"Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Cf", "Cs", "Co"})
_GLUED = frozenset("{}[]")


class Word(NamedTuple):
    """A word and where it stands in its text."""

    start: int
    end: int
    text: str


def words(text: str) -> list[Word]:
    """Return the words of a text that may be changed.

    >>> [word.text for word in words("@bob does n't like <b>well-made</b> films, it's 3D")]
    ['does', 'like', 'well-made', 'films', "it's"]
    """
    veiled = _veiled(text)
    found = (Word(match.start(), match.end(), match[0]) for match in _WORD.finditer(veiled))
    return [word for word in found if _whole(text, word)]


def letters(word: str) -> str:
    """Return a word without its apostrophes and hyphens."""
    return word.translate(_INNER)


def _whole(text: str, word: Word) -> bool:
    """Return whether a run of letters is a word of its own."""
    before, after = text[word.start - 1 : word.start], text[word.end : word.end + 1]
    if _continues(before) or _continues(after):
        return False
    if before in _APOSTROPHES and word.text.lower() in _CLITICS:
        return False
    return word.text.isalpha() or _whole_inside(word.text)


def _whole_inside(word: str) -> bool:
    negation = len(word) == 3 and word.lower() in ("n't", "n\u2019t")
    return letters(word).isalpha() and not negation


@cache
def _continues(character: str) -> bool:
    """Return whether a run of letters beside this character is only a part of something."""
    if not character:
        return False
    return character in _GLUED or unicodedata.category(character) in _PARTS


def markup(text: str) -> list[tuple[int, int]]:
    """Return where the markup of a text begins and ends, in order and without overlap."""
    spans = [match.span() for match in _MARKUP.finditer(text)]
    if _ADDRESS.search(text):
        runs = re.finditer(r"\S+", text)
        spans += [match.span() for match in runs if _ADDRESS.search(match[0])]
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _veiled(text: str) -> str:
    """Return the text with its markup made invisible and every other character in its place."""
    parts, last = [], 0
    for start, end in markup(text):
        parts += [text[last:start], _VEIL * (end - start)]
        last = end
    return "".join([*parts, text[last:]])


def hide_markup(text: str) -> tuple[str, list[str]]:
    """Return the text with one mark in the place of each piece of markup, and those pieces."""
    parts, pieces, last = [], [], 0
    for start, end in markup(text):
        parts += [text[last:start], _VEIL]
        pieces.append(text[start:end])
        last = end
    return "".join([*parts, text[last:]]), pieces


def show_markup(text: str, pieces: list[str]) -> str:
    """Undo `hide_markup` after the rest has changed.

    >>> hidden, pieces = hide_markup("a <br /> b")
    >>> show_markup(hidden.replace("b", "c"), pieces)
    'a <br /> c'
    """
    parts = text.split(_VEIL)
    return parts[0] + "".join(p + rest for p, rest in zip(pieces, parts[1:], strict=True))


def like(old: str, new: str) -> str:
    """Return a word in the case of another: lower, Title or UPPER.

    >>> like("Good", "fine"), like("GOOD", "fine"), like("good", "fine")
    ('Fine', 'FINE', 'fine')
    """
    if old.isupper() and len(letters(old)) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def article(word: str) -> str:
    """Return the indefinite article that a word takes.

    >>> article("film"), article("hour"), article("unit"), article("actor")
    ('a', 'an', 'a', 'an')
    """
    lower = word.lower()
    if re.match(r"hour|honest|hono|heir", lower):
        return "an"
    if re.match(r"uni(?!m|n)|us[aeu]|eu|one(?![a-z])|once|ubiq|uten", lower):
        return "a"
    return "an" if lower[:1] in set("aeiou") else "a"


def replaced(text: str, word: Word, new: str) -> str:
    """Return the text with another word in the place of one, in its case.

    An "a" or "an" before it follows the new word.

    >>> text = "A bad film"
    >>> replaced(text, words(text)[1], "awful")
    'An awful film'
    """
    before, cased = text[: word.start], like(word.text, new)
    found = re.search(r"(?<![\w'\u2019-])(an?) $", before[-4:], re.IGNORECASE)
    if found and found[1].lower() == article(word.text) != article(new):
        kept = before[: len(before) - len(found[0])]
        n = ("N" if cased.isupper() else "n") if article(new) == "an" else ""
        before = f"{kept}{found[1][0]}{n} "
    return before + cased + text[word.end :]


def starts_sentence(text: str, word: Word) -> bool:
    """Return whether a word is the first of its text, of its side of a pair, or of a sentence."""
    before = text[max(0, word.start - 20) : word.start].rstrip(" \t\r\n\"'([{\u201c\u2018-")
    return not before or before[-1] in ".!?:" + BETWEEN


def common_words(text: str) -> list[Word]:
    """Return the words that are no proper names as far as their capitals tell.

    >>> [word.text for word in common_words("Films by Anna Lee are Good. Anna is a star.")]
    ['Films', 'by', 'are', 'is', 'a', 'star']
    """
    shouted = text.isupper()
    return [word for word in words(text) if _is_common(text, word, shouted)]


def _is_common(text: str, word: Word, shouted: bool) -> bool:
    if word.text.islower():
        return True
    if shouted:
        return word.text.title() not in proper_names()
    titled = word.text[0].isupper() and word.text[1:].islower()
    return titled and starts_sentence(text, word) and word.text not in proper_names()


@cache
def proper_names() -> frozenset[str]:
    """Return the names of people and places that the bundled lists know."""
    return frozenset({*lexicon("name"), *lexicon("last_name"), *lexicon("place")})
