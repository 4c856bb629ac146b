"""Labels of a data set as numbers of a model's classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mncover.errors import TextError
from mncover.table import UNKNOWN


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
