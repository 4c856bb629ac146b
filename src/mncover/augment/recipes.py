"""Make a suite of tests from a recipe: a TOML file of templates and transformations. No torch.

docs/suites.md describes recipes. Every error names the file and the test. A template is a text with
fields, such as "{name} is {a:profession}.": a field names a lexicon and stands for the same word
wherever it occurs; `{name}` and `{name2}` are two different words of one lexicon, and `{a:thing}`
puts "a" or "an" before the word.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mncover.augment.transforms import transform, variants_of
from mncover.augment.transforms.words import article, lexicon
from mncover.data.files import read_toml
from mncover.data.limits import TEXTS, VARIANTS, Budget, most_bytes
from mncover.errors import MnCoverError, SettingsError, TextError
from mncover.suites.expectations import is_class
from mncover.suites.formats import read_texts
from mncover.suites.model import Case, Suite, Test
from mncover.types import Text, brief, is_text

Lexicons = Mapping[str, Sequence[str]]
Field = tuple[str, str]  # a lexicon, and the digits after it
_MOST_SPARE = 4_000_000
MOST_FIELDS = 100
ROOM = 2**28  # characters that even a small recipe may make
_FIELD = re.compile(r"\{(a:)?([A-Za-z_]+?)(\d*)\}")


def fill_template(
    template: Text,
    lexicons: Lexicons | None = None,
    n: int | None = None,
    seed: int = 0,
    budget: Budget | None = None,
) -> list[Text]:
    """Return the texts of a template, each once: all of them, or n drawn at random.

    `lexicons` take precedence over the bundled ones. Both sides of a pair get the same words.

    >>> fill_template("{who} is {a:what}.", {"who": ["Ann", "Bo"], "what": ["actor"]})
    ['Ann is an actor.', 'Bo is an actor.']
    """
    parts = [template] if isinstance(template, str) else list(template)
    fields = [field for part in parts for field in _fields(part)]
    lists = {name: _words(name, lexicons or {}) for name in dict.fromkeys(n for n, _ in fields)}
    words = {field: lists[field[0]] for field in fields}
    if len(words) > MOST_FIELDS:
        raise SettingsError(f"a template has at most {MOST_FIELDS} different fields.")
    texts: dict[Text, None] = {}
    for filling in _fillings(words, n, seed):
        if budget is not None:
            budget.spend(sum(map(len, parts)) + sum(len(filling[field]) for field in fields))
        filled = [_filled(part, filling) for part in parts]
        texts.setdefault(filled[0] if isinstance(template, str) else (filled[0], filled[1]))
        if len(texts) == n:
            break
    return list(texts)


def _fields(template: str) -> list[Field]:
    """Return the lexicon and number of each field; refuse braces that are not a field."""
    rest = _FIELD.sub("", template)
    if "{" in rest or "}" in rest:
        raise SettingsError(f"{template!r}: a field is {{lexicon}}, {{lexicon2}} or {{a:lexicon}}.")
    return [(match[2], match[3]) for match in _FIELD.finditer(template)]


def _words(name: str, lexicons: Lexicons) -> Sequence[str]:
    words = list(dict.fromkeys(lexicons[name])) if name in lexicons else lexicon(name)
    if not words:
        raise SettingsError(f"the lexicon {name!r} is empty.")
    return words


def _fillings(
    words: dict[Field, Sequence[str]], n: int | None, seed: int
) -> Iterator[dict[Field, str]]:
    """Yield a word for each field: every combination in order, or enough of them for n, drawn."""
    total = math.prod(map(len, words.values()))
    TEXTS.check(total if n is None else min(n, total), "texts of one template (give it an `n`)")
    numbers: Sequence[int] = range(min(total, sys.maxsize))  # no more can be drawn from
    if n is not None and n < total:
        drawn = min(total, 20 * n, n + _MOST_SPARE)  # more than n, because some repeat a word
        numbers = random.Random(seed).sample(numbers, drawn)
    for number in numbers:
        left, chosen = number, dict[Field, str]()
        for field in reversed(words):
            left, place = divmod(left, len(words[field]))
            chosen[field] = words[field][place]
        # The fields of one lexicon all have different words.
        if len({(name, word) for (name, _), word in chosen.items()}) == len(chosen):
            yield chosen


def _filled(template: str, words: Mapping[Field, str]) -> str:
    def word(match: re.Match[str]) -> str:
        found = words[match[2], match[3]]
        return f"{article(found)} {found}" if match[1] and found else found

    return _FIELD.sub(word, template)


_SOURCES = ("template", "texts", "file")
_KNOWN = {
    *("name", "type", "capability", "description", "expectation", "label"),
    *(*_SOURCES, "n", "perturb", "variants"),
}


def make_suite(path: Path, seed: int = 0) -> Suite:
    """Return the suite that a recipe describes; the same seed gives the same suite."""
    recipe = read_toml(path)
    unknown = sorted(set(recipe) - {"labels", "lexicons", "tests"})
    try:
        if unknown:
            raise TextError(f"a recipe has labels, lexicons and tests, not {unknown[0]!r}.")
        labels = _strings(recipe.get("labels", []), "labels")
        lists = _table(recipe.get("lexicons", {}), "lexicons").items()
        lexicons = {name: _strings(words, f"lexicons.{name}") for name, words in lists}
        rows = recipe.get("tests", [])
        if not isinstance(rows, list) or not rows:
            raise TextError("it has no [[tests]].")
        tests: list[Test] = []
        most = most_bytes(path.stat().st_size, ROOM)
        budget = Budget(most, "characters that the recipe makes")
        for number, row in enumerate(rows):
            tests.append(_Maker(path.parent, lexicons, seed, number, budget).make(row))
            TEXTS.check(sum(test.texts for test in tests), "texts of a recipe")
        return Suite(tuple(tests), tuple(labels))
    except MnCoverError as error:
        raise TextError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes one test of a recipe."""

    folder: Path
    lexicons: Lexicons
    seed: int
    number: int
    budget: Budget

    def make(self, row: Any) -> Test:
        name = _table(row, f"test {self.number + 1}").get("name")
        if not isinstance(name, str) or not name:
            raise TextError(f"test {self.number + 1} has no name.")
        try:
            unknown = sorted(set(row) - _KNOWN)
            if unknown:
                raise TextError(f"unknown {unknown[0]!r}; known: {', '.join(sorted(_KNOWN))}.")
            cases = self._cases(row)
            if not cases:
                raise TextError("it has no cases: there is nothing to change in its texts.")
            default = {"type": "INV" if row.get("perturb") else "MFT"}
            return replace(Test.from_json(default | row | {"test": name}), cases=tuple(cases))
        except MnCoverError as error:
            raise TextError(f"the test {name!r}: {error}") from None

    def _cases(self, row: dict[str, Any]) -> list[Case]:
        texts, label = self._texts(row), row.get("label")
        if not (label is None or is_class(label)):
            raise TextError(f"'label' must be a class, got {brief(label)}.")
        names = _strings(row.get("perturb", []), "perturb")
        if not names:
            return [Case((text,), label) for text in texts]
        if (name := "WordSwapMaskedLM") in names:
            raise SettingsError(f"{name} needs a language model, which a recipe cannot name.")
        changes = [transform(name) for name in names]
        n, rng = _whole(row, "variants", 1), random.Random(f"{self.seed} {self.number}")
        VARIANTS.check(n, "variants of a text")
        TEXTS.check(n * len(texts), "variants of all texts of one test")
        self.budget.spend(n * sum(len(part) for text in texts for part in sides_of(text)))
        changed = [(text, variants_of(text, changes, n, rng)) for text in texts]
        return [Case((text, *variants), label) for text, variants in changed if variants]

    def _texts(self, row: dict[str, Any]) -> list[Text]:
        given = [source for source in _SOURCES if source in row]
        if len(given) != 1:
            raise TextError("give its texts by exactly one of 'template', 'texts' and 'file'.")
        n, value = _whole(row, "n", None), row[given[0]]
        if given == ["template"]:
            # One template, or a list of them, in which a pair is a list of two.
            templates = [_text(item) for item in (value if isinstance(value, list) else [value])]
            drawn = 1000 * self.seed + self.number
            filled: dict[Text, None] = {}
            for one in templates:
                found = fill_template(one, self.lexicons, n, drawn, self.budget)
                filled |= dict.fromkeys(found)
                TEXTS.check(len(filled), "texts of one test")
            found = list(filled)
        elif given == ["texts"]:
            found = [_text(item) for item in _list(value, "texts")]
        else:
            found = list(read_texts(self.folder / str(value)).texts)
        if n is not None and len(found) > n:
            found = random.Random(f"{self.seed} {self.number} texts").sample(found, n)
        return found


def sides_of(text: Text) -> tuple[str, ...]:
    """Return the text, or both texts of a pair."""
    return (text,) if isinstance(text, str) else text


def _whole(row: dict[str, Any], name: str, default: Any) -> Any:
    value = row.get(name, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise TextError(f"{name!r} must be a whole number of at least 1, got {brief(value)}.")
    return value


def _text(value: Any) -> Any:
    text = tuple(value) if isinstance(value, list) else value
    if not is_text(text):
        raise TextError(f"a text is a string or a list of two strings, got {brief(value)}.")
    return text


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TextError(f"{name!r} must be a list.")
    return value


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TextError(f"{name!r} must be a table.")
    return value


def _strings(value: Any, name: str) -> list[str]:
    if not all(isinstance(item, str) for item in _list(value, name)):
        raise TextError(f"{name!r} must be a list of texts.")
    return list(value)
