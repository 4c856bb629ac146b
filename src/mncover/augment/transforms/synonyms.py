"""Synonyms by WordNet, with their endings: put one in the place of its word, or after it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mncover.augment.transforms.wordnet import PARTS, Database, Entry, find_wordnet
from mncover.augment.transforms.words import Word, common_words, is_stop_word, like, replaced

if TYPE_CHECKING:
    from mncover.augment.transforms import Change, Resources

# A word's first senses are its most frequent; a sense below this share of its uses is left out.
SENSES, RARE = 3, 0.2
# A verb occurs in about four forms, and its count is the sum over them.
FORMS = 4
# How many words are looked up before a text counts as having nothing to change.
TRIES = 300
ENDINGS = ("s", "ed", "ing")

Options = Callable[[str], Sequence[str]]


def insertion(resources: Resources) -> Change:
    """Return a change that inserts a synonym after a word."""
    synonyms = _thesaurus(find_wordnet(resources.wordnet)).synonyms

    def change(text: str, rng: random.Random) -> str | None:
        found = _one_with_options(text, synonyms, rng)
        if found is None:
            return None
        word, others = found
        new = rng.choice(others)
        new = like(word.text, new) if word.text.isupper() else new
        return f"{text[: word.end]} {new}{text[word.end :]}"

    return change


def swap(resources: Resources) -> Change:
    """Return a change that replaces a word with a synonym."""
    return word_swap(_thesaurus(find_wordnet(resources.wordnet)).synonyms)


def word_swap(options: Options) -> Change:
    """Return a change that replaces a word with one of its options."""

    def change(text: str, rng: random.Random) -> str | None:
        found = _one_with_options(text, options, rng)
        return replaced(text, found[0], rng.choice(found[1])) if found else None

    return change


def _one_with_options(
    text: str, options: Options, rng: random.Random
) -> tuple[Word, Sequence[str]] | None:
    """Return a word that has options, and these."""
    candidates = [word for word in common_words(text) if not is_stop_word(word.text)]
    for word in rng.sample(candidates, min(len(candidates), TRIES)):
        found = options(word.text.lower())
        if found:
            return word, found
    return None


@cache
def _thesaurus(path: Path) -> Thesaurus:
    return Thesaurus(Database(path))


class Thesaurus:
    """Finds the synonyms of words in the form in which they occur in a text."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._known: dict[str, tuple[str, ...]] = {}

    def synonyms(self, word: str) -> tuple[str, ...]:
        """Return the synonyms of a lower-case word, with its ending; none for a function word."""
        if word not in self._known:
            self._known[word] = () if is_stop_word(word) else tuple(self._find(word))
        return self._known[word]

    def _find(self, word: str) -> list[str]:
        best = self._reading(word)
        if best is None:
            return []
        entry, ending = best
        found: dict[str, None] = {}
        for sense in self._usual_senses(entry):
            for other in self.database.words(entry.part, sense):
                if _usable(other, entry.lemma):
                    found.setdefault(self._ended(other, entry.part, ending) or "")
        return [other for other in found if other and not same_word(other, word)]

    def _usual_senses(self, entry: Entry) -> list[int]:
        counts = self.database.counts(entry)
        enough = RARE * sum(counts)
        usual = [s for s, n in zip(entry.senses, counts, strict=True) if n and n >= enough]
        return (usual or list(entry.senses[:1]))[:SENSES]

    def _reading(self, word: str) -> tuple[Entry, str] | None:
        """Return the most frequent reading of a word, as an entry and the ending it lost."""
        whole = [(entry, "") for entry in self._entries(word, tuple(PARTS))]
        readings = [*whole, *self._shortened(word)]
        return max(readings, key=self._frequency, default=None)

    def _frequency(self, reading: tuple[Entry, str]) -> float:
        entry, ending = reading
        return sum(self.database.counts(entry)) / (FORMS if ending else 1)

    def _shortened(self, word: str) -> Iterator[tuple[Entry, str]]:
        for ending in ENDINGS:
            parts = ("noun", "verb") if ending == "s" else ("verb",)
            for base in bases(word, ending):
                for entry in self._entries(base, parts):
                    if self._ended(base, entry.part, ending) == word:
                        yield entry, ending

    def _entries(self, lemma: str, parts: Sequence[str]) -> list[Entry]:
        found = (self.database.entry(lemma, part) for part in parts)
        return [entry for entry in found if entry is not None]

    def _ended(self, base: str, part: str, ending: str) -> str | None:
        if not ending:
            return base
        listed = part == "noun" or ending != "s"  # verbs take a regular -s
        return inflect(base, ending, self._irregular[part].get(base, ()) if listed else ())

    @cached_property
    def _irregular(self) -> dict[str, dict[str, list[str]]]:
        return {part: self.database.irregular(part) for part in ("noun", "verb")}


def _usable(word: str, lemma: str) -> bool:
    """Return whether a word of a sense is a single ordinary word, and not the lemma."""
    plain = word.isascii() and word.isalpha() and word.islower()
    return plain and not is_stop_word(word) and not same_word(word, lemma)


def same_word(one: str, other: str) -> bool:
    """Return whether two words are equal or one is a regular form of the other.

    >>> same_word("film", "films"), same_word("film", "movie")
    (True, False)
    """
    if one == other:
        return True
    pairs = ((one, other), (other, one))
    return any(inflect(a, ending) == b for a, b in pairs for ending in ENDINGS)


def bases(word: str, ending: str) -> list[str]:
    """Return what a word may be an inflected form of, existing words or not.

    >>> bases("stories", "s"), bases("loved", "ed")
    (['storie', 'story'], ['lov', 'love'])
    """
    if not word.endswith(ending) or len(word) < len(ending) + 2:
        return []
    stem = word[: -len(ending)]
    options = dict.fromkeys([stem, f"{stem}e", stem[:-1], re.sub("ie?$", "y", stem)])
    return [base for base in options if base == stem or inflect(base, ending) == word]


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
    if ending == "s":
        return None if irregular else _with_s(base)
    if ending == "ed" and any(not form.endswith("ing") for form in irregular):
        return None
    return _with_ed(base) if ending == "ed" else _with_ing(base)


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
