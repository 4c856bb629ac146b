"""The part of `mncover select` that runs the model again, because a data file has no codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mncover.cli.config import Config
from mncover.criteria import Metric, check_metric
from mncover.engine.calibrated import train_texts
from mncover.engine.engine import Engine
from mncover.engine.loading import load_subject
from mncover.errors import MismatchError, SettingsError
from mncover.masks.masks import Masks
from mncover.selection.budgets import Indices, Limit
from mncover.selection.cases import Cases
from mncover.selection.greedy import greedy
from mncover.selection.sequential import sequential_filter


def choose_by_running(
    by: str,
    cases: Cases,
    groups: Sequence[Indices],
    limit: Limit,
    config: Config,
    model: str | None,
    quiet: bool,
) -> Indices:
    """Choose the cases of each group by the gain over those chosen before.

    Each group starts from nothing. The result is in the suite's order.
    """
    if limit.quantile is not None or (by == "sequential" and limit.threshold is None):
        raise SettingsError("sequential takes a --threshold, greedy a --threshold or a --budget.")
    engine = _engine(cases, config, model, quiet)
    metric = check_metric(config.metric, engine.masks is not None)
    taken = [group[_choose(by, cases, group, limit, engine, metric)] for group in groups]
    return np.sort(np.concatenate(taken)) if taken else np.zeros(0, dtype=np.int64)


def _choose(
    by: str, cases: Cases, group: Indices, limit: Limit, engine: Engine, metric: Metric
) -> list[int]:
    texts = [[cases.data.table.texts[row] for row in cases.rows[case]] for case in group]
    threshold = 0.0 if limit.threshold is None else limit.threshold
    if by == "sequential":
        return sequential_filter(engine, texts, threshold, engine.backend.new_map(), metric).kept
    budget = None if limit.threshold is not None else limit.size(len(texts))
    return greedy(engine, texts, budget, threshold, metric).kept


def _engine(cases: Cases, config: Config, model: str | None, quiet: bool) -> Engine:
    """Return an engine that measures exactly as the data was measured."""
    identity = cases.data.identity
    if config.train is None:
        raise SettingsError("give the texts that set the ranges: --train FILE (see --help).")
    masks = None if config.masks is None else Masks.load(config.masks)
    subject = load_subject(model or identity.model, device=config.device, dtype=config.dtype)
    show = False if quiet else None
    engine = Engine(subject, identity.settings, config.batch_size, show, masks)
    engine.require_same_subject(identity)
    ranges = engine.calibrate(train_texts(config).texts, cache=True)
    if ranges.fingerprint != identity.ranges_fingerprint:
        raise MismatchError(
            f"{Path(config.train)}: the data was measured with ranges of other texts; give the "
            "file that `mncover run` had as --train."
        )
    engine.use_ranges(ranges)
    return engine
