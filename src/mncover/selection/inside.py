"""Scores that look at where a text lies among the training texts, and at another model.

The first compare in the middle layer, by the signatures of a run. A case has the largest score of
its texts; a text that was not run, such as an empty one, has 0. No torch here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN, Table
from mncover.errors import DataFileError, MismatchError, SettingsError
from mncover.selection.cases import NEIGHBOURS, Cases
from mncover.types import Text

Array = NDArray[np.float64]

SURPRISE_AT = 10  # the distance to this nearest training text is the surprise


def no_signatures(cases: Cases) -> str:
    """Return "" if it is known where the texts lie among the training texts, else what lacks."""
    space = cases.data.space
    if space is None or not cases.data.table.signatures.shape[1] or not len(space.reference):
        return "the data has no signatures: run the suite again, without --no-signatures."
    return ""


def no_neighbours(cases: Cases) -> str:
    """Return "" if the classes of the training texts and of the answers are known too."""
    if lacks := no_signatures(cases) or _no_answers("neighbours", cases):
        return lacks
    space = cases.data.space
    if space is None or (space.labels == UNKNOWN).all():
        return (
            "the data does not have the classes of the training texts: run the suite again with "
            "a --train file whose labels (--label FIELD) are the model's classes."
        )
    return ""


def _no_answers(method: str, cases: Cases) -> str:
    """Say so if no text was answered with a class: there is none, or several may be true."""
    if (cases.data.table["prediction"] == UNKNOWN).all():
        return f"{method} needs a model that answers with one class, and this one does not."
    return ""


def neighbours(cases: Cases, seed: int = 0) -> Array:
    """Return the share of the nearest training texts that have another class than the answer.

    Training texts whose class is unknown do not count.
    """
    space, prediction = cases.data.space, cases.data.table["prediction"]
    assert space is not None
    labels = space.labels[cases.nearest.places]
    known = labels != UNKNOWN
    other = (known & (labels != prediction[:, None])).sum(axis=1)
    share = other / np.maximum(known.sum(axis=1), 1)
    answered = (prediction != UNKNOWN) & np.isfinite(cases.nearest.distances).all(axis=1)
    return cases.largest(np.where(answered, share, 0.0))


def surprise(cases: Cases, seed: int = 0) -> Array:
    """Return the distance to the 10th nearest training text, or to the last if there are fewer."""
    distances = cases.nearest.distances
    at = min(SURPRISE_AT, NEIGHBOURS, distances.shape[1]) - 1
    return cases.largest(np.nan_to_num(distances[:, at], nan=0.0))


def second_opinion(cases: Cases, other: CoverageData) -> Array:
    """Return 1 less the probability that another model gives to this model's answer.

    Texts are matched by what they say; refuse data that lacks some, or a model of other classes.
    """
    if lacks := _no_answers("second", cases):
        raise SettingsError(lacks)
    mine, theirs = cases.data.identity.labels, other.identity.labels
    if [name.casefold() for name in mine] != [name.casefold() for name in theirs]:
        raise MismatchError(
            f"its model has the classes {_names(theirs)}, this one has {_names(mine)}."
        )
    texts, table = cases.data.table.texts, other.table
    rows = _rows_of(texts, table)
    if missing := [text for text, row in zip(texts, rows, strict=True) if row == UNKNOWN]:
        raise DataFileError(
            f"it lacks {len(missing):,} of {len(texts):,} texts, such as {missing[0]!r:.60}: run "
            "the same texts through the other model."
        )
    prediction = cases.data.table["prediction"]
    given = table.probabilities[rows, prediction].astype(np.float64)
    doubt = np.where(prediction == UNKNOWN, 0.0, 1 - np.nan_to_num(given, nan=1.0))
    return cases.largest(doubt)


def _rows_of(texts: Sequence[Text], table: Table) -> NDArray[np.int64]:
    """Return the row that each text has in a table, or UNKNOWN."""
    places = {text: row for row, text in enumerate(table.texts)}
    return np.array([places.get(text, UNKNOWN) for text in texts], dtype=np.int64)


def _names(classes: Sequence[str]) -> str:
    return ", ".join(classes) or "none"
