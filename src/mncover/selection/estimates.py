"""The failure rates of whole tests, estimated from the cases of a plan that were run.

Regressions of the new verdicts on the earlier runs predict every case. What they are wrong by
on the cases that were run, each weighted by how many cases it stands for, corrects their sum: a
difference estimator. A case is predicted by regressions that have not seen it nor any case with
the same original text. The draw is random, so the outcome is right on average whatever the
regressions are worth; they only make it more precise.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mncover.data.estimate import Estimate
from mncover.selection.allocation import Earlier, Floats, Ints, sums
from mncover.selection.forecast import DRAWS, NOISES
from mncover.selection.intervals import Sample, interval, variances
from mncover.selection.planfile import Plan
from mncover.selection.ridge import Regression, fit
from mncover.suites.judging import FAILS, NOT_JUDGED, Outcome
from mncover.suites.model import Case
from mncover.types import joined

FOLDS = 4
SUREST = 0.02  # a forecast is never taken to be surer than this


def features_of(earlier: Earlier) -> Floats:
    """Return what the earlier runs say of each case: forecasts and verdicts, on one scale."""
    columns: list[Floats] = []
    for fails, judged, verdicts in zip(
        earlier.fails, earlier.judged, earlier.verdicts, strict=True
    ):
        for counts in (fails, judged):
            columns += [_logit(counts[place] / DRAWS) for place in range(len(NOISES))]
        columns += [(verdicts == FAILS).astype(float), (verdicts == NOT_JUDGED).astype(float)]
    found = np.stack(columns, axis=1)
    spread = found.std(axis=0)
    scaled: Floats = (found - found.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return scaled


def _logit(share: Floats) -> Floats:
    p = np.clip(share, SUREST, 1 - SUREST)
    logits: Floats = np.log(p / (1 - p))
    return logits


def folds_of(cases: Sequence[Case]) -> Ints:
    """Return the fold of each case; cases with the same original text share one."""
    originals = [joined(case.texts[0]).encode("utf-8", "surrogatepass") for case in cases]
    return np.array([zlib.crc32(text) % FOLDS for text in originals], dtype=np.int64)


@dataclass(frozen=True)
class Predicted:
    """Chances of the cases that were run, [n], and summed over the others of each test, [tests]."""

    run: Floats
    others: Floats


def predict(plan: Plan, features: Floats, folds: Ints, happened: Floats) -> Predicted:
    """Predict all cases; those that were run by regressions on the other folds."""
    test, drawn, tests = plan.earlier.test, plan.drawn.cases, len(plan.earlier.tests)
    rest = np.setdiff1d(np.arange(len(test)), drawn)
    run, others = np.zeros(len(drawn)), np.zeros(tests)
    used = np.unique(folds)
    for fold in used:
        known, held = drawn[folds != fold], drawn[folds == fold]
        model = fit(features[known], test[known], tests, happened[folds != fold])
        run[folds == fold] = model.chances(features[held], test[held])
        others += _summed(model, features, test, rest, tests) / len(used)
    return Predicted(run, others)


def _summed(model: Regression, features: Floats, test: Ints, rest: Ints, tests: int) -> Floats:
    return sums(test[rest], model.chances(features[rest], test[rest]), tests)


def estimate(plan: Plan, verdicts: NDArray[np.int8], folds: Ints) -> list[Estimate]:
    """Return the estimate of each test, and last that of all tests together.

    `verdicts` are those of the cases drawn, in their order.
    """
    features = features_of(plan.earlier)
    fails, judged = (verdicts == FAILS).astype(float), (verdicts != NOT_JUDGED).astype(float)
    if len(np.unique(folds)) < 2:  # nothing to learn from
        nothing = Predicted(np.zeros(len(verdicts)), np.zeros(len(plan.earlier.tests)))
        return summed_up(plan, fails, judged, nothing, nothing)
    failing = predict(plan, features, folds, fails)
    applies = _all_judged(plan)
    if not judged.all() or (plan.earlier.judged < DRAWS).any():
        applies = predict(plan, features, folds, judged)
    return summed_up(plan, fails, judged, failing, applies)


def _all_judged(plan: Plan) -> Predicted:
    drawn = np.bincount(plan.earlier.test[plan.drawn.cases], minlength=len(plan.earlier.tests))
    return Predicted(np.ones(len(plan.drawn.cases)), (plan.earlier.sizes - drawn).astype(float))


def summed_up(
    plan: Plan, fails: Floats, judged: Floats, failing: Predicted, applies: Predicted
) -> list[Estimate]:
    """Return the estimates, given the predictions."""
    earlier, weight = plan.earlier, plan.drawn.weight.astype(float)
    test, tests = earlier.test[plan.drawn.cases], len(earlier.tests)

    def total(happened: Floats, predicted: Predicted) -> Floats:
        corrected = happened + (weight - 1) * (happened - predicted.run)
        return np.bincount(test, corrected, tests) + predicted.others

    seen, failed = np.bincount(test, judged, tests), np.bincount(test, fails, tests)
    whole = np.maximum(total(judged, applies), np.maximum(seen, 1.0))
    rate = np.clip(total(fails, failing) / whole, 0.0, 1.0)
    sample = Sample(test, plan.drawn.stratum, weight, fails, judged, failing.run, applies.run)
    per_test, freedom = variances(sample, rate, whole, tests)
    known = sample.left(tests)
    run, sizes = np.bincount(test, minlength=tests), earlier.sizes
    found = []
    for t, (name, before) in enumerate(zip(earlier.tests, earlier.rates, strict=True)):
        counts = (int(sizes[t]), int(run[t]), int(seen[t]), int(failed[t]))
        if not seen[t]:
            nothing = (None, 0.0, 1.0) if run[t] < sizes[t] else (None, 0.0, 0.0)
            found.append(Estimate(name, *counts, *nothing, before))
            continue
        low, high = interval(rate[t], per_test[t], freedom[t], int(known[t]))
        found.append(Estimate(name, *counts, float(rate[t]), low, high, before))
    return [*found, _together(plan, sample, rate, whole, per_test, freedom)]


def _together(
    plan: Plan, sample: Sample, rate: Floats, whole: Floats, per_test: Floats, freedom: Floats
) -> Estimate:
    """Return the estimate for all tests: failing cases of all judged cases."""
    share = whole / whole.sum()
    mean, earlier = float(share @ rate), plan.earlier
    # Tests differ in rate, and how many cases are judged is itself estimated where it varies.
    each = share**2 * per_test
    variance = float(each.sum())
    free = variance**2 / max(float((each**2 / freedom).sum()), 1e-300) if variance else np.inf
    low, high = interval(mean, variance, free, int(sample.left(len(rate)).sum()))
    counts = (
        len(earlier.test),
        len(sample.test),
        int(sample.judged.sum()),
        int(sample.fails.sum()),
    )
    return Estimate("", *counts, mean, low, high, earlier.rate)


def estimates_from(plan: Plan, outcomes: Sequence[Outcome]) -> list[Estimate]:
    """Return the estimates, given how the tests of a small suite went."""
    cases = [case for outcome in outcomes for case in outcome.test.cases]
    verdicts = np.concatenate([outcome.verdicts for outcome in outcomes])
    return estimate(plan, verdicts, folds_of(cases))
