"""What people hand in as texts: lists, tables, data sets, files. All of it becomes rows.

A table is told by what it can do, so neither pandas, polars, pyarrow nor datasets is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from itertools import islice
from pathlib import Path
from typing import Any

from mncover.data.table import UNKNOWN
from mncover.errors import SettingsError, TextError
from mncover.suites.formats import field_names, is_elsewhere, is_test_suite, read_rows
from mncover.suites.formats.hub import with_class_names
from mncover.suites.formats.records import PAIR_FIELDS, TEXT_FIELDS, Fields
from mncover.suites.rows import Rows, fitting_labels
from mncover.types import Text, check_cases, check_texts, is_text

HEAD = 20  # values that are looked at to see whether a column holds strings

# The columns of a table by name, each read when it is asked for.
Columns = dict[Any, Callable[[], Iterable[Any]]]


def given_texts(given: Any, text: str | None = None, pair: str | None = None) -> list[Text]:
    """Return texts as a list; `text` and `pair` name the columns of a table."""
    return list(given_rows(given, Fields(text, pair)).texts)


def given_cases(given: Any, text: str | None = None, pair: str | None = None) -> list[list[Text]]:
    """Return cases as lists of texts; a row of a table, or a line of a file of texts, is a case."""
    path, fields = _file(given), Fields(text, pair)
    found = _opened(given) if path is None else read_rows(path, fields)
    if isinstance(found, dict):
        return check_cases(_joined(found, _choose(found, fields)))
    if path is None:
        _without_columns(found, fields)
    if not isinstance(found, Rows):
        return check_cases(found)
    if found.suite is None:
        return [[one] for one in found.texts]
    return [list(case.texts) for test in found.suite.tests for case in test.cases]


def given_rows(
    given: Any,
    fields: Fields | None = None,
    context: str | Sequence[str] = "",
    labels: Sequence[Any] | None = None,
) -> Rows:
    """Return texts with their contexts and labels.

    Those of a table or a file come from its columns, unless they are given. `context` names a
    column if there is one of that name.
    """
    asked = fields or Fields()
    if labels is not None and asked.label is not None:
        raise SettingsError("give either `labels` or `label`, the name of a column, not both.")
    if (path := _file(given)) is not None:
        column = _column(context, _names(path))
        found = read_rows(path, replace(asked, context=column) if column else asked)
        return _relabelled(found, "" if column else context, labels)
    return _rows(_opened(given), asked, context, labels)


def given_sets(
    given: Any, text: str | None = None, pair: str | None = None
) -> dict[str, list[Text]]:
    """Return sets of texts by name, given a dictionary of them or the splits of a data set."""
    if not isinstance(given, Mapping):
        raise TextError(f"expected a dictionary of lists of texts by name, got {given!r:.60}.")
    return {str(name): given_texts(mine, text, pair) for name, mine in given.items()}


def given_pool(
    given: Any, fields: Fields, labels: Sequence[Any] | None, classes: Sequence[str]
) -> tuple[Sequence[Text], Sequence[int] | None]:
    """Return texts to calibrate on, and their class numbers if they are known.

    Labels that a table happens to have are left out if they are not the model's classes.
    """
    rows = given_rows(given, fields, labels=labels)
    if labels is None and fields.label is None:
        numbers = fitting_labels(rows.labels, classes)
        return rows.texts, None if numbers is None or set(numbers) <= {UNKNOWN} else numbers
    return rows.texts, rows.numbered(classes).labels


def given_suite(given: Any, fields: Fields) -> Rows:
    """Return a suite of tests or texts; a string is the path of a file."""
    return given_rows(Path(given) if isinstance(given, str) else given, fields)


def given_train(given: Any, fields: Fields) -> Rows:
    """Return training texts, by the suite's columns if they have these, else by the usual ones."""
    path = Path(given) if isinstance(given, str) else _file(given)
    found = _opened(given) if path is None else _names(path)
    names = set(found) if isinstance(found, dict | set) else set()
    asked = {name for name in (fields.text, fields.pair) if name is not None}
    label = fields.label if fields.label in names else None
    own = replace(fields, label=label) if asked <= names else Fields(label=label)
    return _rows(found, own) if path is None else read_rows(path, own)


def _rows(
    found: Rows | Columns | Iterable[Any],
    asked: Fields,
    context: str | Sequence[str] = "",
    labels: Sequence[Any] | None = None,
) -> Rows:
    """Return what was opened as rows."""
    if isinstance(found, Rows):
        return _relabelled(_without_columns(found, asked), context, labels)
    if isinstance(found, dict):
        column = _column(context, found)
        chosen = _choose(found, replace(asked, context=column) if column else asked)
        return _relabelled(_of_table(found, chosen), "" if column else context, labels)
    return Rows.make(check_texts(_without_columns(found, asked)), context, labels)


def _names(path: Path) -> set[str]:
    """Return the names of a file's fields; a suite of tests has none."""
    return set() if is_test_suite(path) else field_names(path)


def _column(context: str | Sequence[str], names: Container[Any]) -> str | None:
    """Return the context if it is the name of a column."""
    return context if isinstance(context, str) and context in names else None


def _relabelled(rows: Rows, context: str | Sequence[str], labels: Sequence[Any] | None) -> Rows:
    """Return the rows, with other contexts and labels where they are given."""
    if labels is None and isinstance(context, str) and not context:
        return rows
    named = context if not isinstance(context, str) or context else rows.contexts
    made = Rows.make(rows.texts, named, rows.labels if labels is None else labels)
    return replace(rows, contexts=made.contexts, labels=made.labels)


def _without_columns(found: Any, fields: Fields) -> Any:
    """Return what has no columns; refuse names of columns."""
    for name in ("text", "pair", "label", "context"):
        if getattr(fields, name) is not None:
            what = f"`{name}` names a column of a table, but the texts came as a list"
            raise SettingsError(f"{what}: leave it out.")
    return found


def _file(given: Any) -> Path | None:
    """Return the path or address of a file, or a data set's, if that is what was given."""
    if isinstance(given, Path) or (isinstance(given, str) and is_elsewhere(given)):
        return Path(given)
    return None


def _opened(given: Any) -> Rows | Columns | Iterable[Any]:
    """Return a table as its columns, rows as they are, and anything else as something to list."""
    if isinstance(given, str):
        what = "expected a list of texts, got a single string"
        raise TextError(f"{what}: put it in a list, or give a file as a Path.")
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if _is_table(given):
        return _columns(given)
    if isinstance(given, Rows):
        return given
    if not isinstance(given, Iterable):
        raise TextError(f"expected a list of texts or a table, got {given!r:.60}.")
    return _of_iterable(given)


def _is_table(given: Any) -> bool:
    kind = type(given)  # asked of the type: a property may take long
    named = hasattr(kind, "column_names") or hasattr(kind, "columns")
    if named and hasattr(given, "collect"):
        raise TextError(f"a {type(given).__name__} is not loaded yet: call its collect() first.")
    return named and hasattr(given, "__getitem__")


def _columns(table: Any) -> Columns:
    """Return the columns of a data frame, an Arrow table or a data set."""
    names = list(table.column_names if hasattr(table, "column_names") else table.columns)
    if twice := [name for name in names if names.count(name) > 1]:
        raise TextError(f"two columns are called {twice[0]!r}: rename one.")

    def column(name: Any) -> Callable[[], Iterable[Any]]:
        return lambda: with_class_names(table, name, table[name])

    return {name: column(name) for name in names}


def _of_mapping(given: Mapping[Any, Any]) -> Rows | Columns | Iterable[Any]:
    """Return a dictionary of columns, or the only split of a data set."""
    splits = [n for n, one in given.items() if hasattr(one, "column_names") or _is_table(one)]
    if len(splits) > 1:
        listed = ", ".join(map(repr, splits))
        raise TextError(f"it has the splits {listed}: choose one, as in data[{splits[0]!r}].")
    if splits:
        return _opened(given[splits[0]])
    for name, value in given.items():
        if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__len__"):
            what = f"a dictionary must hold a list for each column, but {name!r} is {value!r:.40}"
            raise TextError(f"{what}: put texts in a list.")
    sizes = {name: len(value) for name, value in given.items()}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name!r} {size:,}" for name, size in sizes.items())
        raise TextError(f"the columns of a dictionary must be equally long; it has {shown}.")
    return {name: lambda value=value: value for name, value in given.items()}


def _of_iterable(given: Iterable[Any]) -> Columns | list[Any]:
    """Return a list as it is, and records, which are dictionaries, as columns."""
    values = list(given)
    if not values or not isinstance(values[0], Mapping):
        return values
    if wrong := [place for place, one in enumerate(values) if not isinstance(one, Mapping)]:
        raise TextError(f"record {wrong[0]} must be a dictionary like the first one.")
    names = dict.fromkeys(name for one in values for name in one)

    def column(name: Any) -> Callable[[], Iterable[Any]]:
        return lambda: with_class_names(given, name, [one.get(name) for one in values])

    return {name: column(name) for name in names}


# Which columns to read.


def _choose(columns: Columns, fields: Fields) -> Fields:
    """Return the names of the columns to read; refuse to guess between several."""
    listed = ", ".join(map(repr, columns)) or "no columns"
    for name in astuple(fields):
        if name is not None and name not in columns:
            raise TextError(f"no column {name!r}; it has {listed}.")
    if fields.text is None and fields.pair is not None:
        raise SettingsError("`pair` names the second text; name the first one with `text` too.")
    usual = {name: name if name in columns else None for name in ("label", "context")}
    label = usual["label"] if fields.label is None else fields.label
    context = usual["context"] if fields.context is None else fields.context
    if fields.text is not None:
        return Fields(fields.text, fields.pair, label, context)
    strings = [n for n in columns if n not in (label, context) and _holds_strings(columns[n]())]
    found = _candidates(strings)
    if len(found) != 1:
        what = "which column is the text?" if strings else "no column holds texts."
        raise TextError(f"{what} It has {listed}; name one with text= (and pair=).")
    return Fields(*found[0], label, context)


def _candidates(strings: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the columns that may be the text, or both texts of a pair."""
    found: list[tuple[Any, Any]] = [both for both in PAIR_FIELDS if {*both} <= {*strings}]
    paired = {name for both in found for name in both}
    found += [(name, None) for name in TEXT_FIELDS if name in strings and name not in paired]
    return found or [(name, None) for name in strings]


def _holds_strings(values: Iterable[Any]) -> bool:
    plain = (v.as_py() if hasattr(v, "as_py") else v for v in islice(values, HEAD))
    return any(isinstance(value, str) for value in plain)


# What they hold.


def _of_table(columns: Columns, fields: Fields) -> Rows:
    texts = _joined(columns, fields)
    for place, one in enumerate(texts):
        if not is_text(one):
            wrong, name = _wrong_part(one, fields)
            what = f"row {place} of the column {name!r} must be text, got {wrong!r:.60}"
            raise TextError(f"{what}: leave such rows out.")
    labels = None if fields.label is None else _plain(columns[fields.label]())
    context = "" if fields.context is None else _plain(columns[fields.context]())
    return Rows.make(texts, context, labels)


def _joined(columns: Columns, fields: Fields) -> list[Any]:
    """Return the values of the text's column, paired with those of the other if there is one."""
    first = _plain(columns[fields.text]())
    return first if fields.pair is None else list(_pairs(first, _plain(columns[fields.pair]())))


def _pairs(first: list[Any], second: list[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(first, second, strict=True)


def _wrong_part(one: Any, fields: Fields) -> tuple[Any, Any]:
    if fields.pair is None or isinstance(one[1], str):
        return one if fields.pair is None else one[0], fields.text
    return (one[0], fields.text) if not isinstance(one[0], str) else (one[1], fields.pair)


def _plain(values: Iterable[Any]) -> list[Any]:
    """Return a column as a list of Python's own values."""
    for name in ("to_pylist", "tolist", "to_list"):
        if hasattr(values, name):
            return list(getattr(values, name)())
    return list(values)
