"""A session of tests that is measured: watch, measure at the end, check, report.

With xdist each worker measures what its tests ran and writes a data file; the controller, which
runs no tests, combines them. A lock sees to it that only one worker calibrates: the others find
the ranges in the cache.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import pytest

from mncover.cli.options import LOADING, SETTINGS, Config, load_config, train_texts
from mncover.coverage import Coverage
from mncover.errors import MnCoverError, SettingsError
from mncover.plugins.pytest_models import opened
from mncover.plugins.pytest_summary import Summary
from mncover.plugins.seen import Seen
from mncover.selection.gates import MaxFailing
from mncover.types import Text, check_texts

DATA = "pytest.mncover"
KEY = "mncover"  # of what controller and workers tell each other
ENDED_EARLY = (
    pytest.ExitCode.INTERRUPTED,
    pytest.ExitCode.INTERNAL_ERROR,
    pytest.ExitCode.USAGE_ERROR,
)


class Measuring:
    """The plugin of one process: the only one, a worker of xdist, or its controller."""

    def __init__(self, config: pytest.Config, settings: Mapping[str, str]) -> None:
        self.config = config
        self.measure = _measure_settings(config, settings["calibrate"])
        self.output = _output(config, settings["data"])
        self.summary = Summary(
            self.output, _percent(settings["fail-under"]), _most(settings["max-failing"])
        )
        self.coverage: Coverage | None = None
        self.seen: Seen | None = None
        self.train: list[Text] | None = None
        self.context = ""
        worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        # The folder that the processes share.
        self.shared = None if worker is None else Path(worker[KEY])
        self.folder: tempfile.TemporaryDirectory[str] | None = None
        self.files: list[Path] = []

    # What tests use.

    def watch(
        self, model: Any, tokenizer: Any = None, *, calibrate: Iterable[Text] | None = None
    ) -> Any:
        """Measure what runs through a model from now on; return what a test is to use."""
        wrong = None
        try:
            given, model, tokenizer = opened(model, tokenizer)
            self._watch(model, tokenizer, calibrate)
        except MnCoverError as error:
            wrong = f"mncover: {error}"
        if wrong is not None:  # outside of the block, so that only this line is shown
            pytest.fail(wrong, pytrace=False)
        return given

    def _watch(self, model: Any, tokenizer: Any, calibrate: Iterable[Text] | None) -> None:
        if self.coverage is not None:
            if self.coverage.engine.subject.model is not model:
                raise SettingsError(
                    "mncover_model was already given another model: a session measures one. "
                    "Load it in a fixture of session scope, or run the other one's tests apart."
                )
            return
        if calibrate is None and self.measure.train is None:
            raise SettingsError(
                "give the texts that set the ranges: --mncover-calibrate FILE, or calibrate=[…]."
            )
        loaded = ("device", "device_map", "dtype")  # by whoever made the model
        names = (*SETTINGS, *(name for name in LOADING if name not in loaded))
        options: dict[str, Any] = {name: getattr(self.measure, name) for name in names}
        options["criteria"] = self.measure.criterion_names
        coverage = Coverage(model, tokenizer, **options, progress=False)
        self.train = None if calibrate is None else check_texts(calibrate)
        self.seen = Seen(coverage.engine.subject.traced, tokenizer)
        self.coverage, self.seen.context = coverage, self.context

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Keep what a test runs apart under its id."""
        self._enter(item.nodeid)
        result = yield
        self._enter("")
        return result

    def _enter(self, context: str) -> None:
        self.context = context
        if self.seen is not None:
            self.seen.context = context

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note which tests fail; the controller hears of all of them."""
        if report.failed:
            self.summary.failed.add(report.nodeid)

    # Controller and workers.

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker which folder it shares with the others."""
        self.folder = self.folder or tempfile.TemporaryDirectory(prefix="mncover-pytest-")
        node.workerinput[KEY] = self.folder.name

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker has measured."""
        told: dict[str, Any] | None = getattr(node, "workeroutput", {}).get(KEY)
        if told is None:
            name = node.gateway.id
            self.summary.errors.append(f"the worker {name} ended early: what it ran is missing.")
            return
        self.summary.used |= set(told["used"])
        self.summary.unread += told["unread"]
        self.summary.errors += told["errors"]
        self.files += [Path(told["file"])] if told["file"] else []

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Measure or combine, write the data file, and decide whether the session fails."""
        if exitstatus in ENDED_EARLY:
            return
        try:
            self._finish(session)
        except MnCoverError as error:
            self.summary.errors.append(str(error))
        if self.shared is not None:
            self._tell()
            return
        if self.folder is not None:
            self.folder.cleanup()
        session.exitstatus = self.summary.exit_status(int(exitstatus))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print what was measured."""
        self.summary.print_to(terminalreporter)

    def _finish(self, session: pytest.Session) -> None:
        if self.folder is not None:  # the controller
            found = [Coverage.load(path) for path in sorted(self.files)]
            united = reduce(or_, found) if found else None
        else:
            united = self._measured()
        if united is None:
            return
        if self.shared is not None:
            worker = getattr(self.config, "workerinput", {})["workerid"]
            self.files = [self.shared / f"{worker}.mncover"]
            united.save(self.files[0])
            return
        united.save(self.output)
        self.summary.result = united.result()

    def _measured(self) -> Coverage | None:
        """Run what the tests ran once more, in large batches, and measure it."""
        if self.seen is None or self.coverage is None:
            return None
        self.seen.stop()
        self.summary.used |= self.seen.contexts - {""}
        found, self.summary.unread = self.seen.texts()
        if not found:
            return None
        train = train_texts(self.measure) if self.train is None else self.train
        with self._alone():
            self.coverage.calibrate(train)
        contexts, texts = zip(*found, strict=True)
        return self.coverage.update(texts, context=contexts, gains=True)

    def _alone(self) -> AbstractContextManager[Any]:
        """Wait until no other worker calibrates."""
        if self.shared is None:
            return nullcontext()
        from filelock import FileLock

        return FileLock(self.shared / "calibrate.lock")

    def _tell(self) -> None:
        """Tell the controller what this worker has measured."""
        summary = self.summary
        output: dict[str, Any] = getattr(self.config, "workeroutput", {})
        output[KEY] = {
            "file": str(self.files[0]) if self.files else None,
            "used": sorted(summary.used),
            "unread": summary.unread,
            "errors": summary.errors,
        }


def _measure_settings(config: pytest.Config, calibrate: str) -> Config:
    """Return how to measure: what [tool.mncover] says, and the texts to calibrate on."""
    found = load_config(config.rootpath)
    if calibrate:
        path = config.invocation_params.dir / calibrate
        if not path.is_file():
            path = config.rootpath / calibrate
        found = found.overridden(train=str(path))
    elif found.train is not None:
        found = found.overridden(train=str(config.rootpath / found.train))
    if found.train is not None and not Path(found.train).is_file():
        raise SettingsError(f"{calibrate or found.train}: no such file to calibrate on.")
    return found


def _output(config: pytest.Config, given: str) -> Path:
    path = config.invocation_params.dir / (given or DATA)
    if not path.parent.is_dir():
        raise SettingsError(f"--mncover-data {given}: there is no folder {path.parent}.")
    return path


def _percent(given: str) -> float | None:
    if not given:
        return None
    try:
        share = float(given.removesuffix("%"))
    except ValueError:
        share = -1.0
    if not 0 <= share <= 100:
        raise SettingsError(f"--mncover-fail-under is a percentage from 0 to 100, got {given!r}.")
    return share


def _most(given: str) -> MaxFailing | None:
    return MaxFailing.parse(given) if given else None
