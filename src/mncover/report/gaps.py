"""Gaps in a suite: on the terminal, as JSON, and as a file of texts to label. No torch here."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text as Line

from mncover.errors import SettingsError, TextError
from mncover.report.tables import plain_table
from mncover.selection.batchfile import DELIMITERS, safe_cell
from mncover.selection.flaggedfile import CHANCES, KINDS, is_flagged
from mncover.selection.gap_groups import Flagged, Gaps, Group
from mncover.selection.gaps import REACH
from mncover.suites.formats import read_records
from mncover.suites.formats.jsonlines import write_json_lines
from mncover.suites.formats.records import write_content
from mncover.types import Text, __version__, counted, display_percent, shorten, visible

FORMAT_VERSION = 1
LONGEST = 100  # characters of a text
MOST_TESTS = 20  # tests that no traffic comes near, on the terminal
FIELDS = ("count", "group", "p_value", "ratio", "answer", "confidence")


# In words, for the terminal and the page.


def headline(found: Gaps) -> str:
    """Say how much of the traffic is within reach."""
    within = found.within
    low, high = (display_percent(share, 1) for share in (within.low, within.high))
    return (
        f"{display_percent(within.value, 1)} % of the traffic is within reach of a test (95 % "
        f"interval {low} to {high}); of traffic that is like the tests, {100 * REACH:g} % would be."
    )


def looked_at(found: Gaps) -> str:
    """Say what was compared."""
    drawn = ""
    if found.drawn < found.lines:
        drawn = f", {found.drawn:,} of them drawn at random"
    tests = f"{found.suite_texts:,} texts"
    if found.compared < found.suite_texts:
        tests = f"{found.compared:,} of {tests}, spread over all tests"
    return (
        f"Traffic: {counted(found.lines, 'line')}{drawn}; {found.texts:,} different texts. "
        f"Suite: {tests}. Compared in: {found.space}."
    )


def flagged_words(found: Gaps) -> str:
    """Say how much is flagged."""
    rate = f"{100 * found.fdr:g} %"
    if not found.flagged:
        return f"No text is flagged at a rate of false alarms of {rate}."
    share = display_percent(found.flagged_lines / found.drawn, 1)
    return (
        f"{counted(len(found.flagged), 'text')} flagged ({share} % of the traffic) that exercise "
        f"the model as no test does. At most {rate} of them are expected to be false alarms, if "
        "the rest of the traffic is like the tests."
    )


def unvisited_words(found: Gaps) -> str:
    """Say which tests no traffic comes near."""
    if not found.unvisited:
        return "Traffic comes near every test."
    return f"No traffic comes near {len(found.unvisited):,} of {counted(len(found.tests), 'test')}:"


def group_words(number: int, group: Group) -> str:
    """Say what a group is like."""
    share = display_percent(group.share, 1)
    parts = [f"{counted(group.texts, 'text')}, {share} % of the traffic"]
    if group.answers:
        answers = (f"{visible(a)} {100 * s:.0f} %" for a, s in group.answers.items())
        parts.append(f"answers {', '.join(answers)}; mean entropy {group.entropy:.2f}")
    if group.trained is not None:
        parts.append(f"{100 * group.trained:.0f} % within reach of training texts")
    return f"Group {number}: {'; '.join(parts)}"


# On the terminal.


def print_gaps(found: Gaps, console: Console) -> None:
    """Print the share within reach, the groups, and the tests that no traffic comes near."""
    for part in _parts(found):
        console.print(part, highlight=False)
        console.print()


def _parts(found: Gaps) -> Iterator[RenderableType]:
    yield (
        Line(f"{looked_at(found)}\n")
        .append(headline(found), style="bold")
        .append(f"\n{flagged_words(found)}", style="not bold")
    )
    for number, group in enumerate(found.groups, start=1):
        yield Line(group_words(number, group), style="bold")
        yield _typical(group)
    yield Line(unvisited_words(found))
    if found.unvisited:
        yield _unvisited(found)


def _typical(group: Group) -> Table:
    table = plain_table("Typical text", "Answer", "Lines", "Ratio", left=2)
    for one in group.typical:
        answer = f"{visible(one.answer)} {100 * one.confidence:.0f} %" if one.answer else "-"
        cells = visible(shorten(one.text, LONGEST)), answer, f"{one.count:,}", f"{one.ratio:.2f}"
        table.add_row(*map(Line, cells))
    return table


def _unvisited(found: Gaps) -> Table:
    table = plain_table("Test", "Texts")
    for test in found.unvisited[:MOST_TESTS]:
        table.add_row(Line(visible(test.name)), f"{test.texts:,}")
    if (more := len(found.unvisited) - MOST_TESTS) > 0:
        table.add_row(f"and {counted(more, 'other test')}", "")
    return table


# For programs, and to be labelled.


def to_json(found: Gaps) -> dict[str, Any]:
    """Return everything but the map as plain values; docs/commands/gaps.md explains every field."""
    names = ("model", "space", "suite", "suite_texts", "compared", "traffic", "lines", "drawn")
    return {
        "format": FORMAT_VERSION,
        "version": __version__,
        **{name: getattr(found, name) for name in (*names, "texts", "fdr")},
        "within_reach": found.within._asdict(),
        "flagged_lines": found.flagged_lines,
        "flagged": [record_of(one) for one in found.flagged],
        "groups": [
            {
                **{n: getattr(g, n) for n in ("texts", "lines", "share", "answers", "entropy")},
                "trained": g.trained,
                "typical": [_plain(one.text) for one in g.typical],
            }
            for g in found.groups
        ],
        "tests": [asdict(test) for test in found.tests],
    }


def _plain(text: Text) -> Any:
    return text if isinstance(text, str) else list(text)


def record_of(one: Flagged) -> dict[str, Any]:
    """Return a flagged text as the fields of a file, with an empty one for the right class."""
    text = one.text
    texts = {"text": text} if isinstance(text, str) else {"text": text[0], "pair": text[1]}
    about = {name: getattr(one, name) for name in FIELDS}
    about |= {"group": one.group + 1, "nearest": _plain(one.near), "nearest_test": one.test}
    if one.trained is not None:
        about["trained"] = one.trained
    about[CHANCES] = {name: round(share, 6) for name, share in one.chances.items()}
    return {**texts, "label": "", **about}


def write_flagged(found: Gaps, path: Path) -> None:
    """Write the flagged texts to be labelled; the suffix gives the format."""
    rows = [record_of(one) for one in found.flagged]
    delimiter = DELIMITERS.get(_kind(path))
    if delimiter is None:
        write_json_lines(rows, path)
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows[0] if rows else ["text", "label"])
    for row in rows:
        cells = {**row, CHANCES: json.dumps(row[CHANCES])}
        writer.writerow([safe_cell(value) for value in cells.values()])
    write_content(buffer.getvalue().encode("utf-8-sig"), path)


def check_flagged(path: Path) -> None:
    """Refuse a name of an unknown kind, and a file that holds labels somebody gave."""
    if not is_flagged(path):
        known = ", ".join(KINDS)
        raise SettingsError(f"{path}: flagged texts go to a file that ends with {known} (or .gz).")
    if not path.exists():
        return
    try:
        labels = [r.get("label") for _, r in read_records(path) if isinstance(r, dict)]
    except TextError as error:
        raise SettingsError(f"{path} exists and cannot be read, so it is kept ({error})") from None
    if given := sum(label not in (None, "") for label in labels):
        raise SettingsError(
            f"{path} holds {counted(given, 'label')} that would be lost: choose another name."
        )


def _kind(path: Path) -> str:
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
