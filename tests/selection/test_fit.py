"""A combination of scores, fitted to a development set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mncover.errors import SettingsError
from mncover.report.fits import fit_to_json, fit_words
from mncover.selection.auroc import auroc
from mncover.selection.cases import Cases
from mncover.selection.fit import combined_scores, fit
from mncover.selection.scores import score_cases
from mncover.suites.judging import FAILS, NOT_JUDGED, PASSES
from tests.selection.test_inside import labelled  # noqa: F401


def telling(cases: Cases, seed: int = 0) -> Cases:
    """Return cases of which those with a high second score fail, nearly always."""
    rng = np.random.default_rng(seed)
    doubt = rng.random(len(cases))
    fails = doubt + 0.2 * rng.normal(size=len(cases)) > 0.5
    verdicts = np.where(fails, FAILS, PASSES).astype(np.int8)
    return replace(cases, verdicts=verdicts, given={"second": doubt})


def test_a_fit_is_the_regression_on_standardised_scores(labelled: Cases) -> None:  # noqa: F811
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    dev = telling(labelled)
    names = combined_scores(dev, dev)
    assert names == ("entropy", "margin", "deep_gini", "neighbours", "surprise", "second")
    found = fit(dev, names)
    scores = np.stack([score_cases(dev, name) for name in names], axis=1)
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    plain.fit(scores, dev.verdicts == FAILS)
    assert found.weights == pytest.approx(plain[-1].coef_[0], abs=1e-4)
    assert found.of(dev) == pytest.approx(plain.predict_proba(scores)[:, 1], abs=1e-4)
    other = telling(labelled, seed=1)
    scores = np.stack([score_cases(other, name) for name in names], axis=1)
    assert found.of(other) == pytest.approx(plain.predict_proba(scores)[:, 1], abs=1e-4)
    assert max(found.weights) == found.weights[-1]
    assert (found.cases, found.failing) == (32, int((dev.verdicts == FAILS).sum()))


def test_its_figures_are_cross_validated(labelled: Cases) -> None:  # noqa: F811
    dev = telling(labelled)
    fails = dev.verdicts == FAILS
    found = fit(dev, ("entropy", "second"))
    assert found.entropy == auroc(score_cases(dev, "entropy"), fails)
    own = auroc(found.of(dev), fails)  # on the cases it was fitted to
    assert found.entropy.value < found.cross_validated.value < own.value + 1e-9
    assert found.difference.value == pytest.approx(
        found.cross_validated.value - found.entropy.value
    )
    # What says nothing is not made better than chance by fitting.
    rng = np.random.default_rng(5)
    noise = replace(dev, given={"second": rng.random(len(dev))})
    chance = fit(noise, ("second",)).cross_validated
    assert chance.low < 0.5
    assert fit(dev, ("second",), seed=3).cross_validated == fit(dev, ("second",), 3).cross_validated


def test_verdicts_of_the_cases_do_not_reach_their_score(labelled: Cases) -> None:  # noqa: F811
    found = fit(telling(labelled), ("entropy", "second"))
    mine = telling(labelled, seed=1)
    hidden = replace(mine, verdicts=np.full(len(mine), NOT_JUDGED, dtype=np.int8))
    assert (found.of(mine) == found.of(hidden)).all()


def test_only_judged_cases_are_fitted_to_and_there_must_be_some(
    labelled: Cases,  # noqa: F811
) -> None:
    dev = telling(labelled)
    verdicts = dev.verdicts.copy()
    verdicts[:8] = NOT_JUDGED
    assert fit(replace(dev, verdicts=verdicts), ("second",)).cases == 24
    few = np.where(np.arange(32) < 4, FAILS, PASSES).astype(np.int8)
    with pytest.raises(SettingsError, match=r"at least 5 wrong .* 4 wrong and 28 right"):
        fit(replace(dev, verdicts=few), ("second",))


def test_scores_that_one_side_lacks_and_repetitions_are_left_out(
    labelled: Cases,  # noqa: F811
) -> None:
    dev = telling(labelled)
    assert "second" not in combined_scores(labelled, dev)
    assert "second" not in combined_scores(dev, labelled)
    table = labelled.data.table
    two: Any = replace(table, probabilities=table.probabilities[:, :2])
    data = type(labelled.data)(labelled.data.identity)
    data.table, data.space = two, labelled.data.space
    names = combined_scores(labelled, replace(labelled, data=data))
    assert names == ("entropy", "margin", "neighbours", "surprise")


def test_the_words_say_whether_it_is_better_than_entropy(labelled: Cases) -> None:  # noqa: F811
    found = fit(telling(labelled), ("entropy", "second"))
    assert "better than entropy" in fit_words(found)
    assert f"Fitted to 32 cases, of which {found.failing} fail." in fit_words(found)
    same = replace(found, difference=found.difference._replace(low=-0.1, high=0.1))
    assert "no better or worse than entropy" in fit_words(same)
    worse = replace(found, difference=found.difference._replace(low=-0.2, high=-0.1))
    assert "is worse than entropy" in fit_words(worse)
    assert list(fit_to_json(found)["weights"]) == ["entropy", "second"]
