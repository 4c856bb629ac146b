"""How likely a case is to fail on a new version of a model, judged from an earlier run.

Nothing is known of the new version, so the earlier outputs are moved at random, as training again
moves them, and every case is judged again. That works for any expectation. In nine versions of two
models the logits of a case moved by 0.4 to 2.4 and its texts apart from each other by half of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError
from mncover.suites.expectations import Grouped
from mncover.suites.judging import FAILS, NOT_JUDGED, in_suite_classes, judge_suite
from mncover.suites.model import How, Suite

NOISES = (1.0, 2.0, 4.0)  # standard deviations of the difference of two logits
TYPICAL = 1  # the one of them that plans are made for
DRAWS = 100
APART = 0.5  # of the noise: what moves each text of a case on its own
LEAST = 1e-4  # no model is surer than this

Counts = NDArray[np.uint8]


@dataclass(frozen=True)
class Forecast:
    """Of each case its verdict, and how many of the draws make it fail, or judged: [noises, n]."""

    verdicts: NDArray[np.int8]
    fails: Counts
    judged: Counts


def forecast(
    suite: Suite,
    probabilities: NDArray[np.floating],
    labels: Sequence[str],
    classes: How = "auto",
    advance: Callable[[int], object] = lambda done: None,
) -> Forecast:
    """Judge every case as it was answered, and again with outputs moved at random."""
    if len(labels) < 2 or np.isnan(probabilities).any():
        raise SettingsError("a plan needs a run of a model that classifies every text.")
    texts = Grouped([size for test in suite.tests for size in test.sizes])
    logits = np.log(np.clip(probabilities.astype(np.float64), LEAST, 1.0))
    rng = np.random.default_rng(0)  # the same cases get the same forecast, whatever the plan

    def judged(found: NDArray[np.float64]) -> NDArray[np.int8]:
        answers = in_suite_classes(found, labels, suite.labels, classes)
        return np.concatenate([one.verdicts for one in judge_suite(suite, answers)])

    fails, applies = np.zeros((2, len(NOISES), texts.cases), dtype=np.uint8)
    for place, noise in enumerate(NOISES):
        for _ in range(DRAWS):
            shared = rng.standard_normal((texts.cases, len(labels)))[texts.case]
            own = rng.standard_normal(logits.shape)
            verdicts = judged(_softmax(logits + noise / np.sqrt(2) * (shared + APART * own)))
            fails[place] += verdicts == FAILS
            applies[place] += verdicts != NOT_JUDGED
            advance(1)
    return Forecast(judged(probabilities.astype(np.float64)), fails, applies)


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares
