"""Run a suite while a model is trained: a callback for the Trainer of transformers."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import TrainerCallback

from mncover.cli.options import Config, suite_texts, train_texts
from mncover.coverage import Coverage
from mncover.data.results import ContextResult, Result
from mncover.data.store import CoverageData
from mncover.engine.suite_run import SuiteRun
from mncover.errors import SettingsError
from mncover.selection.cases import cases_by_run
from mncover.selection.changes import changes_since
from mncover.suites.model import How
from mncover.suites.rows import Rows
from mncover.types import Text, check_texts, shorten

PREFIX = "eval_mncover_"  # loggers of transformers put what begins with "eval_" under "eval/"
SHOWN = 5  # new failures that are written to the log

logger = logging.getLogger(__name__)


class SuiteCallback(TrainerCallback):  # type: ignore[misc]
    """Runs a suite every so often, logs failures and coverage, and keeps the data files.

    `suite` is a file, or what `read_texts` returned; `train` are the texts that set the ranges, or
    a file of them. `every` is a number of steps, "epoch" or "evaluation". With
    `stop_on_new_failure` training ends when a case fails that passed in the run before, or in the
    data file `since`. `options` are those of `Coverage`, such as `max_length`.

        trainer = Trainer(...)
        trainer.add_callback(SuiteCallback(trainer, "suite.jsonl", "train.csv", every=100))
    """

    def __init__(
        self,
        trainer: Any,
        suite: str | Path | Rows,
        train: str | Path | Iterable[Text],
        *,
        every: int | str = "epoch",
        folder: str | Path = "mncover-training",
        since: str | Path | None = None,
        stop_on_new_failure: bool = False,
        tokenizer: Any = None,
        classes: How = "auto",
        **options: Any,
    ) -> None:
        self.trainer, self.every, self.stop = trainer, _checked(every), stop_on_new_failure
        self.tokenizer = trainer.processing_class if tokenizer is None else tokenizer
        self.folder, self.classes = Path(folder), classes
        self.options = {"progress": False, **options}
        if stop_on_new_failure and trainer.args.world_size > 1:
            raise SettingsError("`stop_on_new_failure` works with one process, not with several.")
        self.since = None if since is None else Coverage.load(since).data
        self.earlier = self.since
        self.suite = suite if isinstance(suite, Rows) else suite_texts(Path(suite), Config())
        self.train = _texts(train)
        # The cases that passed before and fail now, as tests and texts, after the last run.
        self.new_failures: list[tuple[str, tuple[Text, ...]]] = []
        with _same_random_numbers():  # refuses before the training what cannot be run
            self._check(Coverage(trainer.model, self.tokenizer, **self.options))

    def _check(self, cov: Coverage) -> None:
        run = SuiteRun(cov.engine, self.suite, self.folder, self.classes)
        judged = run.outline is not None or any(label >= 0 for label in run.rows.labels)
        if self.stop and not judged:
            raise SettingsError(
                "`stop_on_new_failure` needs tests or labels: nothing in this suite can fail."
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Run the suite after every so many steps."""
        if isinstance(self.every, int) and state.global_step % self.every == 0:
            self._run(state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Run the suite after an epoch."""
        if self.every == "epoch":
            self._run(state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Run the suite after an evaluation."""
        if self.every == "evaluation":
            self._run(state, control)

    def _run(self, state: Any, control: Any) -> None:
        if not state.is_world_process_zero:
            return
        path = self.folder / f"step-{state.global_step:06}.mncover"
        with _same_random_numbers():
            cov = Coverage(self.trainer.model, self.tokenizer, **self.options)
            cov.calibrate(self.train, cache=False)  # weights that nobody will see again
            ran = cov.run(self.suite, path, classes=self.classes)
        self._compare(ran.data)
        logs = {PREFIX + name: value for name, value in numbers(ran.result()).items()}
        if self.earlier is not None:
            logs[f"{PREFIX}new_failures"] = len(self.new_failures)
        self.earlier = self.since or ran.data
        should_log = control.should_log
        self.trainer.log(logs)
        control.should_log = should_log  # logging clears it, and the trainer has its own to log
        if self.new_failures and self.stop:
            self._explain(state.global_step)
            control.should_training_stop = True

    def _compare(self, data: CoverageData) -> None:
        self.new_failures = []
        if self.earlier is not None:
            found = changes_since(cases_by_run(data), cases_by_run(self.earlier), "").newly_failing
            named = ((cases.tests[cases.test[at]], cases.texts(at)) for cases, at in found)
            self.new_failures = list(named)

    def _explain(self, step: int) -> None:
        n = len(self.new_failures)
        what = "1 case fails that passed" if n == 1 else f"{n:,} cases fail that passed"
        each = (f"{test}: {shorten(texts[0])}" for test, texts in self.new_failures[:SHOWN])
        shown = "; ".join(each) + ("; …" if n > SHOWN else "")
        logger.warning("Training stops after step %d: %s before (%s).", step, what, shown)


def numbers(result: Result) -> dict[str, float]:
    """Return what is logged: coverage of reachable bins, and what share fails, also by test."""
    found = {name: one.tally.share_of_reachable for name, one in result.criteria.items()}
    rates = {"failing": failing_share(result.contexts)}
    rates |= {f"failing_{one.name}": failing_share([one]) for one in result.contexts}
    return found | {name: rate for name, rate in rates.items() if rate is not None}


def failing_share(contexts: Iterable[ContextResult]) -> float | None:
    """Return the share of cases and labelled texts that fail; None if nothing can."""
    counts = [(one.failing, one.judged) for one in contexts]
    failing, judged = (sum(column) for column in zip(*counts, strict=True))
    return failing / judged if judged else None


def _texts(train: str | Path | Iterable[Text]) -> list[Text]:
    if isinstance(train, str | Path):
        return train_texts(Config(train=str(train)))
    return check_texts(train)


def _checked(every: int | str) -> int | str:
    steps = isinstance(every, int) and not isinstance(every, bool) and every > 0
    if not steps and every not in ("epoch", "evaluation"):
        raise SettingsError(
            f"`every` must be a number of steps, 'epoch' or 'evaluation', got {every!r}."
        )
    return every


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Let the training draw the numbers that it would have drawn without the block."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)
