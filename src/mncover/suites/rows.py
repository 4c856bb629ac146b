"""Texts to be measured, with the context, label and place of each.

Labels of a data set as numbers of a model's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mncover.data.table import UNKNOWN
from mncover.errors import TextError
from mncover.types import Text


@dataclass(frozen=True, slots=True)
class Rows:
    """Parallel lists: text, context, class number (or -1), place in the suite, case (or -1)."""

    texts: Sequence[Text]
    contexts: Sequence[str]
    labels: Sequence[int]
    indices: Sequence[int]
    cases: Sequence[int]

    @classmethod
    def make(
        cls,
        texts: Sequence[Text],
        context: str | Sequence[str],
        labels: Sequence[Any] | None,
        class_names: Sequence[str],
    ) -> Rows:
        """Return rows; `context` is one for all or one per text."""
        contexts = [context] * len(texts) if isinstance(context, str) else list(context)
        given = [None] * len(texts) if labels is None else list(labels)
        for what, values in (("contexts", contexts), ("labels", given)):
            if len(values) != len(texts):
                raise TextError(f"got {len(texts)} texts but {len(values)} {what}.")
        wrong = next((c for c in contexts if not isinstance(c, str)), None)
        if wrong is not None:
            raise TextError(f"a context must be a string, got {wrong!r}.")
        numbers = label_numbers(given, class_names)
        return cls(texts, contexts, numbers, range(len(texts)), [UNKNOWN] * len(texts))

    def __len__(self) -> int:
        return len(self.texts)

    def part(self, part: slice) -> Rows:
        """Return some rows."""
        return Rows(
            self.texts[part],
            self.contexts[part],
            self.labels[part],
            self.indices[part],
            self.cases[part],
        )

    def by_context(self) -> Rows:
        """Return the rows grouped by context, in the order in which contexts first appear."""
        places = {name: place for place, name in enumerate(dict.fromkeys(self.contexts))}
        order = sorted(range(len(self)), key=lambda row: places[self.contexts[row]])
        return Rows(
            [self.texts[i] for i in order],
            [self.contexts[i] for i in order],
            [self.labels[i] for i in order],
            [self.indices[i] for i in order],
            [self.cases[i] for i in order],
        )

    def runs_of_contexts(self) -> list[Rows]:
        """Return the rows cut wherever the context changes."""
        cuts = [i for i in range(1, len(self)) if self.contexts[i] != self.contexts[i - 1]]
        edges = [0, *cuts, len(self)]
        return [self.part(slice(a, b)) for a, b in pairwise(edges) if b > a]


def label_numbers(
    labels: Sequence[Any],
    names: Sequence[str],
    place: Callable[[int], str] = "text {}".format,
) -> list[int]:
    """Return the class number of each label: a number or a class name; None and -1 are unknown.

    Names are compared without regard to case; a number may also be written as text. A model
    without classes has no use for labels: all are unknown. `place` names a label's origin.

    >>> label_numbers(["POSITIVE", 0, "1", None], ["negative", "positive"])
    [1, 0, 1, -1]
    """
    if not names:
        return [UNKNOWN] * len(labels)
    known = {str(i): i for i in range(len(names))}
    known |= {name.casefold(): i for i, name in enumerate(names)}
    numbers = []
    for index, label in enumerate(labels):
        number = _number(label, known)
        if number is None:
            classes = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
            raise TextError(
                f"{place(index)}: the label {label!r} is none of the model's classes {classes}."
            )
        numbers.append(number)
    return numbers


def _number(label: Any, known: dict[str, int]) -> int | None:
    if label is None or label in (UNKNOWN, str(UNKNOWN)) or label != label:  # NaN is not itself
        return UNKNOWN
    if isinstance(label, float) and label.is_integer():  # how tables store whole numbers
        label = int(label)
    return known.get(str(label).strip().casefold())
