"""`mncover augment`: from files and options to a file of new texts, or a suite of tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from rich.console import Console

from mncover.augment import outcome as augmentreport
from mncover.augment.grower import Grower, usable_transforms
from mncover.augment.outcome import Yield, suite_of, write_accepted, yield_of
from mncover.augment.records import Augmented, AugmentSettings, Guide
from mncover.augment.transforms import Resources
from mncover.cli.config import Config
from mncover.data.files import replacing
from mncover.engine.calibrated import calibrated_engine
from mncover.engine.engine import Engine
from mncover.engine.measure import class_probabilities
from mncover.errors import SettingsError, TextError
from mncover.suites.formats import chosen_fields, read_texts, save_suite
from mncover.suites.formats.records import Fields
from mncover.suites.rows import Rows
from mncover.types import Text

Target = Literal["train", "tests"]


@dataclass(frozen=True, slots=True)
class AugmentJob:
    """Everything that `mncover augment` was told."""

    model: str
    seeds: Path
    config: Config
    output: Path
    guide: Guide = "cover"
    similarity: float = 0.85
    threshold: float = 0.0
    max_iter: int = 10
    seed: int = 0
    transforms: tuple[str, ...] = ()
    resources: Resources = field(default_factory=Resources)
    encoder: str | None = None
    limit: int | None = None
    rounds: int = 1
    include_seeds: bool = False
    target: Target = "train"
    quiet: bool = False

    def settings(self, transforms: tuple[str, ...]) -> AugmentSettings:
        """Return how to search with these transformations."""
        return AugmentSettings(
            transforms, self.guide, self.similarity, self.threshold, self.max_iter, self.seed
        )


def run_augment(job: AugmentJob) -> Augmented:
    """Grow the seeds and write what was found; an earlier call that was cut off is continued."""
    _check(job)
    console = Console(quiet=job.quiet)
    transforms, missing = usable_transforms(job.transforms, job.resources)
    for name, why in missing.items():
        console.print(f"Without {name}: {why}", style="yellow", markup=False, soft_wrap=True)
    settings = job.settings(tuple(transforms))
    fields = Fields(job.config.text, job.config.pair, job.config.label)
    seeds = read_texts(job.seeds, fields, job.limit)
    engine = calibrated_engine(job.model, job.config, job.quiet)
    grower = Grower.make(engine, tuple(transforms), job.encoder, job.resources)
    partial = job.output.with_name(job.output.name + ".partial")
    found = grower.grow(seeds.texts * job.rounds, settings, partial)
    if not found.accepted:
        partial.unlink(missing_ok=True)
        raise TextError("no text was accepted, so none is written: try a lower --similarity.")
    yields: list[Yield] = []
    if job.target == "tests":
        save_suite(suite_of(found.accepted, seeds.texts), job.output)
        yields = _yields(grower, seeds, settings, found)
    else:
        names = chosen_fields(job.seeds, fields)
        write_accepted(job.output, found.accepted, seeds, names, job.include_seeds)
    _report(job, settings, found, yields, console)
    partial.unlink(missing_ok=True)
    return found


def _check(job: AugmentJob) -> None:
    if job.guide == "mncover" and job.config.masks is None:
        raise SettingsError("mnCover needs masks: --masks FILE (see `mncover masks --help`).")
    if not job.output.name.endswith((".jsonl", ".jsonl.gz")):
        raise SettingsError(f"{job.output}: JSON Lines are written: name it .jsonl or .jsonl.gz.")
    if job.target == "tests" and job.include_seeds:
        raise SettingsError("a suite of tests has its seeds in it: leave --include-seeds out.")


def _yields(
    grower: Grower, seeds: Rows, settings: AugmentSettings, found: Augmented
) -> list[Yield]:
    """Return the failures of this search and of an unguided one that runs as many texts."""
    answers = _classes(grower.engine, seeds.texts)
    if max(answers, default=-1) < 0:  # no classes, or several at once: nothing is a failure
        return []

    def counted(name: str, one: Augmented) -> Yield:
        texts = [accepted.text for accepted in one.accepted]
        return yield_of(name, one, _classes(grower.engine, texts), answers)

    if settings.metric is None:
        return [counted("unguided", found)]
    # Seeds come again and again, until as many texts were run.
    again = 1 + 2 * found.model_calls // len(seeds.texts)
    free = replace(settings, guide="none", seed=settings.seed + 1)
    other = grower.grow(seeds.texts * again, free, model_calls=found.model_calls)
    return [counted(f"guided by {settings.guide}", found), counted("unguided", other)]


def _classes(engine: Engine, texts: Sequence[Text]) -> list[int]:
    subject = engine.subject
    encodings = subject.encode(texts, engine.settings.max_length)
    probabilities = class_probabilities(subject, encodings, engine.batch_size)
    return [int(number) for number in subject.predictions(probabilities)]


def _report(
    job: AugmentJob,
    settings: AugmentSettings,
    found: Augmented,
    yields: list[Yield],
    console: Console,
) -> None:
    beside = job.output.with_name(job.output.name + ".report.json")
    content = augmentreport.to_json(found, settings.transforms, settings.guide, yields)
    with replacing(beside) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    console.print()
    for line in augmentreport.summary(found, settings.metric):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    console.print()
    console.print(augmentreport.transform_table(found, settings.transforms))
    console.print()
    console.print(augmentreport.combination_table(found))
    if yields:
        console.print()
        console.print(augmentreport.yield_table(yields))
    if len(yields) > 1:
        console.print(augmentreport.conclusion(yields), highlight=False, soft_wrap=True)
    console.print(f"\nWrote {job.output} and {beside}.", markup=False, soft_wrap=True)
