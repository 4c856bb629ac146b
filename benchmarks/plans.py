"""How well a plan predicts the failure rates of a new model, and how often its intervals hold.

    python -m benchmarks.plans SUITE VERSIONS [--draws 30] [--budget 0.05] [--old minilm-v0]

SUITE is CheckList's sentiment suite, VERSIONS `sentiment.npz`: the verdicts and probabilities of
several versions of two models on all of its cases. For each new version, plans are drawn from the
old ones' outputs alone (by those of the first of them), and what they estimate is compared with the
known rates. Errors are root mean squares in points over the tests with at least 100 judged cases;
beside them stands proportional sampling, the plain share of failures among 5 % of each test.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.selection.allocation import Earlier, outlook, proportional
from mncover.selection.estimates import estimate, folds_of
from mncover.selection.forecast import Forecast, forecast
from mncover.selection.planfile import Plan
from mncover.selection.strata import Strata, draw, strata_of
from mncover.suites.formats import load_suite
from mncover.suites.judging import FAILS, NOT_JUDGED, PASSES
from mncover.suites.model import Suite

NEW = ("minilm-v0-int4", "minilm-full", "minilm-seed1", "granite-v0")
ENOUGH, RARE = 100, 0.02
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Versions:
    """The suite, and the arrays of its versions."""

    suite: Suite
    arrays: Any

    @property
    def test(self) -> NDArray[np.int64]:
        """The number of each case's test."""
        return np.repeat(np.arange(len(self.suite.tests)), [len(t.cases) for t in self.suite.tests])

    def verdicts(self, name: str) -> NDArray[np.int8]:
        """Return the verdicts of a version in the package's own numbers."""
        stored = self.arrays[f"verdict/{name}"]
        return np.select([stored == 1, stored == 0], [FAILS, PASSES], NOT_JUDGED).astype(np.int8)

    def forecast(self, name: str) -> Forecast:
        """Return the forecast from a version's outputs."""
        positive = self.arrays[f"positive/{name}"].astype(np.float64)
        shares = np.stack([1 - positive, positive], axis=1)
        return forecast(self.suite, shares, ("negative", "positive"))

    def rates(self, name: str) -> tuple[Floats, Floats]:
        """Return the rate of each test, and how many of its cases are judged."""
        verdicts, n = self.verdicts(name), len(self.suite.tests)
        judged = np.bincount(self.test, verdicts != NOT_JUDGED, n).astype(np.float64)
        return np.bincount(self.test, verdicts == FAILS, n) / np.maximum(judged, 1), judged


def earlier_of(versions: Versions, names: list[str]) -> Earlier:
    """Return what the named versions said of all cases."""
    found = [versions.forecast(name) for name in names]
    tests = tuple(test.name for test in versions.suite.tests)
    columns = [np.stack([getattr(f, n) for f in found]) for n in ("verdicts", "fails", "judged")]
    return Earlier(tests, versions.test, *columns)


def plain(earlier: Earlier, verdicts: NDArray[np.int8], taken: Any, seed: int) -> Floats:
    """Return the rates among a random part of each test; NaN if no case of it is judged."""
    rng, found = np.random.default_rng(seed), []
    for test, n in enumerate(taken):
        mine = verdicts[rng.choice(np.flatnonzero(earlier.test == test), n, replace=False)]
        judged = int((mine != NOT_JUDGED).sum())
        found.append(int((mine == FAILS).sum()) / judged if judged else np.nan)
    return np.array(found)


def measure(versions: Versions, earlier: Earlier, strata: Strata, new: str, draws: int) -> None:
    """Print the error and the share of intervals that hold for one new version."""
    verdicts, (rates, judged) = versions.verdicts(new), versions.rates(new)
    cases = [case for test in versions.suite.tests for case in test.cases]
    taken = proportional(outlook(earlier), int(strata.taken.sum()))
    errors, held, beside = [], [], []
    for seed in range(draws):
        drawn = draw(strata, seed)
        plan = Plan("", ("",), (), seed, earlier, drawn)
        mine = estimate(plan, verdicts[drawn.cases], folds_of([cases[i] for i in drawn.cases]))
        errors.append([(one.rate or 0.0) - rate for one, rate in zip(mine, rates, strict=False)])
        held.append([o.low - 1e-9 <= r <= o.high + 1e-9 for o, r in zip(mine, rates, strict=False)])
        beside.append(plain(earlier, verdicts, taken, seed) - rates)
    large = judged >= ENOUGH
    rare = large & (np.minimum(rates, 1 - rates) < RARE)
    parts = {"all": large, "not rare": large & ~rare, "rare": rare, "small": ~large}
    shares = [f"{name} {100 * np.mean(np.array(held)[:, m]):.1f}" for name, m in parts.items()]
    mean = [100 * np.sqrt(np.nanmean(np.array(e)[:, large] ** 2)) for e in (errors, beside)]
    print(f"{new:16} error {mean[0]:.2f}, proportional {mean[1]:.2f}; held %: {', '.join(shares)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", type=Path)
    parser.add_argument("versions", type=Path)
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--budget", type=float, default=0.05)
    parser.add_argument("--old", nargs="+", default=["minilm-v0"])
    parser.add_argument("--new", nargs="+", default=NEW)
    given = parser.parse_args()
    versions = Versions(load_suite(given.suite), np.load(given.versions, allow_pickle=False))
    earlier = earlier_of(versions, given.old)
    strata = strata_of(outlook(earlier), round(given.budget * len(earlier.test)))
    print(f"old: {', '.join(given.old)}; {strata.taken.sum():,} of {len(earlier.test):,} cases")
    for new in given.new:
        measure(versions, earlier, strata, new, given.draws)


if __name__ == "__main__":
    main()
