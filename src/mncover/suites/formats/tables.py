"""Read texts from JSON Lines, CSV, TSV, Parquet and plain text files, gzipped or not.

A file is a list of records; a record gives a text, or a pair, and perhaps a label and a
context. Every complaint names the file, the line and the field. No torch here.

Write some records of a file of texts, in the format they came in. No torch here.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mncover.data.files import replacing
from mncover.errors import MissingExtraError, TextError
from mncover.suites.model import Outline, Suite
from mncover.types import Text, shorten

Record = tuple[int, Any]  # line (or row) number, and a dictionary, a string or a list

TEXT_FIELDS = ("text", "sentence", "content", "review", "question")
PAIR_FIELDS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("s1", "s2"),
    ("text", "pair"),
)


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields to read; None means: one of the usual names."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class TextFile:
    """The texts of a file, with the label (or None), context and line of each."""

    path: Path
    texts: list[Text] = field(default_factory=list)
    labels: list[Any] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    cases: list[int] = field(default_factory=list)  # of a suite of tests, else empty
    tests: Suite | None = None

    def place(self, index: int) -> str:
        """Return where a text stands, for messages."""
        if self.tests is not None:
            return f"{self.path}, text {index}"
        return f"{self.path}, line {self.lines[index]}"

    @property
    def fingerprint(self) -> str:
        """A digest of texts, labels and contexts in their order."""
        digest = hashlib.sha256()
        for row in zip(self.texts, self.labels, self.contexts, strict=True):
            digest.update(json.dumps(row, default=str).encode("ascii") + b"\n")
        if self.tests is not None:
            digest.update(json.dumps(Outline.of(self.tests).to_json()).encode("ascii"))
        return digest.hexdigest()

    @classmethod
    def of_suite(cls, path: Path, suite: Suite) -> TextFile:
        """Return the texts of a suite of tests: each test is a context."""
        result = cls(path, tests=suite)
        number = 0
        for test in suite.tests:
            for case in test.cases:
                result.texts.extend(case.texts)
                result.contexts.extend([test.name] * len(case.texts))
                result.cases.extend([number] * len(case.texts))
                number += 1
        result.labels.extend([None] * len(result.texts))
        return result


def read_texts(path: Path, fields: Fields | None = None, limit: int | None = None) -> TextFile:
    """Read a file of texts; its name's ending says which kind it is.

    A file without a context field is one context, named after the file. `limit` stops after so
    many texts.
    """
    wanted = fields or Fields()
    read = _reader_for(path)
    result = TextFile(path)
    picker: _Picker | None = None
    for line, record in read(path):
        if limit is not None and len(result.texts) >= limit:
            break
        picker = picker or _Picker(path, line, record, wanted)
        text, label, context = picker.pick(line, record)
        result.texts.append(text)
        result.labels.append(label)
        result.contexts.append(context)
        result.lines.append(line)
    if not result.texts:
        raise TextError(f"{path}: the file holds no text.")
    return result


def field_names(path: Path) -> set[str]:
    """Return the names of the fields in a file's first record; none if it has no names."""
    for _, record in _reader_for(path)(path):
        return set(record) if isinstance(record, dict) else set()
    return set()


def chosen_fields(path: Path, fields: Fields | None = None) -> Fields:
    """Return the names of the fields that `read_texts` takes from a file, as far as it has any."""
    for line, record in _reader_for(path)(path):
        picker = _Picker(path, line, record, fields or Fields())
        return Fields(picker.text, picker.pair, picker.label, picker.context)
    return Fields()


class _Picker:
    """Knows which fields of a file's records to take, decided on the first record."""

    def __init__(self, path: Path, line: int, record: Any, fields: Fields) -> None:
        self.path = path
        self.default_context = path.name.split(".")[0]
        names = set(record) if isinstance(record, dict) else set()
        for name in (fields.text, fields.pair, fields.label, fields.context):
            if name is not None and name not in names:
                raise TextError(f"{path}, line {line}: no field {name!r}; it has {_list(names)}.")
        self.text: str | None = None
        self.pair: str | None = None
        if names:
            self.text, self.pair = self._choose(line, names, fields)
        self.label = fields.label or ("label" if "label" in names else None)
        self.context = fields.context or ("context" if "context" in names else None)

    def _choose(self, line: int, names: set[str], fields: Fields) -> tuple[str, str | None]:
        if fields.text is not None:
            return fields.text, fields.pair
        if fields.pair is not None:
            raise TextError("`pair` names the second text: name the first with `text` too.")
        for first, second in PAIR_FIELDS:
            if {first, second} <= names:
                return first, second
        for name in TEXT_FIELDS:
            if name in names:
                return name, None
        raise TextError(
            f"{self.path}, line {line}: which field is the text? It has {_list(names)}: "
            "name it with --text (and --pair)."
        )

    def pick(self, line: int, record: Any) -> tuple[Text, Any, str]:
        """Return text, label and context of a record."""
        if isinstance(record, dict) and self.text is not None:
            text = self._string(line, record, self.text)
            whole = (text, self._string(line, record, self.pair)) if self.pair else text
            label = record.get(self.label) if self.label else None
            return whole, None if label == "" else label, self._context(line, record)
        if self.text is None and isinstance(record, str):
            return record, None, self.default_context
        if self.text is None and isinstance(record, list) and _is_pair(record):
            return (record[0], record[1]), None, self.default_context
        what = "an object" if self.text else "a string or a list of two strings"
        raise TextError(f"{self.path}, line {line}: expected {what}, got {record!r:.60}.")

    def _string(self, line: int, record: dict[str, Any], name: str) -> str:
        if name not in record:
            raise TextError(f"{self.path}, line {line}: no field {name!r}.")
        value = record[name]
        if not isinstance(value, str):
            raise TextError(
                f"{self.path}, line {line}: field {name!r} must be text, got {value!r:.60}."
            )
        return value

    def _context(self, line: int, record: dict[str, Any]) -> str:
        return self._string(line, record, self.context) if self.context else self.default_context


def _is_pair(record: list[Any]) -> bool:
    return len(record) == 2 and all(isinstance(part, str) for part in record)


def _list(names: set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names)) or "no fields"


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file, each with its line, before any field is chosen."""
    return _reader_for(path)(path)


def kind_of(path: Path) -> str:
    """Return the ending that says which kind of file it is, such as `.csv`, without `.gz`."""
    _reader_for(path)
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def raw_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, without what ends them."""
    for number, line in enumerate(_open(path), start=1):
        yield number, line.rstrip("\r\n")


def _open(path: Path) -> Iterator[str]:
    """Yield the lines of a text file in UTF-8; a byte order mark at its start is dropped."""
    number = 0
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}, line {number}: not UTF-8 ({error.reason}).") from error
    except FileNotFoundError as error:
        raise TextError(f"{path}: no such file.") from error
    except (OSError, EOFError) as error:
        raise TextError(f"{path}: cannot be read ({error}).") from error


def _read_jsonl(path: Path) -> Iterator[Record]:
    for number, line in raw_lines(path):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except ValueError as error:
            raise TextError(f"{path}, line {number}: not JSON ({error}).") from error
        except RecursionError as error:
            raise TextError(f"{path}, line {number}: nested too deeply.") from error


def _read_plain(path: Path) -> Iterator[Record]:
    yield from ((number, line) for number, line in raw_lines(path) if line.strip())


def _read_delimited(path: Path, delimiter: str) -> Iterator[Record]:
    rows = csv.reader(_open(path), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise TextError(f"{path}, line {rows.line_num}: {error}.") from error
        if header is None:
            header = _header(path, row)
        elif row:
            if len(row) != len(header):
                raise TextError(
                    f"{path}, line {rows.line_num}: {len(row)} fields, but the header has "
                    f"{len(header)}."
                )
            yield rows.line_num, dict(zip(header, row, strict=True))


def _header(path: Path, row: list[str]) -> list[str]:
    names = [name.strip() for name in row]
    if len(set(names)) != len(names):
        raise TextError(f"{path}, line 1: a field name occurs twice in the header.")
    return names


def _read_csv(path: Path) -> Iterator[Record]:
    return _read_delimited(path, ",")


def _read_tsv(path: Path) -> Iterator[Record]:
    return _read_delimited(path, "\t")


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet", "pyarrow", "parquet") from error
    return pyarrow


def write_parquet_rows(source: Path, places: Sequence[int], output: Path) -> None:
    """Write some rows of a Parquet file, with all their columns, to another."""
    pyarrow = _pyarrow()
    table = pyarrow.parquet.read_table(source)
    pyarrow.parquet.write_table(table.take(pyarrow.array(places, pyarrow.int64())), output)


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


_READERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".csv": _read_csv,
    ".tsv": _read_tsv,
    ".parquet": _read_parquet,
    ".txt": _read_plain,
}


def _reader_for(path: Path) -> Callable[[Path], Iterator[Record]]:
    zipped = path.suffix == ".gz"
    ending = path.with_suffix("").suffix if zipped else path.suffix
    reader = _READERS.get(ending.lower())
    if reader is None or (zipped and reader is _read_parquet):
        known = ", ".join(_READERS)
        raise TextError(
            f"{path}: unknown kind of file {ending!r}; known are {known}, and .gz of texts."
        )
    return reader


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
