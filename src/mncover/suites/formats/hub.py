"""Data sets by name: `hf:NAME[:CONFIG][:SPLIT]`, on the Hugging Face hub or in a folder.

The one place that imports datasets, which from version 4 on runs no code that a data set brings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mncover.errors import MissingExtraError, TextError
from mncover.suites.formats.records import Record, TextFormat
from mncover.suites.rows import ClassNumber

PREFIX = "hf:"
SHAPE = f"{PREFIX}NAME[:CONFIG][:SPLIT]"
_COLON = re.compile(r":(?![^\[]*\])")  # not that of a part of a split: train[:100]


def is_hub(path: str | Path) -> bool:
    """Return whether a path is the name of a data set."""
    return Path(path).as_posix().startswith(PREFIX)


def with_class_names(table: Any, name: Any, values: Iterable[Any]) -> Iterable[Any]:
    """Return a column; class numbers of a data set that names its classes know these names."""
    features = getattr(table, "features", None) or {}
    names = getattr(features.get(name), "names", None)
    if names is None:
        return values
    return [None if value is None else ClassNumber.of(value, names) for value in values]


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError("reading a data set by name", "datasets", "datasets") from error
    return datasets


def _load(path: Path) -> Any:
    """Return one split of a data set."""
    address, datasets = path.as_posix(), _datasets()
    name, *rest = _COLON.split(address.removeprefix(PREFIX))
    if not name or len(rest) > 2 or "" in rest:
        raise TextError(f"{address}: the name of a data set is {SHAPE}.")
    config, split = rest[0] if len(rest) == 2 else None, rest[-1] if rest else None
    try:
        found = datasets.load_dataset(name, config, split=split)
    except (
        OSError,
        ValueError,
        KeyError,
        RuntimeError,
        datasets.exceptions.DatasetsError,
    ) as error:
        why = " ".join(str(error).split())[:200].rstrip(".")
        raise TextError(f"{address}: cannot be loaded ({why}).") from error
    if split is not None:
        return found
    if len(found) > 1:
        listed = ", ".join(found)
        raise TextError(f"{address}: it has the splits {listed}; name one, as in {address}:SPLIT.")
    return next(iter(found.values()))


def _read(path: Path) -> Iterator[Record]:
    found = _load(path)
    columns = [with_class_names(found, name, found[name]) for name in found.column_names]
    rows = zip(*columns, strict=True)
    return ((n, dict(zip(found.column_names, row, strict=True))) for n, row in enumerate(rows, 1))


def _copy(path: Path, places: Sequence[int]) -> bytes:
    """Return some of the records as JSON lines."""
    chosen = _load(path).select(places)
    return "".join(json.dumps(record, default=str) + "\n" for record in chosen).encode()


DATASET = TextFormat(_read, _copy, gzip=False)
