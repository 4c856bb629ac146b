"""Several scores combined into one, fitted to labelled cases. No torch here.

A logistic regression (scikit-learn) learns from the scores of a development set which of its cases
fail; what it then says of other cases is the probability that they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.errors import SettingsError
from mncover.selection.auroc import Estimate, auroc, auroc_difference
from mncover.selection.cases import Cases
from mncover.selection.pool import require_sklearn
from mncover.selection.scores import available, score_cases
from mncover.suites.judging import FAILS, NOT_JUDGED

Array = NDArray[np.float64]

COMBINED = ("entropy", "margin", "deep_gini", "neighbours", "surprise", "second")
FOLDS = 5


@dataclass(frozen=True)
class Combination:
    """Weights of standardised scores, and how well they do on the cases they were fitted to.

    `means` and `spreads` are those of the development set. `cross_validated` is the AUROC of what
    was predicted for each part of it from the other parts, `entropy` that of entropy alone.
    """

    names: tuple[str, ...]
    means: Array
    spreads: Array
    weights: Array
    intercept: float
    cases: int
    failing: int
    cross_validated: Estimate
    entropy: Estimate
    difference: Estimate

    def of(self, cases: Cases) -> Array:
        """Return the probability that each case fails."""
        scores = (_scores(cases, self.names) - self.means) / self.spreads
        found: Array = 1 / (1 + np.exp(-(scores @ self.weights + self.intercept)))
        return found


def combined_scores(cases: Cases, dev: Cases) -> tuple[str, ...]:
    """Return the names of the scores that both the cases and the development set have.

    With two classes DeepGini is left out: it says nothing that entropy and margin do not say.
    """
    both = set(available(cases)) & set(available(dev))
    several = dev.data.table.probabilities.shape[1] > 2
    return tuple(n for n in COMBINED if n in both and (several or n != "deep_gini"))


def fit(dev: Cases, names: Sequence[str], seed: int = 0) -> Combination:
    """Fit a combination of scores to the judged cases of a development set."""
    judged = dev.verdicts != NOT_JUDGED
    fails = dev.verdicts[judged] == FAILS
    n, failing = len(fails), int(fails.sum())
    if min(failing, n - failing) < FOLDS:
        raise SettingsError(
            f"a combination is fitted to at least {FOLDS} wrong and {FOLDS} right answers, and "
            f"there are {failing} wrong and {n - failing} right ones."
        )
    uncertain = score_cases(dev, "entropy")[judged]
    scores = _scores(dev, names)[judged]
    means, spreads = scores.mean(axis=0), scores.std(axis=0)
    spreads = np.where(spreads > 0, spreads, 1.0)
    standard = (scores - means) / spreads
    predicted = _cross_validated(standard, fails, seed)
    model = require_sklearn("sklearn.linear_model").LogisticRegression(max_iter=1000)
    model.fit(standard, fails)
    return Combination(
        names=tuple(names),
        means=means,
        spreads=spreads,
        weights=np.asarray(model.coef_[0], dtype=np.float64),
        intercept=float(model.intercept_[0]),
        cases=n,
        failing=failing,
        cross_validated=auroc(predicted, fails),
        entropy=auroc(uncertain, fails),
        difference=auroc_difference(predicted, uncertain, fails),
    )


def _scores(cases: Cases, names: Sequence[str]) -> Array:
    return np.stack([score_cases(cases, name) for name in names], axis=1)


def _cross_validated(scores: Array, fails: NDArray[np.bool_], seed: int) -> Array:
    """Return for each case the probability that it fails, predicted from the other folds."""
    selecting = require_sklearn("sklearn.model_selection")
    model = require_sklearn("sklearn.linear_model").LogisticRegression(max_iter=1000)
    folds = selecting.StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    found = selecting.cross_val_predict(model, scores, fails, cv=folds, method="predict_proba")
    return np.asarray(found[:, 1], dtype=np.float64)
