"""Make a suite of tests from a recipe, a TOML file of templates and perturbations. No torch here.

docs/suites.md describes it. Every complaint names the file and the test.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mncover.config import read_toml
from mncover.errors import MnCoverError, TextError
from mncover.suites.expectations import Expectation
from mncover.suites.model import KINDS, Case, Kind, Suite, Test
from mncover.suites.perturbations import perturbation, variants_of
from mncover.suites.templates import fill_template
from mncover.suites.textfile import read_texts
from mncover.texts import Text

_KNOWN = {
    *("name", "type", "capability", "description", "expectation", "label"),
    *("template", "texts", "file", "n", "perturb", "variants"),
}


def make_suite(path: Path, seed: int = 0) -> Suite:
    """Return the suite that a recipe describes; equal seeds give equal suites."""
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
            raise TextError(f"unknown {unknown[0]!r}; known are {', '.join(sorted(_KNOWN))}.")
        cases = self._cases(row)
        if not cases:
            raise TextError("it has no cases: nothing in its texts can be changed so.")
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
        perturbs = [perturbation(name) for name in _strings(row.get("perturb", []), "perturb")]
        if not perturbs:
            return [Case((text,), label) for text in texts]
        n, rng = _whole(row, "variants", 1), random.Random(f"{self.seed} {self.number}")
        changed = [(text, variants_of(text, perturbs, n, rng)) for text in texts]
        return [Case((text, *variants), label) for text, variants in changed if variants]

    def _texts(self, row: dict[str, Any]) -> list[Text]:
        given = [source for source in ("template", "texts", "file") if source in row]
        if len(given) != 1:
            raise TextError("give its texts by one of 'template', 'texts' and 'file'.")
        n = _whole(row, "n", None)
        makers: dict[str, Callable[[Any], list[Text]]] = {
            "template": lambda value: self._filled(value, n),
            "texts": lambda value: [_text(item) for item in _list(value, "texts")],
            "file": lambda value: read_texts(self.folder / str(value)).texts,
        }
        found = makers[given[0]](row[given[0]])
        if n is not None and len(found) > n:
            found = random.Random(f"{self.seed} {self.number} texts").sample(found, n)
        return found

    def _filled(self, value: Any, n: int | None) -> list[Text]:
        """Fill one template, or several in turn; a pair is a list of two in the list."""
        templates = [_text(item) for item in (value if isinstance(value, list) else [value])]
        seed = 1000 * self.seed + self.number
        found = [t for one in templates for t in fill_template(one, self.lexicons, n, seed)]
        return list(dict.fromkeys(found))


def _kind(row: dict[str, Any]) -> Kind:
    default = "INV" if row.get("perturb") else "MFT"
    for kind in KINDS:
        if row.get("type", default) == kind:
            return kind
    raise TextError(f"'type' must be one of {', '.join(KINDS)}, got {row['type']!r}.")


def _whole(row: dict[str, Any], name: str, default: Any) -> Any:
    value = row.get(name, default)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
        raise TextError(f"{name!r} must be a whole number from 1, got {value!r}.")
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
