"""What a measured session of tests came to: its table, its gates and its exit status."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from rich.text import Text

from mncover.data.harmless import on_a_line
from mncover.data.results import Result, below
from mncover.report.screen import Screen
from mncover.report.tables import plain_table
from mncover.selection.gates import MaxFailing, exceeds
from mncover.types import display_percent

OK, FAILED = int(pytest.ExitCode.OK), int(pytest.ExitCode.TESTS_FAILED)


@dataclass
class Summary:
    """What to report: the tests that used the model, those that failed, and the coverage.

    `unread` counts inputs that could not be turned back into texts, and were not measured.
    """

    output: Path
    fail_under: float | None
    max_failing: MaxFailing | None
    result: Result | None = None
    used: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    unread: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def cover(self) -> float:
        """What the tests cover of the reachable bins; 0 if nothing was measured."""
        return 0.0 if self.result is None else self.result.main.tally.share_of_reachable

    @property
    def covers_too_little(self) -> bool:
        """Whether coverage is below what was asked for."""
        return self.fail_under is not None and below(self.cover, self.fail_under)

    @property
    def too_many_fail(self) -> bool:
        """Whether more of the tests that used the model fail than may."""
        if self.max_failing is None:
            return False
        if not self.used:  # a gate that checks nothing must not look like one that holds
            return True
        failing, of = len(self.failed & self.used), len(self.used)
        return exceeds(Fraction(failing, of), self.max_failing.rate_of(of))

    def exit_status(self, status: int) -> int:
        """Return what the session exits with: failing tests are forgiven only within the limit."""
        if self.errors or self.covers_too_little or self.too_many_fail:
            return FAILED if status == OK else status
        forgiven = self.max_failing is not None and bool(self.failed) and self.failed <= self.used
        return OK if status == FAILED and forgiven else status

    def print_to(self, terminal: pytest.TerminalReporter) -> None:
        """Print the table of tests, and a line for each gate and whatever went wrong."""
        terminal.section("mncover", sep="-")
        if not self.used and not self.errors:
            terminal.write_line("No test ran anything through mncover_model.")
        if self.result is not None:
            width = terminal._tw.fullwidth
            terminal.write_line(_table(self.result, self.failed, width).rstrip())
            terminal.write_line("")
            file = on_a_line(os.path.relpath(self.output))
            terminal.write_line(f"The data file is {file}. To see more: mncover report {file}")
        if self.unread:
            what = "inputs of the model are" if self.unread > 1 else "input of the model is"
            terminal.write_line(f"{self.unread:,} {what} no text that is known: not measured.")
        self._print_gates(terminal)
        for error in self.errors:
            terminal.write_line(on_a_line(f"mncover: {error}"), red=True)

    def _print_gates(self, terminal: pytest.TerminalReporter) -> None:
        if self.fail_under is not None:
            short = self.covers_too_little
            shown = f"Cover {display_percent(self.cover)} % is"
            how = f"below --mncover-fail-under {self.fail_under:g} %"
            line = f"{shown} {how}." if short else f"{shown} not {how}."
            terminal.write_line(line, red=short, green=not short)
        if self.max_failing is not None:
            broken, gate = self.too_many_fail, f"--mncover-max-failing {self.max_failing}"
            failing, than = len(self.failed & self.used), "more than" if broken else "within"
            line = (
                f"{failing:,} of {len(self.used):,} tests that used the model fail, {than} {gate}."
            )
            if not self.used:
                line = f"{gate} checks nothing."
            terminal.write_line(line, red=broken, green=not broken)


def _table(result: Result, failed: set[str], width: int) -> str:
    """Return a row for each test function; the cases of a parametrised one are counted."""
    tally = result.main.tally
    reachable = tally.share_of_reachable / tally.share if tally.share else 0.0
    groups: dict[str, list[tuple[bool, int, float]]] = {}
    for context in result.contexts:
        name = context.name.partition("[")[0] or "(outside of tests)"
        row = context.name in failed, context.texts, context.adds * reachable
        groups.setdefault(name, []).append(row)
    table = plain_table("Test", "Tests", "Failing", "Texts", "Adds %")
    for name, rows in groups.items():
        table.add_row(Text(name), *_cells(rows))
    rows = [row for group in groups.values() for row in group]
    table.add_section()
    table.add_row("Total", *_cells(rows), style="bold")
    file = io.StringIO()
    console = Screen(file=file, width=width, color_system=None)
    console.print(table)
    return file.getvalue()


def _cells(rows: list[tuple[bool, int, float]]) -> tuple[str, ...]:
    failing, texts, adds = zip(*rows, strict=True)
    counts = len(rows), sum(failing), sum(texts)
    return *(f"{count:,}" for count in counts), display_percent(min(1.0, sum(adds)))
