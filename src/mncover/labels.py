"""Labels of a data set as numbers of a model's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mncover.errors import TextError
from mncover.table import UNKNOWN


def label_numbers(labels: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Return the class number of each label: a number, a class name, or None for unknown.

    Names are compared without regard to case; a number may also be written as text. A model
    without classes has no use for labels: all are unknown.

    >>> label_numbers(["POSITIVE", 0, "1", None], ["negative", "positive"])
    [1, 0, 1, -1]
    """
    if not names:
        return [UNKNOWN] * len(labels)
    known = {str(i): i for i in range(len(names))}
    known |= {name.casefold(): i for i, name in enumerate(names)}
    return [_number(label, place, known, names) for place, label in enumerate(labels)]


def _number(label: Any, place: int, known: dict[str, int], names: Sequence[str]) -> int:
    if label is None:
        return UNKNOWN
    if isinstance(label, float) and label.is_integer():  # how tables store whole numbers
        label = int(label)
    number = known.get(str(label).strip().casefold())
    if number is None:
        raise TextError(
            f"text {place} has the label {label!r}, but the model's classes are "
            f"{', '.join(f'{i} ({name})' for i, name in enumerate(names))}."
        )
    return number
