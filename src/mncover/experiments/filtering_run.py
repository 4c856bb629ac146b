"""Run Experiment 1: measure each test, judge it, write the table.

Every test has a data file of its own in the output folder; what is there already, from the same
model, ranges and cases, is not measured again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from rich.console import Console

from mncover import datafile
from mncover.cases import cases_of
from mncover.data import CoverageData
from mncover.engine import Engine
from mncover.errors import DataFileError, MismatchError, ModelError, SettingsError
from mncover.experiments.filtering import TABLES, Row, table_row
from mncover.experiments.protocols import Verdicts
from mncover.loading import load_subject
from mncover.masks import Masks
from mncover.predicting import class_probabilities
from mncover.progress import bar
from mncover.report.filteringreport import About, print_tables, write_tables
from mncover.run import Job, run_suite
from mncover.settings import Settings
from mncover.subject import Subject
from mncover.suites.answers import How, in_suite_classes
from mncover.suites.failures import judge_suite
from mncover.suites.files import load_suite
from mncover.suites.model import Suite
from mncover.suites.textfile import TextFile, read_texts
from mncover.texts import Text

DATA_FOLDER = "data"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to make: which table, of which model, suite and training texts."""

    table: str
    model: str
    suite: Path
    train: Path
    output: Path
    masks: Path | None = None
    judge: str | None = None
    texts: int | None = None  # how many texts of each test the paper's protocol looks at
    classes: How = "auto"
    max_length: int = 128
    batch_size: int = 32
    device: str | None = None
    quiet: bool = False


def run_filtering(asked: Asked) -> list[Row]:
    """Make one of Tables 1, 2 and 6; write it as text, CSV and JSON to a folder."""
    say = partial(Console(stderr=True, quiet=asked.quiet).print, markup=False, soft_wrap=True)
    suite, missing = _tests(load_suite(asked.suite), asked.table)
    for name in missing:
        say(f"{asked.suite}: no test {name!r}, so it is left out.")
    data, labels = _measure(asked, suite, say)
    judge, others = _judge(asked, suite)
    texts = asked.texts or TABLES[asked.table][1]
    rows = [
        table_row(test.name, cases_of(mine), texts, None if others is None else others[test.name])
        for test, mine in zip(suite.tests, data, strict=True)
    ]
    about = About(
        asked.table,
        Path(asked.model).name,
        judge,
        asked.suite.name,
        texts,
        labels,
        missing,
    )
    write_tables(rows, about, asked.output)
    print_tables(rows, about, Console(quiet=asked.quiet))
    Console(quiet=asked.quiet).print(
        f"Text, CSV and JSON are in {asked.output}.", markup=False, soft_wrap=True
    )
    return rows


def _tests(suite: Suite, table: str) -> tuple[Suite, list[str]]:
    """Return the table's tests in its order, and the names of those that the suite lacks."""
    wanted = TABLES[table][0]
    have = {test.name: test for test in suite.tests}
    found = tuple(have[name] for name in wanted if name in have)
    if not found:
        raise SettingsError(f"the suite has none of the tests of {table}.")
    return replace(suite, tests=found), [name for name in wanted if name not in have]


def _measure(asked: Asked, suite: Suite, say: Say) -> tuple[list[CoverageData], int]:
    """Measure each test from nothing, in its order."""
    train = read_texts(asked.train).texts
    masks = None if asked.masks is None else Masks.load(asked.masks)
    subject = _classifier(asked.model, asked.device)
    show = False if asked.quiet else None
    engine = Engine(subject, Settings(10, asked.max_length, 1.0), asked.batch_size, show, masks)
    engine.use_ranges(engine.calibrate(train, cache=True))
    found = []
    for number, test in enumerate(suite.tests, start=1):
        say(f"{number} of {len(suite.tests)}: {test.name} ({len(test.cases):,} cases)")
        alone = TextFile.of_suite(asked.suite, replace(suite, tests=(test,)))
        path = asked.output / DATA_FOLDER / f"{number:02d}.mncover"
        path.parent.mkdir(parents=True, exist_ok=True)
        job = Job(engine, alone, train, path, say, asked.classes)
        found.append(_finished(job) or run_suite(job))
    return found, subject.n_labels


def _finished(job: Job) -> CoverageData | None:
    """Return what an earlier call measured, if it is exactly this."""
    if not job.output.exists():
        return None
    try:
        data = datafile.read(job.output)
        data.identity.require_same(job.engine.identity())
    except (DataFileError, MismatchError):
        return None
    outlines = [data.outlines[run.id].classes for run in data.runs if run.id in data.outlines]
    same = [run.suite_fingerprint for run in data.runs] == [job.suite.fingerprint]
    return data if same and outlines == [job.classes] and not data.incomplete else None


def _judge(asked: Asked, suite: Suite) -> tuple[str | None, dict[str, Verdicts] | None]:
    """Return another model's name, and its verdicts on every case."""
    if asked.judge is None:
        return None, None
    if (Path(asked.judge) / DATA_FOLDER).is_dir():
        return _judged_before(Path(asked.judge), asked, suite)
    subject = _classifier(asked.judge, asked.device)
    texts: list[Text] = list(suite.each_text())
    encodings = subject.encode(texts, asked.max_length)
    show = False if asked.quiet else None
    with bar("Judging", len(texts), show) as advance:
        found = class_probabilities(subject, encodings, asked.batch_size, advance)
    answers = in_suite_classes(found, subject.labels, suite.labels, asked.classes)
    verdicts = {outcome.test.name: outcome.verdicts for outcome in judge_suite(suite, answers)}
    return Path(asked.judge).name, verdicts


def _judged_before(
    folder: Path, asked: Asked, suite: Suite
) -> tuple[str | None, dict[str, Verdicts] | None]:
    """Return the verdicts in the folder that this experiment wrote for another model."""
    name, verdicts = None, {}
    for number, test in enumerate(suite.tests, start=1):
        path = folder / DATA_FOLDER / f"{number:02d}.mncover"
        data = datafile.read(path)
        alone = TextFile.of_suite(asked.suite, replace(suite, tests=(test,)))
        if [run.suite_fingerprint for run in data.runs] != [alone.fingerprint] or data.incomplete:
            raise MismatchError(f"{path}: it holds something else than all of {test.name!r}.")
        name, verdicts[test.name] = Path(data.identity.model).name, cases_of(data).verdicts
    return name, verdicts


def _classifier(model: str, device: str | None) -> Subject:
    subject = load_subject(model, device=device)
    if subject.n_labels < 2:
        raise ModelError(f"{model} has no classes, so its failures cannot be told.")
    return subject
