"""Word lists of our own for templates and perturbations: one text file each, a word in a line.

English function words, which no transformation replaces by another word. Our own list.
Find the words of a text that may be changed, and put other words in their place.

A word is a run of letters, perhaps with apostrophes or hyphens inside. Addresses, user names,
hashtags, tags, entities, special tokens and placeholders are markup, in which nothing changes.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib import resources
from typing import NamedTuple

from mncover.errors import SettingsError
from mncover.types import BETWEEN

_LEXICONS = resources.files("mncover.augment") / "lexicons"
# Names that stand for several lists.
_UNIONS = {"name": ("female_name", "male_name"), "place": ("city", "country")}


@cache
def lexicon(name: str) -> tuple[str, ...]:
    """Return the words of a list.

    >>> lexicon("city")[:3]
    ('London', 'Paris', 'Berlin')
    """
    if name in _UNIONS:
        return tuple(word for part in _UNIONS[name] for word in lexicon(part))
    if name not in lexicon_names():
        raise SettingsError(
            f"there is no lexicon {name!r}; there are {', '.join(lexicon_names())}."
        )
    content = (_LEXICONS / f"{name}.txt").read_text(encoding="utf-8")
    return tuple(line for line in content.splitlines() if line)


@cache
def lexicon_names() -> tuple[str, ...]:
    """Return the names of all lists, sorted."""
    files = [path.name for path in _LEXICONS.iterdir()]
    return tuple(sorted({*_UNIONS, *(n.removesuffix(".txt") for n in files if n.endswith(".txt"))}))


_PRONOUNS = """
i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it
its itself we us our ours ourselves they them their theirs themselves one ones oneself this that
these those who whom whose which what whoever whatever whichever somebody someone something
anybody anyone anything nobody none nothing everybody everyone everything
"""
_VERBS = """
am is are was were be been being do does did doing done have has had having can could will would
shall should may might must ought cannot ca wo sha let lets got
"""
_PREPOSITIONS = """
about above across after against along amid among around as at before behind below beneath beside
besides between beyond but by concerning despite down during except for from in inside into like
near of off on onto out outside over past per regarding round since than through throughout till to
toward towards under underneath until unto up upon versus via with within without
"""
_CONJUNCTIONS = """
and or nor yet so if because although though unless while whereas whether either neither both once
when whenever where wherever why how however therefore thus hence
"""
_DETERMINERS = """
a an the some any no every each all many much more most few fewer less least several such own other
another same enough half
"""
_ADVERBS = """
not never n't nt too also just only even still again ever here there then now very quite rather
almost already always often perhaps maybe else
"""
_CONTRACTED = """
ain't aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mightn't mustn't
needn't shan't shouldn't wasn't weren't won't wouldn't i'm i've i'll i'd you're you've you'll you'd
he's he'll he'd she's she'll she'd it's it'll it'd we're we've we'll we'd they're they've they'll
they'd that's there's what's who's where's how's here's let's
"""
_NUMBERS = """
zero two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand
million billion first second third
"""
_TITLES = "mr mrs ms dr st jr sr etc eg ie vs"

STOP_WORDS = frozenset(
    " ".join(
        [
            *(_PRONOUNS, _VERBS, _PREPOSITIONS, _CONJUNCTIONS, _DETERMINERS),
            *(_ADVERBS, _CONTRACTED, _NUMBERS, _TITLES),
        ]
    ).split()
)


def is_stop_word(word: str) -> bool:
    """Return whether a word is a function word, a number word, or a single letter.

    >>> is_stop_word("The"), is_stop_word("film")
    (True, False)
    """
    return len(word) < 2 or word.lower().replace("\u2019", "'") in STOP_WORDS


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
