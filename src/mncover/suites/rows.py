"""Texts to be measured, with the context, label and origin of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise, repeat
from pathlib import Path
from typing import Any

from mncover.data.table import UNKNOWN
from mncover.errors import TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.expectations import is_class
from mncover.suites.model import Case, Outline, Suite, Test
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
    """Parallel lists with one entry per text, and where the texts come from.

    Labels are as given (None if unknown) until `numbered` makes them class numbers. `indices` are
    places in the file or suite, `cases` the number of the test case, or -1. `lines` is empty
    unless the texts come from a file of texts; `suite` is set if they come from a test suite.
    If these are not all texts of the file or suite, `chosen` says which, and `whole` how many
    there are in all.
    """

    texts: list[Text]
    contexts: list[str]
    labels: list[Any]
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
        contexts = [context] * len(texts) if isinstance(context, str) else list(context)
        given = [None] * len(texts) if labels is None else list(labels)
        for what, values in (("context", contexts), ("label", given)):
            if len(values) != len(texts):
                raise TextError(
                    f"got {counted(len(texts), 'text')} but {counted(len(values), what)}."
                )
        if wrong := [c for c in contexts if not isinstance(c, str)]:
            raise TextError(f"a context must be a string, got {wrong[0]!r}.")
        return cls(list(texts), contexts, given, range(len(texts)), [UNKNOWN] * len(texts))

    @classmethod
    def of_suite(cls, path: Path, suite: Suite) -> Rows:
        """Return the texts of a test suite; each test is a context."""
        sizes = [len(case.texts) for test in suite.tests for case in test.cases]
        contexts = [name for test in suite.tests for name in repeat(test.name, test.texts)]
        rows = cls.make(list(suite.each_text()), contexts)
        numbers = list(chain.from_iterable(map(repeat, range(len(sizes)), sizes)))
        return replace(rows, cases=numbers, path=path, suite=suite)

    def __len__(self) -> int:
        return len(self.texts)

    def place(self, row: int) -> str:
        """Return where a text comes from, for messages."""
        where = f"line {self.lines[row]}" if self.lines else f"text {self.indices[row]}"
        return where if self.path is None else f"{self.path}, {where}"

    @property
    def fingerprint(self) -> str:
        """A digest of texts, labels and contexts in order, and of what the suite's tests expect."""
        encode = json.JSONEncoder(default=str).encode
        contexts = {name: encode(name) for name in dict.fromkeys(self.contexts)}
        lines = (  # each is a list in JSON, put together here because that is faster
            f"[{encode(text)}, {'null' if label is None else encode(label)}, {contexts[name]}]\n"
            for text, label, name in zip(self.texts, self.labels, self.contexts, strict=True)
        )
        digest = hashlib.sha256("".join(lines).encode("ascii"))
        if self.suite is not None:
            digest.update(json.dumps(Outline.of(self.suite).to_json()).encode("ascii"))
        if self.chosen:  # the same text may stand in two places
            digest.update(json.dumps(list(self.indices)).encode("ascii"))
        return digest.hexdigest()

    @property
    def origin(self) -> tuple[str, str, int, str, int]:
        """What a run remembers: file, fingerprint, texts; of a part, which, and of how many."""
        return str(self.path or ""), self.fingerprint, len(self), self.chosen, self.whole

    def numbered(self, class_names: Sequence[str]) -> Rows:
        """Return the rows with class numbers as labels, -1 where the class is unknown."""
        return replace(self, labels=label_numbers(self.labels, class_names, self.place))

    def without_cases(self) -> Rows:
        """Return the rows as texts that belong to no test case."""
        return replace(self, cases=[UNKNOWN] * len(self), suite=None)

    def part(self, part: slice) -> Rows:
        """Return some of the rows."""
        return replace(self, **{name: getattr(self, name)[part] for name in _COLUMNS})

    def by_context(self) -> Rows:
        """Return the rows grouped by context, in the order in which contexts first appear."""
        places = {name: place for place, name in enumerate(dict.fromkeys(self.contexts))}
        return self.taken(sorted(range(len(self)), key=lambda row: places[self.contexts[row]]))

    def taken(self, rows: Sequence[int]) -> Rows:
        """Return the given rows, in the given order."""
        columns = [(name, getattr(self, name)) for name in _COLUMNS]
        found: dict[str, Any] = {name: [v[row] for row in rows] for name, v in columns if v}
        return replace(self, **found)

    def runs_of_contexts(self) -> list[Rows]:
        """Return the rows cut wherever the context changes."""
        sizes = [len(list(run)) for _, run in groupby(self.contexts)]
        return [self.part(slice(a, b)) for a, b in pairwise(accumulate(sizes, initial=0))]


def judged_texts(rows: Rows) -> Rows:
    """Return texts of a file as a suite: each is a case that the user's function judges."""
    ordered, tests = rows.by_context(), []
    for part in ordered.runs_of_contexts():
        each = zip(part.texts, part.labels, strict=True)
        cases = tuple(Case((text,), label if is_class(label) else None) for text, label in each)
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
