"""Read the flagged texts that `mncover gaps -o` wrote as a file of texts, as cases to be judged.

The file has what the model answered, and nothing of its inside. No torch here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mncover.data.identity import Identity, Run
from mncover.data.layout import Layout
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN, Table
from mncover.errors import DataFileError, TextError
from mncover.suites.formats import read_records
from mncover.suites.formats.records import Fields, choose_fields, pick
from mncover.suites.rows import Rows
from mncover.types import Settings, Text

KINDS = (".jsonl", ".csv", ".tsv")
CHANCES = "probabilities"  # the field that has the probability of each class, by name

Row = tuple[Text, Any, dict[str, float]]  # a text, the label that somebody gave, and probabilities


def is_flagged(path: Path) -> bool:
    """Return whether a file has the name of flagged texts, rather than of a data file."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower() in KINDS


def read_flagged(path: Path) -> CoverageData:
    """Return flagged texts as data without coverage; labels that were filled in are kept."""
    found = list(_rows(path))
    if not found:
        raise DataFileError(f"{path}: the file holds no text.")
    texts, labels, chances = zip(*found, strict=True)
    classes = tuple(chances[0])
    if any(tuple(one) != classes for one in chances):
        raise DataFileError(f"{path}: the texts have different classes, so they are of two models.")
    try:
        rows = Rows.make(list(texts), labels=list(labels)).numbered(classes)
    except TextError as error:
        raise DataFileError(f"{path}: {error}") from None
    shares = np.array([list(one.values()) for one in chances], dtype=np.float32)
    data = CoverageData(
        Identity(str(path), Settings(), "", "", "", Layout(()), classes, 0, None, ())
    )
    data.runs = [Run.start(str(path), texts=len(rows))]
    data.add_rows(
        Table.make(
            rows.texts,
            shares,
            {},
            run=0,
            number=np.arange(len(rows)),
            context=data.context_number(""),
            index=rows.indices,
            case=UNKNOWN,
            length=UNKNOWN,
            truncated=False,
            label=rows.labels,
            prediction=shares.argmax(axis=1) if classes else UNKNOWN,
        )
    )
    return data


def _rows(path: Path) -> Iterator[Row]:
    fields: Fields | None = None
    try:
        for line, record in read_records(path):
            if not isinstance(record, dict) or CHANCES not in record:
                raise DataFileError(
                    f"{path}, line {line}: no field {CHANCES!r}: give a data file, or the texts "
                    "that `mncover gaps -o` wrote."
                )
            fields = fields or choose_fields(record, Fields())
            text, _, _ = pick(record, fields, "")
            yield text, record.get("label") or None, _chances(record[CHANCES], path, line)
    except TextError as error:
        raise DataFileError(str(error)) from None


def _chances(given: Any, path: Path, line: int) -> dict[str, float]:
    """Return the probability of each class; in a table they are JSON in a cell."""
    try:
        found = json.loads(given) if isinstance(given, str) else given
        chances = {str(name): float(share) for name, share in found.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        chances = {"": -1.0}
    if not all(0 <= share <= 1 for share in chances.values()):
        raise DataFileError(
            f"{path}, line {line}: {CHANCES!r} must be a JSON object of classes and shares."
        )
    return chances
