"""Write some records of a file of texts, in the format they came in. No torch here."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mncover.errors import TextError
from mncover.files import replacing
from mncover.suites.textfile import (
    kind_of,
    raw_lines,
    read_records,
    write_parquet_rows,
)
from mncover.texts import Text, shorten


def write_records(
    source: Path, chosen: Sequence[tuple[int, Text]], total: int, output: Path
) -> None:
    """Copy records of a file of texts, whole, to a file of the same kind.

    `chosen` has the place of each record and the text that was run; a file that has changed
    since then is refused.
    """
    kind = kind_of(source)
    if kind_of(output) != kind:
        raise TextError(f"{output}: {source} is {kind}, so what is taken from it is too.")
    records = list(read_records(source))
    if len(records) != total:
        raise TextError(
            f"{source}: it has {len(records):,} texts, but {total:,} were run; name the file "
            "that was run with --suite."
        )
    for place, text in chosen:
        line, record = records[place]
        if not _holds(record, text):
            raise TextError(
                f'{source}, line {line}: the text that was run, "{shorten(text)}", is not there; '
                "name the file that was run with --suite."
            )
    places = [place for place, _ in chosen]
    with replacing(output) as temporary:
        if kind == ".parquet":
            write_parquet_rows(source, places, temporary)
            return
        content = _content(source, kind, [records[place] for place in places])
        temporary.write_bytes(
            gzip.compress(content, mtime=0) if output.suffix == ".gz" else content
        )


def _holds(record: Any, text: Text) -> bool:
    parts = [text] if isinstance(text, str) else list(text)
    if isinstance(record, dict):
        return all(part in record.values() for part in parts)
    return bool(record == (parts[0] if isinstance(record, str) else parts))


def _content(source: Path, kind: str, records: Sequence[tuple[int, Any]]) -> bytes:
    """Return the records as bytes: lines as they were, tables with their header."""
    if kind not in (".csv", ".tsv"):
        lines = dict(raw_lines(source))
        return "".join(lines[number] + "\n" for number, _ in records).encode()
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter="," if kind == ".csv" else "\t", lineterminator="\n")
    if records:
        writer.writerow(records[0][1])
    writer.writerows(record.values() for _, record in records)
    return buffer.getvalue().encode()
