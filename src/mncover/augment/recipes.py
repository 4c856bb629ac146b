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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mncover.augment.transforms import Transform, transform, variants_of
from mncover.augment.transforms.words import article, lexicon
from mncover.data.files import read_toml
from mncover.errors import MnCoverError, SettingsError, TextError
from mncover.suites.expectations import Expectation
from mncover.suites.formats import read_texts
from mncover.suites.model import KINDS, Case, Kind, Suite, Test
from mncover.types import Text

Field = tuple[str, str]  # a lexicon, and the digits after it
_FIELD = re.compile(r"\{(a:)?([A-Za-z_]+?)(\d*)\}")


def fill_template(
    template: Text,
    lexicons: Mapping[str, Sequence[str]] | None = None,
    n: int | None = None,
    seed: int = 0,
) -> list[Text]:
    """Return the texts of a template, each once: all of them, or n drawn at random.

    `lexicons` take precedence over the bundled ones. Both sides of a pair get the same words.

    >>> fill_template("{who} is {a:what}.", {"who": ["Ann", "Bo"], "what": ["actor"]})
    ['Ann is an actor.', 'Bo is an actor.']
    """
    parts = [template] if isinstance(template, str) else list(template)
    words = {field: _words(field[0], lexicons or {}) for part in parts for field in _fields(part)}
    texts: dict[Text, None] = {}
    for filling in _fillings(words, n, seed):
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


def _words(name: str, lexicons: Mapping[str, Sequence[str]]) -> Sequence[str]:
    words = list(dict.fromkeys(lexicons[name])) if name in lexicons else lexicon(name)
    if not words:
        raise SettingsError(f"the lexicon {name!r} is empty.")
    return words


def _fillings(
    words: dict[Field, Sequence[str]], n: int | None, seed: int
) -> Iterator[dict[Field, str]]:
    """Yield a word for each field: every combination in order, or enough of them for n, drawn."""
    total = math.prod(map(len, words.values()))
    numbers: Sequence[int] = range(total)
    if n is not None and n < total:
        numbers = random.Random(seed).sample(numbers, min(total, 20 * n))  # some repeat a word
    for number in numbers:
        left, chosen = number, dict[Field, str]()
        for field in reversed(words):
            left, place = divmod(left, len(words[field]))
            chosen[field] = words[field][place]
        if _differ(chosen):
            yield chosen


def _differ(chosen: Mapping[Field, str]) -> bool:
    """Return whether the fields of one lexicon all have different words."""
    pairs = [(name, word) for (name, _), word in chosen.items()]
    return len(set(pairs)) == len(pairs)


def _filled(template: str, words: Mapping[Field, str]) -> str:
    def word(match: re.Match[str]) -> str:
        found = words[match[2], match[3]]
        return f"{article(found)} {found}" if match[1] and found else found

    return _FIELD.sub(word, template)


_KNOWN = {
    *("name", "type", "capability", "description", "expectation", "label"),
    *("template", "texts", "file", "n", "perturb", "variants"),
}


def make_suite(path: Path, seed: int = 0) -> Suite:
    """Return the suite that a recipe describes; the same seed gives the same suite."""
    recipe = read_toml(path)
    unknown = sorted(set(recipe) - {"labels", "lexicons", "tests"})
    try:
        if unknown:
            raise TextError(f"a recipe has labels, lexicons and tests, not {unknown[0]!r}.")
        labels = _strings(recipe.get("labels", []), "labels")
        lexicons = {
            name: _strings(words, f"lexicons.{name}")
            for name, words in _table(recipe.get("lexicons", {}), "lexicons").items()
        }
        rows = recipe.get("tests", [])
        if not isinstance(rows, list) or not rows:
            raise TextError("it has no [[tests]].")
        tests = [_Maker(path.parent, lexicons, seed, i).make(row) for i, row in enumerate(rows)]
        return Suite(tuple(tests), tuple(labels))
    except MnCoverError as error:
        raise TextError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes one test of a recipe."""

    folder: Path
    lexicons: Mapping[str, Sequence[str]]
    seed: int
    number: int

    def make(self, row: Any) -> Test:
        row = _table(row, f"test {self.number + 1}")
        name = row.get("name")
        if not isinstance(name, str) or not name:
            raise TextError(f"test {self.number + 1} has no name.")
        try:
            return self._make(name, row)
        except MnCoverError as error:
            raise TextError(f"the test {name!r}: {error}") from None

    def _make(self, name: str, row: dict[str, Any]) -> Test:
        unknown = sorted(set(row) - _KNOWN)
        if unknown:
            raise TextError(f"unknown {unknown[0]!r}; known: {', '.join(sorted(_KNOWN))}.")
        cases = self._cases(row)
        if not cases:
            raise TextError("it has no cases: there is nothing to change in its texts.")
        kind = _kind(row)
        expectation = Expectation.from_json(
            row.get("expectation", "label" if kind == "MFT" else "inv")
        )
        about = [row.get(field, "") for field in ("capability", "description")]
        if not all(isinstance(word, str) for word in about):
            raise TextError("'capability' and 'description' must be text.")
        return Test(name, kind, expectation, tuple(cases), *about)

    def _cases(self, row: dict[str, Any]) -> list[Case]:
        texts, label = self._texts(row), row.get("label")
        if not (label is None or (isinstance(label, int | str) and not isinstance(label, bool))):
            raise TextError(f"'label' must be a class, got {label!r}.")
        changes = [_transform(name) for name in _strings(row.get("perturb", []), "perturb")]
        if not changes:
            return [Case((text,), label) for text in texts]
        n, rng = _whole(row, "variants", 1), random.Random(f"{self.seed} {self.number}")
        changed = [(text, variants_of(text, changes, n, rng)) for text in texts]
        return [Case((text, *variants), label) for text, variants in changed if variants]

    def _texts(self, row: dict[str, Any]) -> list[Text]:
        given = [source for source in ("template", "texts", "file") if source in row]
        if len(given) != 1:
            raise TextError("give its texts by exactly one of 'template', 'texts' and 'file'.")
        n, value = _whole(row, "n", None), row[given[0]]
        if given == ["template"]:
            found = self._filled(value, n)
        elif given == ["texts"]:
            found = [_text(item) for item in _list(value, "texts")]
        else:
            found = read_texts(self.folder / str(value)).texts
        if n is not None and len(found) > n:
            found = random.Random(f"{self.seed} {self.number} texts").sample(found, n)
        return found

    def _filled(self, value: Any, n: int | None) -> list[Text]:
        """Fill one template or a list of them; a pair is a list of two within the list."""
        templates = [_text(item) for item in (value if isinstance(value, list) else [value])]
        seed = 1000 * self.seed + self.number
        found = [t for one in templates for t in fill_template(one, self.lexicons, n, seed)]
        return list(dict.fromkeys(found))


def _transform(name: str) -> Transform:
    if name == "WordSwapMaskedLM":
        raise SettingsError(f"{name} needs a language model, which a recipe cannot name.")
    return transform(name)


def _kind(row: dict[str, Any]) -> Kind:
    default = "INV" if row.get("perturb") else "MFT"
    for kind in KINDS:
        if row.get("type", default) == kind:
            return kind
    raise TextError(f"'type' must be one of {', '.join(KINDS)}, got {row['type']!r}.")


def _whole(row: dict[str, Any], name: str, default: Any) -> Any:
    value = row.get(name, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise TextError(f"{name!r} must be a whole number of at least 1, got {value!r}.")
    return value


def _text(value: Any) -> Text:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and len(value) == 2 and all(isinstance(x, str) for x in value):
        return (value[0], value[1])
    raise TextError(f"a text is a string or a list of two strings, got {value!r:.60}.")


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TextError(f"{name!r} must be a list.")
    return value


def _strings(value: Any, name: str) -> list[str]:
    if not all(isinstance(item, str) for item in _list(value, name)):
        raise TextError(f"{name!r} must be a list of texts.")
    return list(value)


def _table(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TextError(f"{name!r} must be a table.")
    return value
