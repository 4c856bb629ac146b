"""Files of records: what a format offers, how lines are read, which fields are texts.

CSV, TSV and Parquet have their readers here; JSON Lines have a module of their own.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mncover.data.gzipped import DAMAGED, open_bytes
from mncover.data.limits import LINE, ROWS, check_bytes
from mncover.data.writing import replacing
from mncover.errors import MissingExtraError, MnCoverError, SettingsError, TextError
from mncover.suites.model import Suite
from mncover.types import Text, brief, is_text

# A line (or row) number with a dictionary, a string, or a list of two strings.
Record = tuple[int, Any]

# Python's csv module takes 131,072 characters unless told; a C `long` may have but 32 bits.
LONGEST_FIELD = 2**31 - 1

TEXT_FIELDS = ("text", "sentence", "content", "review", "question")
PAIR_FIELDS = (
    *(("premise", "hypothesis"), ("sentence1", "sentence2"), ("question1", "question2")),
    *(("text1", "text2"), ("s1", "s2"), ("text", "pair")),
)


@dataclass(frozen=True, slots=True)
class TextFormat:
    """How to read a kind of text file, and how to copy some of its records.

    `read` yields all records. `copy` returns the content of a file that has only the records at
    the given places, counted from 0. `gzip` says whether the file may be compressed.
    """

    read: Callable[[Path], Iterator[Record]]
    copy: Callable[[Path, Sequence[int]], bytes]
    gzip: bool = True


@dataclass(frozen=True, slots=True)
class SuiteFormat:
    """How to read a kind of test suite, and how to write one, if that is supported.

    `accepts` tells suites from other files with the same suffix.
    """

    read: Callable[[Path], Suite]
    write: Callable[[Suite, Path], None] | None = None
    accepts: Callable[[Path], bool] = lambda path: True


def raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of a text file, without their line endings."""
    return ((number, line.rstrip("\r\n")) for number, line in enumerate(open_lines(path), start=1))


def open_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file, gzipped or not; a leading byte order mark is dropped."""
    number, longest, most = 0, LINE.value, ROWS.value
    try:
        with open_bytes(path) as file:
            for number, raw in enumerate(iter(partial(file.readline, longest + 1), b""), start=1):
                if len(raw) > longest or number > most:
                    LINE.check(len(raw), f"{path}, line {number}: bytes")
                    ROWS.check(number, f"{path}: lines")
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}, line {number}: not UTF-8 ({error.reason}).") from error
    except FileNotFoundError as error:
        raise TextError(f"{path}: no such file.") from error
    except DAMAGED as error:
        raise TextError(f"{path}: cannot be read ({error}).") from error


def write_content(content: bytes, path: Path) -> None:
    """Replace a file in one step; a name that ends with .gz is compressed."""
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _read_plain(path: Path) -> Iterator[Record]:
    return ((number, line) for number, line in raw_lines(path) if line.strip())


def _copy_plain(path: Path, places: Sequence[int]) -> bytes:
    lines = [line for _, line in _read_plain(path)]
    return "".join(f"{lines[place]}\n" for place in places).encode()


PLAIN = TextFormat(_read_plain, _copy_plain)  # one text per line; blank lines are skipped


@dataclass(frozen=True, slots=True)
class Fields:
    """The names of the fields to read; None stands for the usual names."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    context: str | None = None


def choose_fields(record: Any, fields: Fields) -> Fields:
    """Return the fields to read from a file, given its first record."""
    names = set(record) if isinstance(record, dict) else set()
    listed = ", ".join(map(repr, sorted(names))) or "no fields"
    for name in astuple(fields):
        if name is not None and name not in names:
            raise TextError(f"no field {name!r}; it has {listed}.")
    text, pair = fields.text, fields.pair
    if text is None and pair is not None:
        raise SettingsError("`pair` names the second text; name the first one with `text` too.")
    if text is None and names:
        usual = (*PAIR_FIELDS, *((name, None) for name in TEXT_FIELDS))
        text, pair = next((both for both in usual if {*both} <= {*names, None}), (None, None))
        if text is None:
            what = f"which field is the text? It has {listed}"
            raise TextError(f"{what}; name one with --text (and --pair).")
    label = fields.label or ("label" if "label" in names else None)
    context = fields.context or ("context" if "context" in names else None)
    return Fields(text, pair, label, context)


def pick(record: Any, fields: Fields, context: str) -> tuple[Text, Any, str]:
    """Return the text, label and context of a record; `context` is the default."""
    if isinstance(record, dict) and fields.text is not None:
        text = _string(record, fields.text)
        whole = (text, _string(record, fields.pair)) if fields.pair else text
        label = record.get(fields.label) if fields.label else None
        own = _string(record, fields.context) if fields.context else context
        return whole, None if label == "" else label, own
    alone: Any = tuple(record) if isinstance(record, list) else record
    if fields.text is None and is_text(alone):
        return alone, None, context
    what = "an object" if fields.text else "a string or a list of two strings"
    raise TextError(f"expected {what}, got {brief(record)}.")


def _string(record: dict[str, Any], name: str) -> str:
    if name not in record:
        raise TextError(f"no field {name!r}.")
    value = record[name]
    if not isinstance(value, str):
        raise TextError(f"field {name!r} must be text, got {brief(value)}.")
    return value


def _read_delimited(path: Path, delimiter: str) -> Iterator[Record]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
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


def import_pyarrow(what: str = "reading Parquet") -> Any:
    """Return pyarrow; `what` says what needs it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError(what, "pyarrow", "parquet") from error
    return pyarrow


def _read_parquet(path: Path) -> Iterator[Record]:
    pyarrow = import_pyarrow()
    if not path.is_file():
        raise TextError(f"{path}: no such file.")
    number = found = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            ROWS.check(file.metadata.num_rows, f"{path}: rows")
            # Few rows at a time: thousands may share one long text, which each gets a copy of.
            for batch in file.iter_batches(batch_size=32):
                found += batch.nbytes
                check_bytes(found, path.stat().st_size, str(path))
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except MnCoverError:
        raise
    except Exception as error:  # pyarrow raises almost anything for damaged or rare types
        why = " ".join(str(error).split())
        raise TextError(f"{path}: not a readable Parquet file ({why}).") from error


def _copy_parquet(path: Path, places: Sequence[int]) -> bytes:
    pyarrow = import_pyarrow()
    rows = pyarrow.parquet.read_table(path).take(pyarrow.array(places, pyarrow.int64()))
    content = io.BytesIO()
    pyarrow.parquet.write_table(rows, content)
    return content.getvalue()


CSV, TSV = (
    TextFormat(partial(_read_delimited, delimiter=d), partial(_copy_delimited, delimiter=d))
    for d in (",", "\t")
)
PARQUET = TextFormat(_read_parquet, _copy_parquet, gzip=False)
