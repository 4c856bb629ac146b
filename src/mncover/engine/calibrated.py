"""From a configuration to an engine that is ready to measure."""

from __future__ import annotations

from pathlib import Path

from mncover.cli.config import Config
from mncover.engine.engine import Engine
from mncover.engine.loading import load_subject
from mncover.masks.masks import Masks
from mncover.suites.formats import field_names, is_test_suite, load_suite, read_texts
from mncover.suites.formats.records import Fields
from mncover.suites.rows import Rows
from mncover.types import Settings


def calibrated_engine(model: str, config: Config, quiet: bool) -> Engine:
    """Load a model and masks, read the training texts, calibrate or find the ranges cached."""
    settings = Settings(config.bins, config.max_length, config.attention_weight)
    train = train_texts(config)
    masks = None if config.masks is None else Masks.load(config.masks)
    subject = load_subject(model, device=config.device, dtype=config.dtype)
    engine = Engine(subject, settings, config.batch_size, False if quiet else None, masks)
    engine.use_ranges(engine.calibrate(train.texts, cache=True))
    return engine


def suite_texts(path: Path, config: Config) -> Rows:
    """Read a suite of tests, or a plain file of texts."""
    if is_test_suite(path):
        return Rows.of_suite(path, load_suite(path))
    return read_texts(path, Fields(config.text, config.pair, config.label, config.context))


def train_texts(config: Config) -> Rows:
    """Read the training texts by the suite's fields if the file has them, else by usual names."""
    path = Path(str(config.train))
    asked = {name for name in (config.text, config.pair) if name is not None}
    same = bool(asked) and asked <= field_names(path)
    fields = Fields(config.text, config.pair) if same else Fields()
    return read_texts(path, fields, config.train_limit)
