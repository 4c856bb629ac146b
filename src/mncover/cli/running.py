"""The part of `mncover run` that needs torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Console

from mncover.cli.config import Config
from mncover.criteria import check_metric
from mncover.data.store import CoverageData
from mncover.engine.calibrated import suite_texts, train_texts
from mncover.engine.engine import Engine
from mncover.engine.loading import load_subject
from mncover.engine.running import Job, run_suite
from mncover.masks.masks import Masks
from mncover.suites.model import known_way
from mncover.types import Settings


def run_from_config(model: str, suite: Path, config: Config, quiet: bool) -> CoverageData:
    """Read the files, load the model, run the suite."""
    settings = Settings(config.bins, config.max_length, config.attention_weight)
    texts = suite_texts(suite, config)
    train = train_texts(config)
    masks = None if config.masks is None else Masks.load(config.masks)
    check_metric(config.metric, masks is not None)
    console = Console(stderr=True, quiet=quiet)
    say = partial(console.print, markup=False, soft_wrap=True)
    subject = load_subject(model, device=config.device, dtype=config.dtype)
    show = False if quiet else None
    engine = Engine(subject, settings, config.batch_size, show, masks)
    job = Job(engine, texts, train.texts, Path(config.output), say, known_way(config.classes))
    try:
        return run_suite(job)
    except KeyboardInterrupt:
        if job.partial.exists():
            say(f"What is finished lies in {job.partial}: run the same command to go on.")
        raise
