"""Run a suite and write its data file, going on where an interrupted run stopped.

While a run is under way, what is finished lies beside the data file under the same name with
`.partial` behind it. The data file itself is replaced once, at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mncover.data import datafile
from mncover.data.store import CoverageData, Run
from mncover.engine.engine import Engine
from mncover.engine.recorder import Recorder
from mncover.errors import DataFileError, MismatchError
from mncover.report.progress import bar
from mncover.suites.judging import in_suite_classes
from mncover.suites.model import How, Outline
from mncover.suites.rows import Rows
from mncover.types import Text

# Unfinished work is written down so often at most, and never for more than a fiftieth of the time.
CHECKPOINT_SECONDS = 10.0
CHECKPOINT_SHARE = 0.02

Say = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """One suite to be run by an engine into a data file."""

    engine: Engine
    suite: Rows
    train: list[Text]
    output: Path
    say: Say
    classes: How = "auto"  # how the model's classes correspond to those of a suite of tests

    @property
    def partial(self) -> Path:
        """Where unfinished work is kept."""
        return self.output.with_name(self.output.name + datafile.PARTIAL_SUFFIX)


def run_suite(job: Job) -> CoverageData:
    """Calibrate (or find the ranges in the cache), measure the suite, write the data file."""
    suite, engine = job.suite, job.engine
    rows = suite.numbered(engine.subject.labels).by_context()
    outline = _outline(job)
    engine.use_ranges(engine.calibrate(job.train, cache=True))
    data, run = _resumed(job) or (CoverageData(engine.identity()), _new_run(job))
    if outline is not None:
        data.outlines[run.id] = outline.to_json()
    recorder = Recorder(engine, data, run)
    _record(job, recorder, rows.part(slice(len(data.table), None)))
    recorder.close()
    datafile.write(data, job.output)
    job.partial.unlink(missing_ok=True)
    return data


def _outline(job: Job) -> Outline | None:
    """Return what the data keeps of a suite of tests; refuse one of other classes than the model.

    A model that does not classify is measured, but there is nothing to judge.
    """
    subject = job.engine.subject
    if job.suite.suite is None or subject.n_labels < 2:
        return None
    outline = Outline.of(job.suite.suite, job.classes)
    nothing = np.empty((0, subject.n_labels))
    in_suite_classes(nothing, subject.labels, outline.labels, outline.classes)
    return outline


def _new_run(job: Job) -> Run:
    return Run.start(str(job.suite.path), job.suite.fingerprint, len(job.suite.texts))


def _record(job: Job, recorder: Recorder, rows: Rows) -> None:
    data = recorder.data
    saved, pause = time.monotonic(), CHECKPOINT_SECONDS
    with bar("Running", len(job.suite.texts), job.engine.progress, len(data.table)) as advance:
        try:
            for done in recorder.record_in_order(rows, advance):
                start = time.monotonic()
                if start - saved >= pause and done < len(rows):
                    _checkpoint(job, recorder)
                    saved = time.monotonic()
                    pause = max(CHECKPOINT_SECONDS, (saved - start) / CHECKPOINT_SHARE)
        except KeyboardInterrupt:
            if len(data.table):
                _checkpoint(job, recorder)
            raise


def _checkpoint(job: Job, recorder: Recorder) -> None:
    recorder.close()
    datafile.write(recorder.data, job.partial)


def _resumed(job: Job) -> tuple[CoverageData, Run] | None:
    """Return the unfinished work of this very run, if there is any."""
    if not job.partial.exists():
        return None
    try:
        data = datafile.read(job.partial)
        data.identity.require_same(job.engine.identity())
    except (DataFileError, MismatchError):
        data = None
    if data is None or data.runs[-1].suite_fingerprint != job.suite.fingerprint:
        job.say(f"{job.partial} belongs to another run: starting afresh.")
        return None
    job.say(f"Going on with {job.partial}: {len(data.table):,} texts are done.")
    return data, data.runs[-1]
