"""What was measured as tables for programs and notebooks: by text, by case and by test.

A column is named like the field of `mncover json`, with dots for what is nested there. The one
place that imports pandas. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.gains import gains, novelty, touched_neurons
from mncover.data.results import ContextResult, Result
from mncover.data.store import CoverageData
from mncover.errors import MissingExtraError, SettingsError
from mncover.report.describe import class_names, describe_expectation, said
from mncover.report.jsonreport import rows_to_json
from mncover.selection.cases import Cases, cases_by_run
from mncover.suites.formats.records import import_pyarrow
from mncover.suites.judging import FAILS, NOT_JUDGED, answers_to
from mncover.suites.model import Label
from mncover.types import Text, html_table, shorten

WIDEST = 60  # characters of a cell in a notebook


class Frame:
    """A table: lists of equal length, by name.

    `frame["length"]` is a column, `len(frame)` the number of rows, and iterating yields each row
    as a dictionary. What is not known is None. `what` says what a row is.
    """

    def __init__(self, what: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self._size, self._what = len(rows), what if len(rows) == 1 else f"{what}s"
        names = rows[0] if rows else ()
        self._columns = {name: [row[name] for row in rows] for name in names}

    @property
    def columns(self) -> list[str]:
        """The names of the columns; none if there are no rows."""
        return list(self._columns)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._columns:
            known = ", ".join(self._columns) or "none"
            raise SettingsError(f"there is no column {name!r}; there are {known}.")
        return self._columns[name]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for values in zip(*self._columns.values(), strict=True):
            yield dict(zip(self._columns, values, strict=True))

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; whole numbers and yes or no stay so where some are missing."""
        pandas = _pandas()
        found = pandas.DataFrame(self._columns)
        for name, values in self._columns.items():
            kinds = {type(value) for value in values} - {type(None)}
            if None in values and kinds in ({int}, {bool}):
                kind = "Int64" if kinds == {int} else "boolean"
                found[name] = pandas.array(values, dtype=kind)
        return found

    def to_arrow(self) -> Any:
        """Return an Arrow table."""
        return import_pyarrow("to_arrow()").table(self._columns)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Hand the table to another library, such as polars or DuckDB."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<{self._size:,} {self._what}: {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the columns that have something in them."""
        rows = [[_cell(value) for value in row.values()] for row in self]
        return html_table(f"{self._size:,} {self._what}", self.columns, rows)


def _cell(value: Any) -> str:
    if value is None or value is False:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(_cell(one) for one in value)
    return "yes" if value is True else shorten(str(value), WIDEST)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError("to_pandas()", "pandas", "pandas") from error
    return pandas


class Tables:
    """The tables of a data file as it is now: texts that are added later do not show."""

    def __init__(self, data: CoverageData) -> None:
        self._data = data.rows_alone()

    def texts(self) -> Frame:
        """Return a row for each text, with what `mncover json --texts` has."""
        return Frame("text", [_flat(row) for row in rows_to_json(self._data)])

    def cases(self) -> Frame:
        """Return a row for each case; in a plain list every text is one."""
        rows = [row for cases in cases_by_run(self._data) for row in _case_rows(cases)]
        return Frame("case", rows)

    def tests(self, result: Result) -> Frame:
        """Return a row for each test: the table of the report."""
        return Frame("test", [_test_row(result, context) for context in result.contexts])


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of JSON without anything nested; a pair has two columns."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name == "text":
            found["text"], found["pair"] = _sides(value)
        elif isinstance(value, dict):
            found |= {f"{name}.{inner}": one for inner, one in value.items()}
        else:
            found[name] = value
    return found


def _sides(text: Text) -> tuple[str, str | None]:
    return (text, None) if isinstance(text, str) else text


def _case_rows(cases: Cases) -> Iterator[dict[str, Any]]:
    """Yield a row for each case of a run."""
    data, outline = cases.data, cases.outline
    classes = data.identity.labels if outline is None else outline.labels or data.identity.labels
    added = {name: cases.sums(gains(data, name)) for name in data.identity.names}
    fresh, labels = _novelty(cases), _labels(cases)
    for i, rows in enumerate(cases.rows):
        sides = [_sides(text) for text in cases.texts(i)]
        known = bool(classes or data.table.answers)
        found = list(said(answers_to(data, outline, rows), classes)) if known else []
        verdict = int(cases.verdicts[i])
        yield {
            "run": data.runs[data.table["run"][rows[0]]].id,
            "test": cases.tests[cases.test[i]],
            **_about(cases, i),
            "case": int(cases.number[i]),
            "rows": rows.tolist(),
            "texts": [first for first, _ in sides],
            "pairs": [second for _, second in sides] if any(b for _, b in sides) else None,
            "label": class_names(labels[i], classes) or None,
            "predictions": [name or None for name, _ in found],
            "confidences": [_number(share) for _, share in found],
            "failing": None if verdict == NOT_JUDGED else verdict == FAILS,
            **{f"gains.{name}": _number(shares[i]) for name, shares in added.items()},
            "novelty": _number(fresh[i]),
        }


def _novelty(cases: Cases) -> NDArray[np.float64]:
    """Return the novelty of each case: that of its texts, weighted by the neurons they touch."""
    data = cases.data
    touched = touched_neurons(data.identity, data.table["length"])
    return cases.sums(novelty(data) * touched) / np.maximum(cases.sums(touched), 1)


def _about(cases: Cases, case: int) -> dict[str, str | None]:
    """Return what is known of a case's test; nothing if it is a plain text."""
    if cases.outline is None:
        return dict.fromkeys(("type", "capability", "expects"))
    test, labels = cases.outline.tests[cases.test[case]], cases.outline.labels
    expects = describe_expectation(test.expectation, labels)
    return {"type": test.kind, "capability": test.capability, "expects": expects}


def _labels(cases: Cases) -> list[Label]:
    """Return the right class of each case, or classes, as the suite or the file gave them."""
    if cases.outline is None:
        numbers = [int(cases.data.table["label"][rows[0]]) for rows in cases.rows]
        return [None if number < 0 else number for number in numbers]
    given = [label for of_test in cases.outline.cases for _, label in of_test]
    return [given[number] for number in cases.number]


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _test_row(result: Result, context: ContextResult) -> dict[str, Any]:
    tests = [one.test for one in result.outcomes if one.test.name == context.name]
    row: dict[str, Any] = {"test": context.name, "type": None, "capability": None, "cases": None}
    if tests:
        row |= {"type": tests[0].kind, "capability": tests[0].capability}
        row["cases"] = sum(len(test.cases) for test in tests)
    for name in ("texts", "truncated", "empty"):
        row[name] = getattr(context, name)
    for name, one in context.by.items():
        shares = {"share": one.tally.share, "share_of_reachable": one.tally.share_of_reachable}
        shares |= {"adds": one.adds, "only_here": one.only_here}
        shares["adds_of_reachable"] = one.new.share_of_reachable
        shares["only_here_of_reachable"] = one.own.share_of_reachable
        row |= {f"criteria.{name}.{field}": value for field, value in shares.items()}
    labelled, judged = context.labelled > 0, context.judged > 0
    for name in ("outside", "adds_little", "little_failing"):
        row[name] = getattr(context, name)
    row |= _known(context, labelled, "labelled", "wrong", "accuracy")
    return row | _known(context, judged, "judged", "failing", "failure_rate")


def _known(context: ContextResult, known: bool, *names: str) -> dict[str, Any]:
    return {name: getattr(context, name) if known else None for name in names}
