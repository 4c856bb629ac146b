"""Run a suite and write its data file, resuming where an interrupted run stopped.

While a run is under way, what is finished is beside the data file, in a file with `.partial`
behind its name. The data file itself is replaced once, at the end.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from mncover.data import datafile
from mncover.data.identity import Run
from mncover.data.resume import Say, Unfinished, partial_path, silent
from mncover.data.store import CoverageData
from mncover.engine.engine import Engine
from mncover.engine.recorder import Recorder
from mncover.report.progress import bar
from mncover.suites.judging import in_suite_classes
from mncover.suites.model import How, Outline
from mncover.suites.rows import Rows


class SuiteRun:
    """One suite to be run by an engine into a data file; made before anything is measured.

    It refuses at once what cannot be run: labels or classes that are not the model's.
    """

    def __init__(
        self, engine: Engine, suite: Rows, output: Path, classes: How, say: Say = silent
    ) -> None:
        self.engine = engine
        self.suite = suite
        self.output = output
        self.unfinished = Unfinished(partial_path(output), "run", say)
        self.rows = suite.numbered(engine.subject.labels).by_context()
        self.outline = _outline(engine, suite, classes)

    def run(self) -> CoverageData:
        """Measure the suite, or what is left of it, and write the data file."""
        data, run = self._resumed() or (CoverageData(self.engine.identity()), self._new_run())
        if self.outline is not None:
            data.outlines[run.id] = self.outline.to_json()
        recorder = Recorder(self.engine, data, run)
        with self.unfinished.announced():
            self._record(recorder, self.rows.part(slice(len(data.table), None)))
        recorder.close()
        datafile.write(data, self.output)
        self.unfinished.remove()
        return data

    def finished(self) -> CoverageData | None:
        """Return what an earlier call wrote to the data file, if it is exactly this run."""
        if not self.output.exists():
            return None
        quiet = Unfinished(self.output, "run")
        data = quiet.load(self._read, lambda found: f"{len(found.table):,} texts")
        if data is None or len(data.runs) != 1 or data.incomplete:
            return None
        mine = None if self.outline is None else self.outline.to_json()
        return data if data.outlines.get(data.runs[0].id) == mine else None

    def _new_run(self) -> Run:
        return Run.start(str(self.suite.path), self.suite.fingerprint, len(self.rows))

    def _record(self, recorder: Recorder, rows: Rows) -> None:
        data = recorder.data

        def save() -> None:
            recorder.close()
            self.unfinished.save(lambda path: datafile.write(data, path))

        with bar("Running", len(self.rows), self.engine.progress, len(data.table)) as advance:
            try:
                for done in recorder.record_in_order(rows, advance):
                    if self.unfinished.is_time and done < len(rows):
                        save()
            except KeyboardInterrupt:
                if len(data.table):
                    save()
                raise

    def _resumed(self) -> tuple[CoverageData, Run] | None:
        """Return the unfinished work of this very run, if there is any."""
        data = self.unfinished.load(self._read, lambda found: f"{len(found.table):,} texts")
        return None if data is None else (data, data.runs[-1])

    def _read(self, path: Path) -> CoverageData | None:
        """Read a data file of this suite and this engine; otherwise return None, or raise."""
        data = datafile.read(path)
        data.identity.require_same(self.engine.identity())
        return data if data.runs[-1].suite_fingerprint == self.suite.fingerprint else None


def _outline(engine: Engine, suite: Rows, classes: How) -> Outline | None:
    """Return what the data keeps of a suite of tests; refuse one of other classes than the model.

    A model that does not classify is measured, but there is nothing to judge.
    """
    subject = engine.subject
    if suite.suite is None or subject.n_labels < 2:
        return None
    outline = Outline.of(suite.suite, classes)
    nothing = np.empty((0, subject.n_labels))
    in_suite_classes(nothing, subject.labels, outline.labels, outline.classes)
    return outline
