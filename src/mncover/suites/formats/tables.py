"""Tables with named columns: CSV, TSV and Parquet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mncover.errors import MissingExtraError, TextError
from mncover.suites.formats.records import Record, TextFormat, open_lines


def _read_delimited(path: Path, delimiter: str) -> Iterator[Record]:
    rows = csv.reader(open_lines(path), delimiter=delimiter, strict=True)
    header: list[str] = []
    try:
        for row in rows:
            place = f"{path}, line {rows.line_num}"
            if not header:
                header = [name.strip() for name in row]
                if len(set(header)) != len(header):
                    raise TextError(f"{place}: a field name occurs twice in the header.")
            elif row and len(row) != len(header):
                raise TextError(f"{place}: {len(row)} fields, but the header has {len(header)}.")
            elif row:
                yield rows.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:
        raise TextError(f"{path}, line {rows.line_num}: {error}.") from error


def _copy_delimited(path: Path, places: Sequence[int], delimiter: str) -> bytes:
    records = [record for _, record in _read_delimited(path, delimiter)]
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerows([record.keys() for record in records[:1]])
    writer.writerows(records[place].values() for place in places)
    return buffer.getvalue().encode()


def _delimited(delimiter: str) -> TextFormat:
    read = partial(_read_delimited, delimiter=delimiter)
    return TextFormat(read, partial(_copy_delimited, delimiter=delimiter))


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "pyarrow", "parquet") from error
    return pyarrow


def _read_parquet(path: Path) -> Iterator[Record]:
    pyarrow = _pyarrow()
    if not path.is_file():
        raise TextError(f"{path}: no such file.")
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (pyarrow.ArrowException, OSError) as error:
        raise TextError(f"{path}: not a readable Parquet file ({error}).") from error


def _copy_parquet(path: Path, places: Sequence[int]) -> bytes:
    pyarrow = _pyarrow()
    rows = pyarrow.parquet.read_table(path).take(pyarrow.array(places, pyarrow.int64()))
    content = io.BytesIO()
    pyarrow.parquet.write_table(rows, content)
    return content.getvalue()


CSV, TSV = _delimited(","), _delimited("\t")
PARQUET = TextFormat(_read_parquet, _copy_parquet, gzip=False)
