"""Criteria: what choosing cases greedily by each criterion finds, under every kind of positions.

Not an experiment of the paper: it asks which criterion is worth what. Pools of cases are drawn from
a run whose verdicts are known. By each criterion the case that adds most to those taken is taken,
again and again; when nothing adds anything any more, it starts from nothing with those left.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from rich.table import Table

from mncover.coverage import Coverage
from mncover.data.files import Say, silent
from mncover.data.store import CoverageData
from mncover.errors import SettingsError
from mncover.paper.discovery import (
    Discovery,
    Outcome,
    by_chance,
    counted_in,
    draw_pool,
    explanation,
    outcomes_of,
    without_nan,
)
from mncover.report.columns import criterion_title
from mncover.report.tables import plain_table, write_json, write_text
from mncover.selection.cases import Cases, cases_of
from mncover.selection.filters import CaseWalker
from mncover.selection.sets import Spread
from mncover.suites.judging import FAILS
from mncover.types import POSITIONS

if TYPE_CHECKING:
    from mncover.engine.engine import Engine
    from mncover.engine.windows import Window

BUDGETS = (0.05, 0.1)
BEST, RANDOM = "best possible", "random"

Found = dict[str, list[list[tuple[float, float]]]]  # by way, pool and budget: failures and tests


def greedy_order(engine: Engine, window: Window, criterion: str, budget: int) -> list[int]:
    """Return the cases of a window in the order in which they are taken."""
    taken: list[int] = []
    left = set(range(len(window.cases)))
    while left and len(taken) < budget:
        walker = CaseWalker(engine, window, engine.new_bits(criterion), criterion)
        heap = [(-walker.gain(window.cases[case]), case) for case in sorted(left)]
        heapq.heapify(heap)
        before = len(taken)
        while heap and len(taken) < budget:
            _, case = heapq.heappop(heap)
            gain = walker.gain(window.cases[case])
            if heap and (-gain, case) > heap[0]:  # another may add more
                heapq.heappush(heap, (-gain, case))
                continue
            if gain <= 0:
                break
            walker.add(window.cases[case])
            taken.append(case)
        left -= set(taken[before:])
        if len(taken) == before:  # nothing adds anything, even to nothing
            taken += sorted(left)[: budget - len(taken)]
            break
    return taken


def compare_criteria(
    data: CoverageData,
    calibrated: Callable[[str], Coverage],
    pools: int,
    per_test: int,
    budgets: Sequence[float] = BUDGETS,
    say: Say = silent,
) -> Discovery:
    """Choose from pools of the judged cases of a run by every criterion that is measured.

    `calibrated` returns what measures under a kind of positions.
    """
    cases = cases_of(data)
    if not (cases.verdicts == FAILS).any():
        raise SettingsError("no case of the run is known to fail, so there is nothing to find.")
    drawn = [_shuffled(draw_pool(cases, per_test, seed), seed) for seed in range(pools)]
    sizes = [[max(1, round(share * len(pool))) for share in budgets] for pool in drawn]
    found: Found = {RANDOM: [], BEST: []}
    for pool, mine in zip(drawn, sizes, strict=True):
        found[RANDOM].append([by_chance(pool, size) for size in mine])
        found[BEST].append([_at_best(pool, size) for size in mine])
    for positions in POSITIONS:
        cov = calibrated(positions)
        for pool, mine in zip(drawn, sizes, strict=True):
            for criterion, order in _orders(cov.engine, pool, max(mine)):
                each = [counted_in(pool, np.array(order[:size])) for size in mine]
                found.setdefault(f"{criterion}, {positions}", []).append(each)
        say(f"Positions {positions}: done.")
    kinds = [len(np.unique(pool.test[pool.verdicts == FAILS])) for pool in drawn]
    return Discovery(
        Path(data.identity.model).name,
        Path(data.runs[0].suite).name,
        pools,
        float(np.mean([len(pool) for pool in drawn])),
        float(np.mean([float((pool.verdicts == FAILS).mean()) for pool in drawn])),
        float(np.mean(kinds)),
        tuple(outcomes_of(found, drawn, budgets)),
    )


def _shuffled(pool: Cases, seed: int) -> Cases:
    """Return a pool in random order: of cases that add equally much the first is taken."""
    return pool.part(np.random.default_rng([seed, 1]).permutation(len(pool)))


def _at_best(pool: Cases, size: int) -> tuple[float, float]:
    """Return what the best possible choices find: most failures, and most tests."""
    fails = pool.verdicts == FAILS
    tests = len(np.unique(pool.test[fails]))
    return float(min(size, int(fails.sum()))), float(min(size, tests))


def _orders(engine: Engine, pool: Cases, budget: int) -> list[tuple[str, list[int]]]:
    """Return the order of each criterion; the model runs once."""
    texts = [list(pool.texts(case)) for case in range(len(pool))]
    with engine.bar("Measuring", sum(map(len, texts))) as advance:
        for window in engine.windows(texts, advance, whole=True):
            return [(name, greedy_order(engine, window, name, budget)) for name in engine.criteria]
    return []


def criteria_tables(found: Discovery, budget: float) -> dict[str, Table]:
    """Return lift and tests reached at one budget: a row a criterion, a column for positions."""
    share = f"{budget:.0%} of the cases taken"
    return {
        f"{share}, failures over those of chance:": _table(found, budget, lambda o: o.lift, 2),
        f"{share}, tests with a failure among them:": _table(found, budget, lambda o: o.tests, 1),
    }


def _table(
    found: Discovery, budget: float, figure: Callable[[Outcome], Spread], digits: int
) -> Table:
    mine = {one.way: _cell(figure(one), digits) for one in found.outcomes if one.budget == budget}
    table = plain_table("Chosen by", *POSITIONS, width=13)
    for name in dict.fromkeys(way.partition(", ")[0] for way in mine if ", " in way):
        cells = [mine[f"{name}, {positions}"] for positions in POSITIONS]
        table.add_row(criterion_title(name), *cells)
    table.add_section()
    for name in (RANDOM, BEST):
        table.add_row(name, *[mine[name]] * len(POSITIONS))
    return table


def _cell(one: Spread, digits: int) -> str:
    spread = "" if np.isnan(one.low) else f" ± {one.high - one.mean:.{digits}f}"
    return f"{one.mean:.{digits}f}{spread}"


def reproduce_criteria(
    data: CoverageData,
    calibrated: Callable[[str], Coverage],
    output: Path,
    pools: int,
    per_test: int,
    console: Console,
    say: Say = silent,
) -> Discovery:
    """Compare the criteria on a run, and write tables and JSON to a folder."""
    found = compare_criteria(data, calibrated, pools, per_test, say=say)
    write_json(output / "criteria.json", asdict(found, dict_factory=without_nan))

    def show(console: Console) -> None:
        console.print(explanation(found), markup=False, highlight=False)
        for budget in BUDGETS:
            for title, table in criteria_tables(found, budget).items():
                console.print(f"\n{title}", markup=False, highlight=False)
                console.print(table)

    write_text(output / "criteria.txt", show, 100)
    show(console)
    say(f"Wrote criteria.txt and .json to {output}.")
    return found
