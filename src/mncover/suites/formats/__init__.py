"""The formats of texts and of test suites, by suffix, and the functions that use them.

A new format is one new file beside this one and one line in a registry below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mncover.data.addresses import file_name, here, is_address, shown
from mncover.errors import TextError
from mncover.suites.formats import checklist, harness_samples, hub, jsonlines, promptfoo, records
from mncover.suites.formats.collecting import Collected
from mncover.suites.formats.records import Fields, Record, SuiteFormat, TextFormat
from mncover.suites.model import Suite
from mncover.suites.rows import Rows, RowWriter
from mncover.types import Text, counted, shorten

TEXT_FORMATS: dict[str, TextFormat] = {
    **dict.fromkeys((".jsonl", ".ndjson"), jsonlines.TEXTS),
    ".csv": records.CSV,
    ".tsv": records.TSV,
    ".parquet": records.PARQUET,
    ".txt": records.PLAIN,
}
SUITE_FORMATS: dict[str, SuiteFormat] = {
    **dict.fromkeys((".jsonl", ".jsonl.gz"), jsonlines.SUITE),
    **dict.fromkeys((".pkl", ".pickle", ".tar.gz", ".tgz"), checklist.SUITE),
}
# Files of other tools, which `mncover suite convert` makes suites of as far as they map.
FOREIGN: dict[str, Callable[[Path], Collected]] = {
    **dict.fromkeys((".yaml", ".yml"), promptfoo.collect_promptfoo),
    **dict.fromkeys((".jsonl", ".jsonl.gz"), harness_samples.collect_lines),
}


def converted(path: Path) -> tuple[Suite, str]:
    """Read a test suite, or a file of another tool, and what of that does not map, in words."""
    name = file_name(path)
    collect = next((f for suffix, f in FOREIGN.items() if name.endswith(suffix)), None)
    if collect is None or is_test_suite(path):
        return load_suite(path), ""
    with here(path) as file:
        found = collect(file)
        return found.suite(file), found.says()


def load_suite(path: Path) -> Suite:
    """Read a test suite of any known format."""
    found = _suite_format(path)
    if found is None:
        known = ", ".join(SUITE_FORMATS)
        raise TextError(f"{shown(path)}: the name of a test suite ends with {known}.")
    with here(path) as file:
        return found.read(file)


def is_test_suite(path: Path) -> bool:
    """Return whether a file is a test suite rather than a plain list of texts."""
    found = _suite_format(path)
    if found is None:
        return False
    with here(path) as file:
        return found.accepts(file)


def save_suite(suite: Suite, path: Path) -> None:
    """Write a test suite; the suffix gives the format."""
    found = _suite_format(path)
    if found is None or found.write is None:
        known = " or ".join(suffix for suffix, one in SUITE_FORMATS.items() if one.write)
        raise TextError(f"{path}: a test suite is written to a file whose name ends with {known}.")
    found.write(suite, path)


def _suite_format(path: Path) -> SuiteFormat | None:
    name = file_name(path)
    return next((f for suffix, f in SUITE_FORMATS.items() if name.endswith(suffix)), None)


def read_rows(path: Path, fields: Fields | None = None) -> Rows:
    """Read a test suite, or a plain file of texts."""
    if is_test_suite(path):
        return Rows.of_suite(path, load_suite(path))
    return read_texts(path, fields)


def read_texts(path: Path, fields: Fields | None = None, limit: int | None = None) -> Rows:
    """Read a file of texts or a data set by name, at most `limit` texts of it.

    A file without a context field is one context, named after the file. Errors name the file, the
    line and the field.
    """
    found = RowWriter()
    chosen: Fields | None = None
    context = file_name(path).split(".")[0]
    for line, record in read_records(path):
        if limit is not None and len(found) >= limit:
            break
        try:
            chosen = chosen or records.choose_fields(record, fields or Fields())
            found.add(line, *records.pick(record, chosen, context))
        except TextError as error:
            raise TextError(f"{shown(path)}, line {line}: {error}") from None
    if not len(found):
        raise TextError(f"{shown(path)}: the file holds no text.")
    return found.rows(path)


def read_records(path: Path) -> Iterator[Record]:
    """Yield the records of a file with their line numbers, before any field is chosen."""
    found = _text_format(path)[1]
    with here(path) as file:
        yield from found.read(file)


def field_names(path: Path) -> set[str]:
    """Return the names of the fields in a file's first record; empty if it has no names."""
    _, record = next(read_records(path), (0, None))
    return set(record) if isinstance(record, dict) else set()


def chosen_fields(path: Path, fields: Fields | None = None) -> Fields:
    """Return the names of the fields that `read_texts` would read."""
    _, record = next(read_records(path), (0, None))
    return records.choose_fields(record, fields or Fields())


def copy_records(source: Path, chosen: list[tuple[int, Text]], total: int, output: Path) -> None:
    """Copy whole records of a file of texts to a file of the same format.

    `chosen` has the place of each record and the text that was run. A source that has changed
    since the run is refused.
    """
    suffix, found = _text_format(source)
    if _text_format(output)[0] != suffix:
        raise TextError(f"{output}: {source} is {suffix}, so its records go to a {suffix} file.")
    hint = "name the file that was run with --suite."
    if not (source.is_file() or is_elsewhere(source)):
        raise TextError(f"{source}: no such file any more; {hint}")
    with here(source) as file:
        all_records = list(found.read(file))
        if (n := len(all_records)) != total:
            raise TextError(f"{file}: it has {counted(n, 'text')}, but {total:,} were run; {hint}")
        for place, text in chosen:
            line, record = all_records[place]
            if not _holds(record, text):
                what = f'the text that was run, "{shorten(text)}", is not there'
                raise TextError(f"{file}, line {line}: {what}; {hint}")
        records.write_content(found.copy(file, [place for place, _ in chosen]), output)


def is_elsewhere(path: str | Path) -> bool:
    """Return whether a path names a data set, or is an address, so that no file must be there."""
    return hub.is_hub(path) or is_address(path)


def _holds(record: Any, text: Text) -> bool:
    parts = [text] if isinstance(text, str) else list(text)
    if isinstance(record, dict):
        return all(part in record.values() for part in parts)
    return bool(record == (parts[0] if isinstance(record, str) else parts))


def _text_format(path: Path) -> tuple[str, TextFormat]:
    """Return the format of a file with its suffix, which is `.csv` for `a.csv.gz`.

    Records of a data set by name go to a file of JSON lines.
    """
    if hub.is_hub(path):
        return ".jsonl", hub.DATASET
    name = Path(file_name(path))
    zipped = name.suffix == ".gz"
    suffix = (name.with_suffix("") if zipped else name).suffix.lower()
    found = TEXT_FORMATS.get(suffix)
    if found is None or (zipped and not found.gzip):
        known = ", ".join(name + "[.gz]" * one.gzip for name, one in TEXT_FORMATS.items())
        given = suffix + ".gz" * zipped
        raise TextError(f"{shown(path)}: unknown kind of file {given!r}; known are {known}.")
    return suffix, found
