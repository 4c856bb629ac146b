"""One row per case of a data file: how it went, and every score by which cases can be chosen.

In a suite of tests a case is the suite's; in a plain file of texts every text is a case, which
fails if the model's class is not its label. It belongs to the reading half.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.criteria import COVER, MNCOVER, NAMES, Metric
from mncover.data.results import gain_share, touched_neurons
from mncover.data.store import CoverageData
from mncover.data.table import NEW_BINS, UNKNOWN
from mncover.errors import DataFileError, SettingsError
from mncover.selection.scores import SCORES as UNCERTAINTIES
from mncover.suites.judging import (
    FAILS,
    NOT_JUDGED,
    PASSES,
    complete_cases,
    judge_run,
    outline_of,
)
from mncover.suites.model import Outline, Suite
from mncover.types import Text

Scores = NDArray[np.float64]

# What cases can be taken by, the largest first. What a score is of a case of several texts:
# gains are those of all its texts together, uncertainty is that of its most uncertain text.
METHODS: dict[str, str] = {
    "gain": "what the case added to Cover in the order of the run",
    "mngain": "what it added to mnCover",
    "novelty": "its gain by the neurons it touched, so that long texts have no advantage",
    "entropy": "how uncertain the model was: entropy",
    "deep_gini": "how uncertain the model was: DeepGini",
    "margin": "how uncertain the model was: distance of the two most probable classes",
    "length": "how many tokens it has",
    "failing": "the cases that failed, then the most uncertain",
    "random": "chance, by a seed",
}
GAINS: dict[str, Metric] = {"gain": COVER, "mngain": MNCOVER}


@dataclass(frozen=True)
class Cases:
    """The complete cases of a run, in its order.

    `test` is the number of each case's test among `tests`, `rows` has its rows in the data's
    table, `number` its place in the suite.
    """

    data: CoverageData
    tests: tuple[str, ...]
    test: NDArray[np.int64]
    number: NDArray[np.int64]
    rows: list[NDArray[np.int64]]
    verdicts: NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.rows)

    def scores(self, method: str, seed: int = 0) -> Scores:
        """Return the score of each case; refuse a method for which the data lacks something."""
        if method not in METHODS:
            raise SettingsError(f"cases are chosen by {', '.join(METHODS)}; got {method!r}.")
        if method in GAINS:
            return self._gains(GAINS[method])
        if method == "novelty":
            return self._novelty()
        if method in UNCERTAINTIES:
            return self._uncertainty(method)
        if method == "length":
            return self._sums(self.data.table["length"].astype(np.float64))
        if method == "random":
            return np.random.default_rng(seed).permutation(len(self)).astype(np.float64)
        failed: Scores = (self.verdicts == FAILS).astype(np.float64)
        return failed + self._uncertainty("entropy") / 1e3

    @property
    def methods(self) -> list[str]:
        """The methods that the data has everything for."""
        table, masked = self.data.table, self.data.identity.masks is not None
        ordered = bool((table["new_hidden"] != UNKNOWN).all())
        missing = {"mngain"} if ordered and not masked else set()
        missing |= set() if ordered else {"gain", "mngain", "novelty"}
        classes = len(self.data.identity.labels) > 1
        missing |= set() if classes else {*UNCERTAINTIES, "failing"}
        return [method for method in METHODS if method not in missing]

    def _sums(self, values: Scores) -> Scores:
        return np.array([values[rows].sum() for rows in self.rows], dtype=np.float64)

    def _gains(self, metric: Metric) -> Scores:
        new = [self.data.table[NEW_BINS[metric, kind]] for kind in (0, 1)]
        if any((column == UNKNOWN).any() for column in new):
            raise SettingsError(
                f"the data does not say what each text added to {NAMES[metric]}: run the suite "
                f"with `mncover run`{' --masks FILE' if metric == MNCOVER else ''}."
            )
        identity = self.data.identity
        return self._sums(gain_share(identity.layout, identity.settings, *new))

    def _novelty(self) -> Scores:
        identity, table = self.data.identity, self.data.table
        touched = self._sums(touched_neurons(identity, table["length"]))
        one_bin = float(gain_share(identity.layout, identity.settings, 1, 0))
        return self._gains(COVER) / one_bin / np.maximum(touched, 1)

    def _uncertainty(self, method: str) -> Scores:
        probabilities = self.data.table.probabilities.astype(np.float64)
        if probabilities.shape[1] < 2:
            raise SettingsError(f"{method} needs a model with classes, and this one has none.")
        found = np.nan_to_num(UNCERTAINTIES[method](probabilities), nan=0.0)
        return np.array([found[rows].max() for rows in self.rows], dtype=np.float64)


def cases_of(data: CoverageData) -> Cases:
    """Return the cases of a data file of one run."""
    if len(data.runs) != 1:
        raise DataFileError(
            f"it holds {len(data.runs)} runs; cases are chosen from the data file of one run"
        )
    (found,) = cases_by_run(data)
    return found


def cases_by_run(data: CoverageData) -> list[Cases]:
    """Return the cases of every run."""
    found = []
    for number, run in enumerate(data.runs):
        mine = data.table["run"] == number
        outline = outline_of(data, run.id)
        if outline is not None:
            found.append(_suite_cases(data, number, outline))
        elif (data.table["case"][mine] != UNKNOWN).any():
            raise DataFileError("the model has no classes, so the cases of its suite were not kept")
        else:
            found.append(_texts_as_cases(data, np.flatnonzero(mine)))
    return found


def _texts_as_cases(data: CoverageData, rows: NDArray[np.int64]) -> Cases:
    table = data.table
    order = rows[np.argsort(table["index"][rows], kind="stable")]
    label, prediction = table["label"][order], table["prediction"][order]
    verdicts = np.where(label == prediction, PASSES, FAILS)
    verdicts[(label == UNKNOWN) | (prediction == UNKNOWN)] = NOT_JUDGED
    return Cases(
        data,
        tuple(data.contexts),
        table["context"][order].astype(np.int64),
        table["index"][order],
        [np.array([row]) for row in order],
        verdicts.astype(np.int8),
    )


def _suite_cases(data: CoverageData, run: int, outline: Outline) -> Cases:
    of_test = np.repeat(np.arange(len(outline.tests)), [len(cases) for cases in outline.cases])
    whole = complete_cases(data, run)
    numbers = np.array([number for number, _ in whole], dtype=np.int64)
    verdicts = [outcome.verdicts for outcome in judge_run(data, run)]
    return Cases(
        data,
        tuple(test.name for test in outline.tests),
        of_test[numbers],
        numbers,
        [np.array(rows) for _, rows in whole],
        np.concatenate(verdicts) if verdicts else np.zeros(0, dtype=np.int8),
    )


def reduced_suite(cases: Cases, chosen: NDArray[np.int64], outline: Outline) -> Suite:
    """Return the suite of the chosen cases; a test of which nothing is left is left out."""
    texts: list[tuple[Text, ...]] = [()] * len(outline.sizes)
    for case in chosen:
        texts[cases.number[case]] = tuple(cases.data.table.texts[row] for row in cases.rows[case])
    return outline.filled(texts)
