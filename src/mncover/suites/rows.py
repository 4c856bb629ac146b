"""Texts to be measured, with the context, label and origin of each."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mncover.data.addresses import recorded, shown
from mncover.data.columns import Coded, Coder, Column, Numbers, small, taken
from mncover.data.jsonpieces import json_pieces
from mncover.data.table import UNKNOWN
from mncover.data.texts import TextFile
from mncover.errors import TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.cases import Case, all_texts, written
from mncover.suites.expectations import is_class
from mncover.suites.model import Outline, Suite, Test
from mncover.types import Text, counted

_COLUMNS = ("texts", "contexts", "labels", "indices", "cases", "lines")


class ClassNumber(int):
    """A label from a data set that names its classes: a number that knows all the names."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, number: int, names: Sequence[str]) -> ClassNumber:
        """Return a class number with the names of all classes; a negative one is unknown."""
        made = cls(number)
        made.names = tuple(names)
        return made


@dataclass(frozen=True, slots=True)
class Rows:
    """Parallel sequences with one entry per text, and where the texts come from.

    They are columns if the texts come from a file or a suite, else lists.

    Labels are as given (None if unknown) until `numbered` makes them class numbers. `indices` are
    places in the file or suite, `cases` the number of the test case, or -1. `lines` is empty
    unless the texts come from a file of texts; `suite` is set if they come from a test suite.
    If these are not all texts of the file or suite, `chosen` says which, and `whole` how many
    there are in all.
    """

    texts: Sequence[Text]
    contexts: Sequence[str]
    labels: Sequence[Any]
    indices: Sequence[int]
    cases: Sequence[int]
    path: Path | None = None
    lines: Sequence[int] = ()
    suite: Suite | None = None
    chosen: str = ""
    whole: int = 0

    @classmethod
    def make(
        cls,
        texts: Sequence[Text],
        context: str | Sequence[str] = "",
        labels: Sequence[Any] | None = None,
    ) -> Rows:
        """Return rows that belong to no test case; `context` is one for all or one per text."""
        if not isinstance(context, Iterable):
            raise TextError(
                f"a context must be a string, or a list of one per text, got {context!r}."
            )
        if isinstance(labels, str) or not isinstance(labels, Iterable | None):
            raise TextError(f"labels must be a list of one per text, got {labels!r}.")
        n = len(texts)
        contexts = Coded.same(context, n) if isinstance(context, str) else list(context)
        given = Coded.same(None, n) if labels is None else list(labels)
        both: tuple[tuple[str, Sequence[Any]], ...] = ("context", contexts), ("label", given)
        for what, values in both:
            if len(values) != len(texts):
                raise TextError(
                    f"got {counted(len(texts), 'text')} but {counted(len(values), what)}."
                )
        if wrong := [c for c in contexts if not isinstance(c, str)]:
            raise TextError(f"a context must be a string, got {wrong[0]!r}.")
        known = texts if isinstance(texts, Column) else list(texts)
        return cls(known, contexts, given, range(n), Numbers.same(UNKNOWN, n))

    @classmethod
    def of_suite(cls, path: Path, suite: Suite) -> Rows:
        """Return the texts of a test suite; each test is a context."""
        texts, sizes = all_texts([test.cases for test in suite.tests]), array("i")
        for test in suite.tests:
            sizes.extend(test.sizes)
        numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        names, each = [test.name for test in suite.tests], [test.texts for test in suite.tests]
        codes = np.arange(len(names), dtype=np.min_scalar_type(len(names)))
        contexts = Coded(names, np.repeat(codes, each))
        labels, n = Coded[Any].same(None, len(texts)), len(texts)
        return cls(texts, contexts, labels, range(n), Numbers(numbers), path, suite=suite)

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, row: int) -> str:
        """Return where a text comes from, for messages."""
        where = f"line {self.lines[row]}" if len(self.lines) else f"text {self.indices[row]}"
        return where if self.path is None else f"{shown(self.path)}, {where}"

    @property
    def fingerprint(self) -> str:
        """A digest of texts, labels and contexts in order, and of what the suite's tests expect."""
        encode = json.JSONEncoder(default=str).encode
        contexts = {name: encode(name) for name in dict.fromkeys(self.contexts)}
        lines = (  # each is a list in JSON, put together here because that is faster
            f"[{encode(text)}, {'null' if label is None else encode(label)}, {contexts[name]}]\n"
            for text, label, name in zip(self.texts, self.labels, self.contexts, strict=True)
        )
        digest = hashlib.sha256()
        for line in lines:
            digest.update(line.encode("ascii"))
        if self.suite is not None:
            for piece in json_pieces(Outline.of(self.suite).in_columns()):
                digest.update(piece)
        if self.chosen:  # the same text may stand in two places
            for piece in json_pieces(self.indices):
                digest.update(piece)
        return digest.hexdigest()

    @property
    def origin(self) -> tuple[str, str, int, str, int]:
        """What a run remembers: file, fingerprint, texts; of a part, which, and of how many."""
        path = "" if self.path is None else recorded(self.path)
        return path, self.fingerprint, len(self), self.chosen, self.whole

    def numbered(self, class_names: Sequence[str]) -> Rows:
        """Return the rows with class numbers as labels, -1 where the class is unknown."""
        if not isinstance(self.labels, Coded):
            return replace(self, labels=label_numbers(self.labels, class_names, self.place))

        def number(row: int, label: Any) -> int:
            return label_numbers([label], class_names, lambda _: self.place(row))[0]

        return replace(self, labels=self.labels.mapped(number))

    def without_cases(self) -> Rows:
        """Return the rows as texts that belong to no test case."""
        return replace(self, cases=Numbers.same(UNKNOWN, len(self)), suite=None)

    def part(self, part: slice) -> Rows:
        """Return some of the rows, all of which are then in memory."""
        return replace(self, **{name: getattr(self, name)[part] for name in _COLUMNS})

    def by_context(self) -> Rows:
        """Return the rows grouped by context, in the order in which contexts first appear."""
        ranks = Coded.of(self.contexts).ranks()
        grouped = bool((ranks[1:] >= ranks[:-1]).all())
        return self if grouped else self.taken(np.argsort(ranks, kind="stable"))

    def taken(self, rows: ArrayLike) -> Rows:
        """Return the given rows, in the given order."""
        places = small(rows)
        columns = [(name, getattr(self, name)) for name in _COLUMNS]
        found: dict[str, Any] = {name: taken(v, places) for name, v in columns if len(v)}
        return replace(self, **found)

    def cuts_of_contexts(self) -> list[tuple[int, int]]:
        """Return the places between which the context does not change."""
        ranks = Coded.of(self.contexts).ranks()
        cuts = [0, *(np.flatnonzero(ranks[1:] != ranks[:-1]) + 1).tolist(), len(self)]
        return list(pairwise(cuts)) if len(self) else []

    def runs_of_contexts(self) -> Iterator[Rows]:
        """Yield the rows cut wherever the context changes."""
        return (self.taken(np.arange(*cut)) for cut in self.cuts_of_contexts())


class RowWriter:
    """Makes the rows of a file of texts, text by text."""

    def __init__(self) -> None:
        self._texts, self._lines = TextFile(), array("q")
        self._labels, self._contexts = Coder[Any](), Coder[str]()

    def add(self, line: int, text: Text, label: Any, context: str) -> None:
        """Add the text of a line to the end."""
        self._texts.add(text)
        self._lines.append(line)
        self._labels.add(label)
        self._contexts.add(context)

    def __len__(self) -> int:
        return len(self._lines)

    def rows(self, path: Path) -> Rows:
        """Return what was added."""
        columns = self._texts.texts(), self._contexts.column(), self._labels.column()
        unknown, lines = Numbers.same(UNKNOWN, len(self)), Numbers(small(self._lines))
        return Rows(*columns, range(len(self)), unknown, path, lines)


def judged_texts(rows: Rows) -> Rows:
    """Return texts of a file as a suite: each is a case that the user's function judges."""
    file, tests = TextFile(), []
    for part in rows.by_context().runs_of_contexts():
        each = zip(part.texts, part.labels, strict=True)
        labelled = (Case((text,), label if is_class(label) else None) for text, label in each)
        cases = written(labelled, file)
        tests.append(Test(part.contexts[0], "MFT", AnswerExpectation("judge"), cases))
    return Rows.of_suite(rows.path or Path("texts"), Suite(tuple(tests)))


def fitting_labels(labels: Sequence[Any], class_names: Sequence[str]) -> list[int] | None:
    """Return the class number of each label; None if they are about something else."""
    try:
        return label_numbers(labels, class_names)
    except TextError:
        return None


def label_numbers(
    labels: Sequence[Any], names: Sequence[str], place: Callable[[int], str] = "text {}".format
) -> list[int]:
    """Return the class number of each label, which is a number or a class name; -1 if unknown.

    Case does not matter, and None, NaN and -1 are unknown. For a model without classes all labels
    are unknown. The numbers of a data set that shares names with the model count by name. `place`
    says where a label comes from, for messages.

    >>> label_numbers(["POSITIVE", 0, "1", None], ["negative", "positive"])
    [1, 0, 1, -1]
    """
    if not names:
        return [UNKNOWN] * len(labels)
    named = {name.casefold(): i for i, name in enumerate(names)}
    known = {str(i): i for i in range(len(names))} | named
    numbers = []
    for index, given in enumerate(labels):
        label = _by_name(given, named)
        number = _number(label, known)
        if number is None:
            classes = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
            what = f"the label {label!r} is none of the model's classes {classes}."
            raise TextError(f"{place(index)}: {what}")
        numbers.append(number)
    return numbers


def _by_name(label: Any, named: Mapping[str, int]) -> Any:
    """Return the name of a data set's class if the model knows any of its names."""
    if not isinstance(label, ClassNumber) or not 0 <= label < len(label.names):
        return label
    shared = any(name.casefold() in named for name in label.names)
    return label.names[label] if shared else int(label)


def _number(label: Any, known: dict[str, int]) -> int | None:
    if label is None or label in (UNKNOWN, str(UNKNOWN)) or label != label:  # NaN is not itself
        return UNKNOWN
    if isinstance(label, float) and label.is_integer():  # how tables store whole numbers
        label = int(label)
    return known.get(str(label).strip().casefold())
