"""Files of batches: cases for people to judge, written for them and read back with verdicts.

JSON Lines for programs, CSV and TSV for spreadsheets. A verdict belongs to the case whose number
stands beside it; a file without numbers is matched by its texts.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from mncover.data.harmless import in_cell
from mncover.errors import MnCoverError, SettingsError, TextError
from mncover.selection.finder import Finder, Item
from mncover.selection.journal import Verdict
from mncover.suites.formats import read_records
from mncover.suites.formats.jsonlines import write_json_lines
from mncover.suites.formats.records import Fields, choose_fields, pick, write_content
from mncover.types import Text, visible

JSON_LINES, DELIMITERS = ".jsonl", {".csv": ",", ".tsv": "\t"}


def write_batch(batch: Sequence[Item], path: Path) -> None:
    """Write cases to judge, with an empty field for the verdict; the suffix gives the format."""
    kind, rows = _kind(path), [record_of(item) for item in batch]
    if kind == JSON_LINES:
        write_json_lines(rows, path)
    else:
        write_content(_delimited(rows, DELIMITERS[kind]), path)


def record_of(item: Item) -> dict[str, Any]:
    """Return a case as the fields of a batch file; if it has several texts, they are lists."""
    answer: Any = list(item.answers)
    confidence: Any = [round(share, 4) for share in item.confidences]
    texts: dict[str, Any] = {"texts": [t if isinstance(t, str) else list(t) for t in item.texts]}
    if len(item.texts) == 1:
        (text,), (answer,), (confidence,) = item.texts, answer, confidence
        texts = {"text": text} if isinstance(text, str) else {"text": text[0], "pair": text[1]}
    about = {"answer": answer, "confidence": confidence, "why": item.why}
    return {"case": item.case, **texts, **about, "verdict": item.verdict or ""}


def _kind(path: Path) -> str:
    """Return the suffix that gives the format of a batch: `.csv` for `a.csv.gz`."""
    kind = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    if kind != JSON_LINES and kind not in DELIMITERS:
        known = ", ".join((JSON_LINES, *DELIMITERS))
        raise SettingsError(f"{path}: the name of a batch ends with {known} (or .gz).")
    return kind


def _delimited(rows: Sequence[dict[str, Any]], delimiter: str) -> bytes:
    """Return rows as a table; the byte order mark tells spreadsheets that it is UTF-8."""
    pair = ["pair"] if any("pair" in row for row in rows) else []
    names = ["case", "text", *pair, "answer", "confidence", "why", "verdict"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        lines = "\n".join(t if isinstance(t, str) else " | ".join(t) for t in row.get("texts", ()))
        writer.writerow([safe_cell({"text": lines, **row}.get(name, "")) for name in names])
    return buffer.getvalue().encode("utf-8-sig")


def safe_cell(value: Any) -> str:
    """Return what stands in a cell, which no spreadsheet computes."""
    return str(in_cell(", ".join(map(str, value)) if isinstance(value, list) else str(value)))


def read_verdicts(path: Path, finder: Finder) -> dict[int, Verdict]:
    """Return the verdicts in a file by case; every error names the file and the line.

    A record without a verdict is passed over. A text that stands beside the number of its case must
    be that of the case, or the file is about another run.
    """
    found: dict[int, Verdict] = {}
    cases = _Cases(finder)
    for line, record in read_records(path):
        try:
            for case, verdict in cases.told(record):
                if found.setdefault(case, verdict) != verdict:
                    raise TextError(f"case {case} has another verdict further up.")
        except (TextError, SettingsError) as error:
            raise TextError(f"{path}, line {line}: {error}") from None
    return found


def check_replaceable(path: Path, finder: Finder) -> None:
    """Refuse to write a batch over verdicts that are not in the journal, or over something else."""
    _kind(path)
    if not path.exists():
        return
    try:
        told = read_verdicts(path, finder)
    except MnCoverError as error:
        raise SettingsError(
            f"{path} exists and is no batch of this run, so it is not replaced ({error})"
        ) from None
    unread = sum(finder.journal.verdicts.get(case) != verdict for case, verdict in told.items())
    if unread:
        raise SettingsError(
            f"{path} holds verdicts that were not read yet ({unread:,}): add --verdicts {path}, or "
            "choose another name."
        )


class _Cases:
    """Finds the cases that records are about."""

    def __init__(self, finder: Finder) -> None:
        self.finder = finder
        self.fields: Fields | None = None

    def told(self, record: Any) -> Iterator[tuple[int, Verdict]]:
        """Yield the cases that a record is about, each with its verdict; none without a verdict."""
        if not isinstance(record, dict) or "verdict" not in record:
            names = ", ".join(map(repr, record)) if isinstance(record, dict) else "no fields"
            raise TextError(f"no field 'verdict'; it has {names:.80}.")
        given = record["verdict"]
        if given is None or not str(given).strip():
            return
        number = _number(record.get("case"))
        for case in self._with_text(record) if number is None else [number]:
            verdict = self.finder.verdict(case, given)
            if number is not None and not self._fits(record, case):
                raise TextError(f"this is not the text of case {case}: is it from another run?")
            if verdict is not None:
                yield case, verdict

    @cached_property
    def by_text(self) -> dict[Text, list[int]]:
        """The numbers of the cases that consist of a text, which may occur several times."""
        found: dict[Text, list[int]] = {}
        for number, rows in zip(self.finder.numbers, self.finder.rows, strict=True):
            if len(rows) == 1:
                text = self.finder.data.table.texts[rows[0]]
                found.setdefault(text, []).append(int(number))
        return found

    def _with_text(self, record: dict[str, Any]) -> list[int]:
        self.fields = self.fields or choose_fields(record, Fields())
        text, _, _ = pick(record, self.fields, "")
        if text not in self.by_text:
            raise TextError("no case consists of exactly this text, and there is no 'case' number.")
        return self.by_text[text]

    def _fits(self, record: dict[str, Any], case: int) -> bool:
        """Return whether a record's text, if it has one, is that of a case.

        Only letters are compared: spreadsheets change dates, numbers, quotes and line ends.
        """
        beside = [record[name] for name in ("text", "pair", "texts") if name in record]
        mine = self.finder.texts(case)
        wanted = {_letters(mine), _letters([visible(part) for part in _flat(mine)])}
        return not beside or "" in wanted or _letters(beside) in wanted


def _number(value: Any) -> int | None:
    """Return the number of a case, which a spreadsheet may have made 7.0 of; None for none."""
    text = "" if value is None else str(value).strip()
    if not text:
        return None
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]+(\.0*)?", text):
        raise TextError(f"'case' must be the number of a case, got {value!r:.40}.")
    return int(text.partition(".")[0])


def _flat(value: Any) -> Iterator[str]:
    """Yield every string in lists of lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _flat(one)


def _letters(value: Any) -> str:
    return "".join(filter(str.isalpha, "".join(_flat(value)).casefold()))
