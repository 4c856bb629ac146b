"""Take a part of a suite: some tests, and a random sample of their cases.

A case of a file of texts is one text, and its tests are the contexts. What is taken keeps its
order, and its numbers in the whole suite.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mncover.data.columns import Coded, Places
from mncover.data.table import UNKNOWN
from mncover.errors import SettingsError
from mncover.suites.expression import parse
from mncover.suites.rows import Rows
from mncover.types import suggestion


@dataclass(frozen=True, slots=True)
class Part:
    """Which cases to take: those of `tests`, of tests that match `expression`, and of these a few.

    `expression` is matched with the name of a test and with its capability. `limit` is how many
    cases are drawn at most, by `seed`.
    """

    tests: tuple[str, ...] = ()
    expression: str = ""
    limit: int | None = None
    seed: int = 0

    def of(self, rows: Rows) -> Rows:
        """Return the part of a suite's rows; all of them if that is what is asked for."""
        if self == Part(seed=self.seed):
            return rows
        tests = Coded.of(rows.contexts)
        test = tests.ranks().astype(np.int64)
        case = _cases(rows, test)
        known = list(dict.fromkeys(tests))
        names = self._names(rows, known)
        _, every = np.unique(case, return_index=True)  # where each case begins
        every.sort()
        mine = every[np.array([name in names for name in known])[test[every]]]
        drawn = self.limit is not None and self.limit < len(mine)
        if self.limit is not None and drawn:
            mine = mine[sample(test[mine], self.limit, self.seed)]
        if len(mine) == len(every):
            return rows
        chosen = f"{len(mine):,} of {len(every):,} cases ({'; '.join(self._how(drawn))})"
        part = rows.taken(np.flatnonzero(np.isin(case, case[mine])))
        return replace(part, chosen=chosen, whole=len(rows))

    def _names(self, rows: Rows, known: Sequence[str]) -> set[str]:
        """Return the names of the tests to take from; refuse names and expressions of none."""
        for name in self.tests:
            if name not in known:
                raise SettingsError(f"there is no test {name!r}: {suggestion(name, known)}")
        names = set(self.tests or known)
        if not self.expression:
            return names
        matches = parse(self.expression)
        about = {} if rows.suite is None else {t.name: t.capability for t in rows.suite.tests}
        found = {name for name in names if matches((name, about.get(name, "")))}
        if not found:
            what = f"-k {self.expression!r} matches no test"
            raise SettingsError(f"{what}: {suggestion(self.expression, sorted(names))}")
        return found

    def _how(self, drawn: bool) -> Iterable[str]:
        """Yield in words how the part was chosen."""
        if self.tests:
            yield f"--test {', '.join(self.tests)}"
        if self.expression:
            yield f"-k {self.expression}"
        if drawn:
            share = "drawn at random, the same share of every test"
            yield f"--limit {self.limit}: {share}, seed {self.seed}"


def _cases(rows: Rows, test: Places) -> Places:
    """Return for every row a number that tells its case from all others."""
    case, index = np.asarray(rows.cases), np.asarray(rows.indices)
    number = np.where(case == UNKNOWN, index, case)
    cases: Places = test * (number.max(initial=0) + 1) + number
    return cases


def sample(tests: Places, n: int, seed: int) -> Places:
    """Draw n cases at random, in proportion to the sizes of the tests; each is equally likely.

    `tests` has the test of each case as a number; the places of those drawn are returned, in order.
    The cases are shuffled within their test, the tests are put one after the other, and every
    len(tests) / n-th case is taken, from a random start on. So a test has as many as its share,
    rounded up or down.
    """
    draw = random.Random(seed).random  # the one method that never changes between Pythons
    start = int(draw() * len(tests))
    keys = np.fromiter((draw() for _ in range(len(tests))), np.float64, len(tests))
    shuffled = np.lexsort((keys, tests))
    return np.sort(shuffled[(start + np.arange(n) * len(tests)) // n])
