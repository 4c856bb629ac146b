"""The part of `mncover masks` that needs torch."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from rich.console import Console

from mncover.cli.config import Config
from mncover.data.display import display_percent
from mncover.engine.calibrated import train_texts
from mncover.engine.loading import load_subject
from mncover.engine.subject import Subject
from mncover.errors import MaskError, SettingsError, TextError
from mncover.masks.fidelity import fidelity_on
from mncover.masks.masks import Masks, Unseen
from mncover.masks.settings import LearningSettings
from mncover.masks.sweep import learn_to_file, run_sweep
from mncover.report.describe import describe_masks
from mncover.types import Text


@dataclass(frozen=True)
class MaskJob:
    """Everything that `mncover masks` was asked for."""

    model: str
    config: Config
    settings: LearningSettings
    output: Path
    test: Path | None = None
    words: Path | None = None
    scores: Path | None = None
    unseen: str | None = None
    sweep: str | None = None
    plot: Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        made = self.words is not None or self.scores is not None
        if self.unseen not in (None, *get_args(Unseen)):
            known = ", ".join(get_args(Unseen))
            raise SettingsError(f"`unseen` must be one of {known}, got {self.unseen!r}.")
        if self.unseen is not None and (made or self.sweep is not None):
            raise SettingsError("--unseen is for masks that are learnt, one at a time.")
        if made and self.sweep is not None:
            raise SettingsError("--sweep learns masks: give it without --words and --scores.")
        if self.plot is not None and self.sweep is None:
            raise SettingsError("--plot draws the curve of a --sweep: give that too.")
        ways = [way for way in (self.words, self.scores, self.config.train) if way is not None]
        if not ways:
            raise SettingsError("give the texts to learn from: --train FILE (see --help).")


def run_mask_job(job: MaskJob, top: int) -> int:
    """Make or learn masks, save them and show them; or sweep a setting."""
    console = Console(quiet=job.quiet)
    subject = load_subject(job.model, device=job.config.device, dtype=job.config.dtype)
    if job.sweep is not None:
        texts = (_train(job), _test(job))
        run_sweep(subject, *texts, job.settings, job.sweep, job.output, job.plot, console)
        return 0
    masks = _made(job, subject)
    if masks is not None:
        masks.save(job.output)
    else:
        unseen, train = cast(Unseen | None, job.unseen), _train(job)
        masks = learn_to_file(
            subject, train, job.settings, job.output, quiet=job.quiet, unseen=unseen
        )
    console.print(describe_masks(masks.summary(top)))
    if job.test is not None:
        share = display_percent(fidelity_on(subject, masks, _test(job), job.settings.max_length))
        console.print(f"Fidelity on {job.test}: {share} %", soft_wrap=True, markup=False)
    console.print(
        f"The masks are {job.output}. Use them with: mncover run MODEL SUITE --masks {job.output}",
        soft_wrap=True,
        markup=False,
    )
    return 0


def _made(job: MaskJob, subject: Subject) -> Masks | None:
    """Return masks from a list of words or of scores, if one was given."""
    if job.words is not None:
        listed = _read(job.words).splitlines()
        return Masks.from_words(subject.tokenizer, [w.strip() for w in listed if w.strip()])
    if job.scores is not None:
        return Masks.from_scores(subject.tokenizer, _scores(job.scores))
    return None


def _scores(path: Path) -> dict[str, float]:
    try:
        scores: Any = json.loads(_read(path))
    except ValueError as error:
        raise MaskError(f"{path}: not JSON ({error}).") from error
    if not isinstance(scores, dict) or not all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in scores.values()
    ):
        raise MaskError(f"{path}: must be one object of words with a number each.")
    return scores


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: not UTF-8 ({error}).") from error


def _train(job: MaskJob) -> list[Text]:
    if job.config.train is None:
        raise SettingsError("give the texts to learn from: --train FILE (see --help).")
    return train_texts(job.config).texts


def _test(job: MaskJob) -> list[Text]:
    """Read the test texts by the training texts' fields."""
    if job.test is None:
        return []
    return train_texts(replace(job.config, train=str(job.test), train_limit=None)).texts
