"""Write accepted texts as JSON Lines, in the fields that their seeds came in. No torch here."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mncover.augmentation.records import Accepted
from mncover.files import replacing
from mncover.suites.jsonl import json_line
from mncover.suites.textfile import Fields, TextFile
from mncover.texts import Text


def write_accepted(
    path: Path,
    accepted: Sequence[Accepted],
    seeds: TextFile,
    names: Fields,
    include_seeds: bool = False,
) -> None:
    """Write a line for each accepted text, with its seed's label; a name in .gz is compressed."""
    content = b"".join(map(json_line, _rows(accepted, seeds, names, include_seeds)))
    with replacing(path) as temporary:
        zipped = path.name.endswith(".gz")
        temporary.write_bytes(gzip.compress(content, mtime=0) if zipped else content)


def _rows(
    accepted: Sequence[Accepted], seeds: TextFile, names: Fields, include_seeds: bool
) -> Iterator[dict[str, Any]]:
    if include_seeds:
        for text, label in zip(seeds.texts, seeds.labels, strict=True):
            yield _row(text, label, names)
    for one in accepted:
        seed = one.seed % len(seeds.texts)  # the search may have gone over them several times
        row = _row(one.text, seeds.labels[seed], names)
        row |= {"seed": seed, "transforms": list(one.transforms)}
        row["similarity"] = round(one.similarity, 4)
        if one.gain is not None:
            row["gain"] = one.gain
        yield row


def _row(text: Text, label: Any, names: Fields) -> dict[str, Any]:
    if isinstance(text, str):
        row: dict[str, Any] = {names.text or "text": text}
    else:
        first, second = names.text or "text", names.pair or "pair"
        row = {first: text[0], second: text[1]}
    return row if label is None else row | {names.label or "label": label}
