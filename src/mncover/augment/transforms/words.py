"""Find the words of a text that may be changed, and replace them; the bundled word lists.

A word is a run of letters, possibly with apostrophes or hyphens inside. Addresses, user names,
hashtags, tags, entities, special tokens and placeholders are markup, which is never changed.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from typing import NamedTuple

from mncover.errors import SettingsError
from mncover.types import BETWEEN

_FILES = resources.files("mncover.augment")
_LEXICONS = _FILES / "lexicons"
# Lexicons that combine several others.
_UNIONS = {"name": ("female_name", "male_name"), "place": ("city", "country")}


@cache
def lexicon(name: str) -> tuple[str, ...]:
    """Return the words of a lexicon, which templates and transformations fill in.

    >>> lexicon("city")[:3]
    ('London', 'Paris', 'Berlin')
    """
    if name in _UNIONS:
        return tuple(word for part in _UNIONS[name] for word in lexicon(part))
    if name not in lexicon_names():
        raise SettingsError(f"there is no lexicon {name!r}; known: {', '.join(lexicon_names())}.")
    content = (_LEXICONS / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(line for line in content.splitlines() if line)


@cache
def lexicon_names() -> tuple[str, ...]:
    """Return the names of all lexicons, sorted."""
    files = [path.name for path in _LEXICONS.iterdir()]
    return tuple(sorted({*_UNIONS, *(n.removesuffix(".txt") for n in files if n.endswith(".txt"))}))


@cache
def table(name: str) -> tuple[str, ...]:
    """Return the lines of a table in which transformations look words up."""
    content = (_FILES / "tables" / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(line for line in content.splitlines() if not line.startswith("#"))


@cache
def pairs(name: str) -> dict[str, str]:
    """Return a table of lines such as `is not = isn't`."""
    return dict(line.split(" = ") for line in table(name))


@cache
def stop_words() -> frozenset[str]:
    """Return the English function words, which are never replaced by another word."""
    return frozenset(" ".join(table("stop_words")).split())


def is_stop_word(word: str) -> bool:
    """Return whether a word is a function word, a number word or a single letter.

    >>> is_stop_word("The"), is_stop_word("film")
    (True, False)
    """
    return len(word) < 2 or word.lower().replace("\u2019", "'") in stop_words()


# Replaces markup while the rest of the text is changed.
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
# Marks everything up to the next space as an address, a user name or a hashtag.
_ADDRESS = re.compile(r"[@#]|://|www\.|\w\.(?:com|org|net|edu|gov|uk)\b", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_INNER = str.maketrans("", "", "'\u2019-")
_CLITICS = frozenset({"s", "t", "re", "ve", "ll", "d", "m"})
_APOSTROPHES = frozenset("'\u2019")
_PARTS = frozenset({"Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Cf", "Cs", "Co"})
_GLUED = frozenset("{}[]")


class Word(NamedTuple):
    """A word and its position in a text."""

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
    """Return whether a run of letters is a complete word."""
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
    """Return whether a run of letters next to this character is part of something longer."""
    if not character:
        return False
    return character in _GLUED or unicodedata.category(character) in _PARTS


def markup(text: str) -> list[tuple[int, int]]:
    """Return where each piece of markup starts and ends, in order and without overlaps."""
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


def _split(text: str) -> tuple[list[str], list[str]]:
    """Return what is between the pieces of markup, and the pieces."""
    spans = markup(text)
    starts, ends = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
    between = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    return between, [text[start:end] for start, end in spans]


def _veiled(text: str) -> str:
    """Return the text with its markup blanked out; all other characters keep their positions."""
    between, pieces = _split(text)
    blanks = [*(_VEIL * len(piece) for piece in pieces), ""]
    return "".join(part + blank for part, blank in zip(between, blanks, strict=True))


def hide_markup(text: str) -> tuple[str, list[str]]:
    """Return the text with each piece of markup replaced by one mark, and the pieces."""
    between, pieces = _split(text)
    return _VEIL.join(between), pieces


def show_markup(text: str, pieces: list[str]) -> str:
    """Undo `hide_markup` after the rest of the text was changed.

    >>> hidden, pieces = hide_markup("a <br /> b")
    >>> show_markup(hidden.replace("b", "c"), pieces)
    'a <br /> c'
    """
    parts = text.split(_VEIL)
    return parts[0] + "".join(p + rest for p, rest in zip(pieces, parts[1:], strict=True))


def like(old: str, new: str) -> str:
    """Return a new word in the case of the old one: lower, Title or UPPER.

    >>> like("Good", "fine"), like("GOOD", "fine"), like("good", "fine")
    ('Fine', 'FINE', 'fine')
    """
    if old.isupper() and len(letters(old)) > 1:
        return new.upper()
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def article(word: str) -> str:
    """Return the indefinite article of a word.

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
    """Replace a word, keeping its case; an "a" or "an" before it is adapted.

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
    """Return whether a word is the first of a text, of one side of a pair, or of a sentence."""
    before = text[max(0, word.start - 20) : word.start].rstrip(" \t\r\n\"'([{\u201c\u2018-")
    return not before or before[-1] in ".!?:" + BETWEEN


def common_words(text: str) -> list[Word]:
    """Return the words that do not look like proper names by their capitals.

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
    """Return the names of people and places in the bundled lexicons."""
    return frozenset({*lexicon("name"), *lexicon("last_name"), *lexicon("place")})
