"""Discovery: how many failures each way to choose finds, and how many kinds of them.

Not an experiment of the paper: it asks what looking inside is good for. From a run whose verdicts
are known, pools of cases are drawn. Test names and expectations stay hidden; every way takes 1 to
10 % of a pool, and what it took is then judged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from mncover.data.files import Say, silent
from mncover.data.store import CoverageData
from mncover.errors import SettingsError
from mncover.report.plots import discovery_figure, require_plotting, save_figure
from mncover.report.progress import bar
from mncover.report.tables import plain_table, write_json, write_text
from mncover.selection.batches import EXPLORE, Chooser
from mncover.selection.cases import Cases, cases_of
from mncover.selection.chance import chances
from mncover.selection.diverse import cells_of
from mncover.selection.pool import Pool, cluster, pool_of
from mncover.selection.rehearsal import rehearse
from mncover.selection.scores import available, score_cases
from mncover.selection.sets import Spread
from mncover.suites.judging import FAILS, NOT_JUDGED

BUDGETS = (0.01, 0.02, 0.05, 0.1)
SCORED = ("entropy", "margin", "gain", "novelty", "diverse")
PART = 0.8  # of a file without tests, drawn for each pool

Ints = NDArray[np.int64]
Chosen = Callable[[Cases, Sequence[int], int], Ints]  # cases, budgets, seed -> positions in order


def spread_of(values: Sequence[float]) -> Spread:
    """Return the mean over pools with its 95 % interval by Student's t; NaN for a single pool."""
    from scipy.stats import t  # slow to import

    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return Spread(mean, math.nan, math.nan)
    half = float(t.ppf(0.975, n - 1) * np.std(values, ddof=1) / math.sqrt(n))
    return Spread(mean, mean - half, mean + half)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one way found at one budget, over all pools.

    `lift` is its failure rate over that of the pool, `of_best` the share of what the best possible
    choice finds, and `tests` how many tests have a failure among the cases taken.
    """

    way: str
    budget: float
    lift: Spread
    of_best: Spread
    tests: Spread


@dataclass(frozen=True, slots=True)
class Discovery:
    """The outcome of every way at every budget, and what the pools were like."""

    model: str
    suite: str
    pools: int
    cases: float
    failure_rate: float
    failing_tests: float
    outcomes: tuple[Outcome, ...]


def draw_pool(cases: Cases, per_test: int, seed: int) -> Cases:
    """Return a pool of judged cases: at most `per_test` of each test, or a part of a plain file."""
    taken = []
    for test in np.unique(cases.test):
        mine = np.flatnonzero((cases.test == test) & (cases.verdicts != NOT_JUDGED))
        size = min(per_test, len(mine)) if cases.outline is not None else round(PART * len(mine))
        rng = np.random.default_rng([seed, int(test)])
        taken.append(np.sort(rng.choice(mine, size, replace=False)))
    return cases.part(np.concatenate([np.zeros(0, dtype=np.int64), *taken]))


def _by_score(name: str, cases: Cases, sizes: Sequence[int], seed: int) -> Ints:
    return np.argsort(-score_cases(cases, name, seed), kind="stable")[: max(sizes)]


def _by_next(what: str, explore: float, cases: Cases, sizes: Sequence[int], seed: int) -> Ints:
    """Let a chooser ask; `what` says which features it has: all, outputs or inside."""
    whole = pool_of(cases.data.table, cases.rows)
    nothing = np.zeros((len(cases), 0))
    outputs = nothing if what == "inside" else whole.outputs
    inside = nothing if what == "outputs" else whole.inside
    pool = Pool(outputs, inside, whole.uncertainty)
    clusters = cluster(inside if inside.shape[1] else outputs, seed)
    space = None if what == "outputs" else cases.data.space
    cells = None if space is None else cells_of(inside, space)
    chooser = Chooser(pool, clusters, cells, explore, seed)
    journal = rehearse(chooser, cases.verdicts == FAILS, *sizes)
    return np.array([one.case for one in journal.asked], dtype=np.int64)


def ways_for(cases: Cases) -> dict[str, Chosen]:
    """Return the ways to choose that the data has everything for."""
    known = available(cases)
    ways: dict[str, Chosen] = {n: partial(_by_score, n) for n in SCORED if n in known}
    if cases.data.table.signatures.shape[1]:
        ways["next"] = partial(_by_next, "all", EXPLORE)
        ways["next, no exploring"] = partial(_by_next, "all", 0.0)
        ways["next, inside alone"] = partial(_by_next, "inside", EXPLORE)
    ways["next, outputs alone"] = partial(_by_next, "outputs", EXPLORE)
    return ways


def discover(
    data: CoverageData,
    pools: int = 5,
    per_test: int = 500,
    budgets: Sequence[float] = BUDGETS,
    progress: bool | None = None,
) -> Discovery:
    """Compare all ways on pools of the judged cases of a run."""
    cases = cases_of(data)
    if not (cases.verdicts == FAILS).any():
        raise SettingsError("no case of the run is known to fail, so there is nothing to find.")
    drawn = [draw_pool(cases, per_test, seed) for seed in range(pools)]
    ways = ways_for(cases)
    found: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in ("random", *ways)}
    with bar("Choosing", pools * len(ways), progress) as advance:
        for seed, pool in enumerate(drawn):
            sizes = [max(1, round(share * len(pool))) for share in budgets]
            found["random"].append([by_chance(pool, size) for size in sizes])
            for name, way in ways.items():
                chosen = way(pool, sizes, seed)
                found[name].append([counted_in(pool, chosen[:size]) for size in sizes])
                advance(1)
    run, rates = data.runs[0], [float((pool.verdicts == FAILS).mean()) for pool in drawn]
    kinds = [len(np.unique(pool.test[pool.verdicts == FAILS])) for pool in drawn]
    return Discovery(
        Path(data.identity.model).name,
        Path(run.suite).name,
        pools,
        float(np.mean([len(pool) for pool in drawn])),
        float(np.mean(rates)),
        float(np.mean(kinds)),
        tuple(outcomes_of(found, drawn, budgets)),
    )


def counted_in(pool: Cases, chosen: Ints) -> tuple[float, float]:
    """Return the failures among the cases taken, and the tests that they are of."""
    failing = chosen[pool.verdicts[chosen] == FAILS]
    return float(len(failing)), float(len(np.unique(pool.test[failing])))


def by_chance(pool: Cases, size: int) -> tuple[float, float]:
    """Return what to expect of as many random cases; computed, not drawn."""
    fails = pool.verdicts == FAILS
    reached = 0.0
    for test in np.unique(pool.test[fails]):
        failing = int(fails[pool.test == test].sum())
        reached += 1 - float(chances(len(pool), failing, size)[0])
    return size * float(fails.mean()), reached


def outcomes_of(
    found: Mapping[str, list[list[tuple[float, float]]]],
    pools: Sequence[Cases],
    budgets: Sequence[float],
) -> list[Outcome]:
    """Return the outcome of every way at every budget, given failures and tests by pool."""
    outcomes = []
    for name, by_pool in found.items():
        for at, budget in enumerate(budgets):
            lifts, shares, tests = [], [], []
            for pool, each in zip(pools, by_pool, strict=True):
                failing = int((pool.verdicts == FAILS).sum())
                size = max(1, round(budget * len(pool)))
                lifts.append(each[at][0] / size / (failing / len(pool)))
                shares.append(each[at][0] / min(size, failing))
                tests.append(each[at][1])
            spreads = [spread_of(values) for values in (lifts, shares, tests)]
            outcomes.append(Outcome(name, budget, *spreads))
    return outcomes


def discovery_tables(found: Discovery) -> dict[str, Table]:
    """Return a table of each figure, by title: a row for each way, a column for each budget."""
    tables = {
        "Failures over those of chance:": _table(found, lambda one: one.lift, 1, 2),
        "Failures, % of what the best possible choice finds:": _table(
            found, lambda one: one.of_best, 100, 0
        ),
    }
    if found.failing_tests > 1:
        title = "Tests with a failure among the cases taken:"
        tables[title] = _table(found, lambda one: one.tests, 1, 1)
    return tables


def _table(
    found: Discovery, figure: Callable[[Outcome], Spread], scale: float, digits: int
) -> Table:
    budgets = list(dict.fromkeys(one.budget for one in found.outcomes))
    table = plain_table("Chosen by", *(f"{budget:.0%}" for budget in budgets), width=19)
    for name in dict.fromkeys(one.way for one in found.outcomes):
        mine = [figure(one) for one in found.outcomes if one.way == name]
        table.add_row(name, *(_cell(one, scale, digits) for one in mine))
    return table


def _cell(one: Spread, scale: float, digits: int) -> str:
    mean = f"{scale * one.mean:.{digits}f}"
    if math.isnan(one.low):
        return mean
    return f"{mean} ± {scale * (one.high - one.mean):.{digits}f}"


def explanation(found: Discovery) -> str:
    """Return what the tables are about."""
    tests = f" in {found.failing_tests:.0f} tests" if found.failing_tests > 1 else ""
    spread = ", with their 95 % intervals" if found.pools > 1 else ""
    return (
        f"{found.model} on {found.suite}: {found.pools} pools of {found.cases:,.0f} cases, of "
        f"which {100 * found.failure_rate:.0f} % fail{tests}. Columns are shares of a pool that "
        f"are taken; figures are means over pools{spread}."
    )


def reproduce_discovery(
    data: CoverageData,
    output: Path,
    pools: int,
    per_test: int,
    console: Console,
    say: Say = silent,
    progress: bool | None = None,
) -> Discovery:
    """Compare all ways on a run, and write tables, JSON and figure to a folder."""
    require_plotting()
    found = discover(data, pools, per_test, progress=progress)
    write_json(output / "discovery.json", asdict(found, dict_factory=without_nan))

    def show(console: Console) -> None:
        console.print(explanation(found), markup=False, highlight=False)
        for title, table in discovery_tables(found).items():
            console.print(f"\n{title}", markup=False, highlight=False)
            console.print(table)

    write_text(output / "discovery.txt", show, 100)
    for suffix in (".png", ".svg"):
        save_figure(_figure(found), output / f"discovery{suffix}")
    show(console)
    say(f"Wrote discovery.txt, .json, .png and .svg to {output}.")
    return found


def without_nan(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return fields by name; what is not a number becomes null, because JSON has no NaN."""
    return {n: None if isinstance(v, float) and math.isnan(v) else v for n, v in fields}


def _figure(found: Discovery) -> Any:
    ways = dict.fromkeys(one.way for one in found.outcomes)
    series = {way: [one for one in found.outcomes if one.way == way] for way in ways}
    budgets = list(dict.fromkeys(one.budget for one in found.outcomes))
    shares = {way: [one.of_best for one in mine] for way, mine in series.items()}
    tests = {way: [one.tests for one in mine] for way, mine in series.items()}
    title = f"{found.model} on {found.suite}"
    return discovery_figure(title, budgets, shares, tests if found.failing_tests > 1 else {})
