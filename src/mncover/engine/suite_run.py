"""Run a whole suite into a data file, or go on with one that was interrupted.

While it runs, what is finished is beside the data file, which is replaced once, at the end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mncover.data import datafile
from mncover.data.files import Say, Unfinished, partial_path, silent
from mncover.data.identity import Run
from mncover.data.store import CoverageData
from mncover.engine.ahead import Ahead
from mncover.engine.engine import Engine
from mncover.engine.meetings import drawn_meetings
from mncover.engine.recorder import Recorder
from mncover.report.progress import bar
from mncover.suites.judging import in_suite_classes, require_classes, require_kind
from mncover.suites.model import How, Outline
from mncover.suites.rows import Rows
from mncover.types import counted


class SuiteRun:
    """One suite to be run by an engine into a data file; made before anything is measured.

    It refuses at once what cannot be run: labels or classes that are not the model's.
    """

    def __init__(
        self, engine: Engine, suite: Rows, output: Path, classes: How, say: Say = silent
    ) -> None:
        self.engine, self.suite, self.output = engine, suite, output
        self.unfinished = Unfinished(partial_path(output), "run", say)
        self.rows = suite.numbered(engine.subject.labels).by_context()
        self.outline = _outline(engine, suite, classes)

    def run(self) -> CoverageData:
        """Measure the suite, or what is left of it, and write the data file."""
        data = self.unfinished.load(self._read, _texts_in)
        if data is None:
            data = CoverageData(self.engine.identity(), self.engine.calibration)
            run = Run.start(*self.suite.origin)
        else:
            run = data.runs[-1]
        if run not in data.runs:
            data.runs.append(run)
        if self.outline is not None:
            data.outlines[run.id] = self.outline.in_columns()
        recorder = Recorder(self.engine, data, run)
        ahead = Ahead(self.output, run.id, self.engine, self.unfinished.say)
        with self.unfinished.announced():
            self._record(recorder, data.n_rows, ahead)
        recorder.close()
        if self.outline is not None:
            data.outlines[run.id] = self.outline.to_json()
        data.meetings = drawn_meetings(self.engine, data)
        datafile.write(data, self.output)
        self.unfinished.remove()
        ahead.remove()
        return data

    def finished(self) -> CoverageData | None:
        """Return what an earlier call wrote to the data file, if it is exactly this run."""
        if not self.output.exists():
            return None
        data = Unfinished(self.output, "run").load(self._read, _texts_in)
        if data is None or len(data.runs) != 1 or data.incomplete:
            return None
        mine = None if self.outline is None else self.outline.to_json()
        return data if data.outlines.get(data.runs[0].id) == mine else None

    def _record(self, recorder: Recorder, before: int, ahead: Ahead) -> None:
        data, rows = recorder.data, self.rows

        def write(path: Path) -> None:
            ahead.keep(recorder.waiting())
            datafile.write(data, path)

        def save() -> None:
            recorder.close()
            self.unfinished.save(write)

        with bar("Running", len(rows), self.engine.progress, before) as advance:
            try:
                known = ahead.read()
                for done in recorder.record_in_order(rows, advance, before, known):
                    if self.unfinished.is_time and done < len(rows):
                        save()
            except KeyboardInterrupt:
                if data.n_rows or any(recorder.waiting()):
                    save()
                raise

    def _read(self, path: Path) -> CoverageData | None:
        """Read a data file of this suite and this engine; otherwise return None, or raise."""
        data = datafile.read(path)
        data.identity.require_same(self.engine.identity())
        return data if data.runs[-1].suite_fingerprint == self.suite.fingerprint else None


def _texts_in(data: CoverageData) -> str:
    return counted(data.n_rows, "text")


def _outline(engine: Engine, suite: Rows, classes: How) -> Outline | None:
    """Return what the data keeps of a suite of tests; refuse one of other classes than the model.

    A model that does not classify is measured, but there is nothing to judge.
    """
    if suite.suite is None:
        return None
    subject, asked = engine.subject, engine.subject.prompting
    outline = Outline.of(suite.suite, classes)
    if subject.n_labels < 2:
        if asked.generate:
            require_kind(suite.suite, answering=True, judging=asked.judge is not None)
        return outline if asked.generate else None
    in_suite_classes(np.empty((0, subject.n_labels)), subject.labels, outline.labels, classes)
    require_classes(suite.suite, subject.labels)
    return outline
