"""Find the words of a text that may be changed, replace and inflect them; the bundled word lists.

A word is a run of letters, possibly with apostrophes or hyphens inside. Addresses, user names,
hashtags, tags, entities, special tokens and placeholders are markup, which is never changed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

from mncover.errors import SettingsError
from mncover.types import BETWEEN

_FILES = resources.files("mncover.augment")
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
    return table(name, "lexicons")


@cache
def lexicon_names() -> tuple[str, ...]:
    """Return the names of all lexicons, sorted."""
    files = [path.name for path in (_FILES / "lexicons").iterdir()]
    return tuple(sorted({*_UNIONS, *(n.removesuffix(".txt") for n in files if n.endswith(".txt"))}))


@cache
def table(name: str, folder: str = "tables") -> tuple[str, ...]:
    """Return the lines of a bundled file, such as a table in which words are looked up."""
    content = (_FILES / folder / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(line for line in content.splitlines() if line and not line.startswith("#"))


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


def is_plain(word: str) -> bool:
    """Return whether a word has only small Latin letters, and is not a function word."""
    return word.isascii() and word.isalpha() and word.islower() and not is_stop_word(word)


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
_NEGATIONS = frozenset({"n't", "n\u2019t"})
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
    veiled = text
    for start, end in markup(text):
        veiled = veiled[:start] + _VEIL * (end - start) + veiled[end:]
    found = (Word(match.start(), match.end(), match[0]) for match in _WORD.finditer(veiled))
    return [word for word in found if _whole(text, word)]


def letters(word: str) -> str:
    """Return a word without its apostrophes and hyphens."""
    return word.translate(_INNER)


def _whole(text: str, word: Word) -> bool:
    """Return whether a run of letters is a complete word."""
    before, after = text[word.start - 1 : word.start], text[word.end : word.end + 1]
    if word.text.isalpha():
        clitic = before in _APOSTROPHES and word.text.lower() in _CLITICS
    else:
        clitic = word.text.lower() in _NEGATIONS or not letters(word.text).isalpha()
    return not (clitic or _continues(before) or _continues(after))


@cache
def _continues(character: str) -> bool:
    """Return whether a run of letters next to this character is part of something longer."""
    return character != "" and (character in _GLUED or unicodedata.category(character) in _PARTS)


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


def hide_markup(text: str) -> tuple[str, list[str]]:
    """Return the text with each piece of markup replaced by one mark, and the pieces."""
    spans = markup(text)
    hidden = text
    for start, end in reversed(spans):
        hidden = hidden[:start] + _VEIL + hidden[end:]
    return hidden, [text[start:end] for start, end in spans]


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


_AN = r"hour|honest|hono|heir|(?!uni(?!m|n)|us[aeu]|eu|one(?![a-z])|once|ubiq|uten)[aeiou]"


def article(word: str) -> str:
    """Return the indefinite article of a word.

    >>> article("film"), article("hour"), article("unit"), article("actor")
    ('a', 'an', 'a', 'an')
    """
    return "an" if re.match(_AN, word.lower()) else "a"


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


def content_words(text: str) -> list[Word]:
    """Return the words that are no function words and, by their capitals, no proper names.

    >>> [word.text for word in content_words("Films by Anna Lee are Good. Anna is a star.")]
    ['Films', 'star']
    """
    shouted = text.isupper()

    def is_common(word: Word) -> bool:
        if word.text.islower():
            return True
        titled = word.text[0].isupper() and word.text[1:].islower()
        name = word.text.title() if shouted else word.text
        return (shouted or (titled and starts_sentence(text, word))) and name not in proper_names()

    return [word for word in words(text) if is_common(word) and not is_stop_word(word.text)]


@cache
def proper_names() -> frozenset[str]:
    """Return the names of people and places in the bundled lexicons."""
    return frozenset({*lexicon("name"), *lexicon("last_name"), *lexicon("place")})


def same_word(one: str, other: str) -> bool:
    """Return whether two words are equal or one is a regular form of the other.

    >>> same_word("film", "films"), same_word("film", "movie")
    (True, False)
    """
    pairs, endings = ((one, other), (other, one)), ("s", "ed", "ing")
    return one == other or any(inflect(a, ending) == b for a, b in pairs for ending in endings)


def inflect(base: str, ending: str, irregular: Sequence[str] = ()) -> str | None:
    """Return a word with an ending, or None if its form is another; `irregular` lists such forms.

    >>> inflect("story", "s"), inflect("love", "ed"), inflect("stop", "ing")
    ('stories', 'loved', 'stopping')
    >>> inflect("see", "ed", ["saw", "seen"]) is None
    True
    """
    listed = [form for form in irregular if form.endswith(ending)]
    if listed:
        return listed[0]
    if ending == "ing":
        return _with_ing(base)
    if any(ending == "s" or not form.endswith("ing") for form in irregular):
        return None
    return _with_s(base) if ending == "s" else _with_ed(base)


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
