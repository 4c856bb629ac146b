"""The part of `mncover run` that needs torch."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from rich.console import Console

from mncover.config import Config
from mncover.data import CoverageData
from mncover.engine import Engine
from mncover.loading import load_subject
from mncover.masks import Masks
from mncover.metrics import check_metric
from mncover.run import Job, run_suite
from mncover.settings import Settings
from mncover.suites.answers import known_way
from mncover.suites.files import is_test_suite, load_suite
from mncover.suites.textfile import Fields, TextFile, field_names, read_texts


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


def suite_texts(path: Path, config: Config) -> TextFile:
    """Read a suite of tests, or a plain file of texts."""
    if is_test_suite(path):
        return TextFile.of_suite(path, load_suite(path))
    return read_texts(path, Fields(config.text, config.pair, config.label, config.context))


def train_texts(config: Config) -> TextFile:
    """Read the training texts by the suite's fields if the file has them, else by usual names."""
    path = Path(str(config.train))
    asked = {name for name in (config.text, config.pair) if name is not None}
    same = bool(asked) and asked <= field_names(path)
    fields = Fields(config.text, config.pair) if same else Fields()
    return read_texts(path, fields, config.train_limit)
