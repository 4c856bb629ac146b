"""Tests out of accepted texts: each must get the answer that its seed gets.

And whether looking for coverage found more failures than not looking, at the same cost. No torch
here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mncover.augmentation.records import Accepted, Augmented
from mncover.intervals import wilson
from mncover.suites.expectations import Expectation
from mncover.suites.model import Case, Suite, Test
from mncover.texts import Text


@dataclass(frozen=True, slots=True)
class Yield:
    """How many failures a search found, and at which cost.

    A failure is a text whose class differs from its seed's. `low` and `high` are the 95 %
    interval of `per_thousand`, failures per 1000 texts that the model had to run; `seeds` counts
    the seeds that have a failure.
    """

    name: str
    texts: int
    model_calls: int
    failures: int
    seeds: int
    per_thousand: float
    low: float
    high: float


def yield_of(
    name: str, found: Augmented, classes: Sequence[int], seed_classes: Sequence[int]
) -> Yield:
    """Return what a search found, given the classes of the accepted texts and of the seeds.

    The search may have gone over its seeds several times.
    """
    n = len(seed_classes)
    answers = zip(found.accepted, classes, strict=True)
    failing = [one.seed % n for one, answer in answers if answer != seed_classes[one.seed % n]]
    calls = found.model_calls
    low, high = wilson(len(failing), calls)
    return Yield(
        name,
        len(found.accepted),
        calls,
        len(failing),
        len(set(failing)),
        1000 * len(failing) / max(calls, 1),
        1000 * low,
        1000 * high,
    )


def suite_of(accepted: Sequence[Accepted], seeds: Sequence[Text]) -> Suite:
    """Return an INV test for each transformation, with the texts that it changed first.

    The class must not change, by however little.
    """
    cases: dict[str, list[Case]] = {}
    for one in accepted:
        original = seeds[one.seed % len(seeds)]
        cases.setdefault(one.transforms[0], []).append(Case((original, one.text)))
    tests = [
        Test(
            re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name),  # in words, which tables can break
            "INV",
            Expectation("inv", tolerance=0.0),
            tuple(found),
            "Robustness",
            f"Texts changed by {name}, and perhaps by a second transformation.",
        )
        for name, found in sorted(cases.items())
    ]
    return Suite(tuple(tests))
