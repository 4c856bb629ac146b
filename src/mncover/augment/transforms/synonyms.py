"""Synonyms by WordNet: put one in the place of its word, or behind it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path

from mncover.augment.transforms.inflection import ENDINGS, bases, inflect, same_word
from mncover.augment.transforms.kinds import Change, TextTransform
from mncover.augment.transforms.wordnet import PARTS, Database, Entry, find_wordnet
from mncover.augment.transforms.words import Word, common_words, is_stop_word, like, replaced

# A word's first senses are its most frequent, and a sense that is seldom met is seldom meant.
SENSES, RARE = 3, 0.2
# A verb is met in about four forms, and its count is of all of them.
FORMS = 4
# How many words are looked up before a text counts as one without anything to change.
TRIES = 300

Options = Callable[[str], Sequence[str]]


class Thesaurus:
    """Gives the synonyms of words as they stand in a text, with their endings."""

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
        if part == "noun":
            return inflect(base, ending, self._irregular_nouns.get(base, ()))
        forms = self._irregular_verbs.get(base, []) if ending != "s" else []
        return inflect(base, ending, forms)

    @cached_property
    def _irregular_nouns(self) -> dict[str, list[str]]:
        return self.database.irregular("noun")

    @cached_property
    def _irregular_verbs(self) -> dict[str, list[str]]:
        return self.database.irregular("verb")


def _usable(word: str, lemma: str) -> bool:
    """Return whether a word of a sense is a single ordinary word, and another one."""
    plain = word.isascii() and word.isalpha() and word.islower()
    return plain and not is_stop_word(word) and not same_word(word, lemma)


def word_swap(options: Options) -> Change:
    """Return a change that puts one of a word's options in its place."""

    def change(text: str, rng: random.Random) -> str | None:
        found = _one_with_options(text, options, rng)
        return replaced(text, found[0], rng.choice(found[1])) if found else None

    return change


def insertion(options: Options) -> Change:
    """Return a change that puts one of a word's options behind it."""

    def change(text: str, rng: random.Random) -> str | None:
        found = _one_with_options(text, options, rng)
        if found is None:
            return None
        word, others = found
        new = rng.choice(others)
        new = like(word.text, new) if word.text.isupper() else new
        return f"{text[: word.end]} {new}{text[word.end :]}"

    return change


def _one_with_options(
    text: str, options: Options, rng: random.Random
) -> tuple[Word, Sequence[str]] | None:
    """Return a word that has options, and them."""
    candidates = [word for word in common_words(text) if not is_stop_word(word.text)]
    for word in rng.sample(candidates, min(len(candidates), TRIES)):
        found = options(word.text.lower())
        if found:
            return word, found
    return None


def synonym_transform(name: str, wordnet: Path | None) -> TextTransform:
    """Return WordSwapWordNet or RandomSynonymInsertion."""
    thesaurus = _thesaurus(find_wordnet(wordnet))
    make = word_swap if name == "WordSwapWordNet" else insertion
    return TextTransform(name, make(thesaurus.synonyms))


@cache
def _thesaurus(path: Path) -> Thesaurus:
    return Thesaurus(Database(path))
