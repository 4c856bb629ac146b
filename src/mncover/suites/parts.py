"""Take a part of a suite: some tests, and a random sample of their cases.

A case of a file of texts is one text, and its tests are the contexts. What is taken keeps its
order, and its numbers in the whole suite.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from mncover.data.table import UNKNOWN
from mncover.errors import SettingsError
from mncover.suites.expression import parse
from mncover.suites.rows import Rows
from mncover.types import suggestion

_Case = tuple[str, int]  # the name of its test, and its number in the suite or file


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
        cases = _cases(rows)
        every = list(dict.fromkeys(cases))
        names = self._names(rows, list(dict.fromkeys(name for name, _ in every)))
        mine = [case for case in every if case[0] in names]
        drawn = self.limit is not None and self.limit < len(mine)
        if self.limit is not None and drawn:
            mine = sample(mine, self.limit, self.seed)
        if len(mine) == len(every):
            return rows
        taken, how = set(mine), "; ".join(self._how(drawn))
        chosen = f"{len(mine):,} of {len(every):,} cases ({how})"
        part = rows.taken([row for row, case in enumerate(cases) if case in taken])
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


def _cases(rows: Rows) -> list[_Case]:
    """Return the case of every row."""
    numbered = zip(rows.contexts, rows.cases, rows.indices, strict=True)
    return [(name, index if case == UNKNOWN else case) for name, case, index in numbered]


def sample(cases: Sequence[_Case], n: int, seed: int) -> list[_Case]:
    """Draw n cases at random, in proportion to the sizes of the tests; each is equally likely.

    The cases are shuffled within their test, the tests are put one after the other, and every
    len(cases) / n-th case is taken, from a random start on. So a test has as many as its share,
    rounded up or down.
    """
    draw = random.Random(seed).random  # the one method that never changes between Pythons
    start = int(draw() * len(cases))
    order = {name: place for place, name in enumerate(dict.fromkeys(name for name, _ in cases))}
    keys = {case: (order[case[0]], draw()) for case in cases}
    shuffled = sorted(cases, key=keys.__getitem__)
    taken = {shuffled[(start + i * len(cases)) // n] for i in range(n)}
    return [case for case in cases if case in taken]
