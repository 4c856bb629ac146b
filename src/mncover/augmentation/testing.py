"""Tests out of accepted texts: each must get the answer that its seed gets.

And whether looking for coverage found more failures than not looking, at the same cost. No torch
here.
"""

from __future__ import annotations

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


def yield_of(name: str, found: Augmented, answers: Sequence[int]) -> Yield:
    """Return what a search found; `answers` are the classes of its seeds.

    The search may have gone over its seeds several times.
    """
    failing = [one for one in found.accepted if fails(one, answers)]
    calls = found.model_calls
    low, high = wilson(len(failing), calls)
    return Yield(
        name,
        len(found.accepted),
        calls,
        len(failing),
        len({one.seed % len(answers) for one in failing}),
        1000 * len(failing) / max(calls, 1),
        1000 * low,
        1000 * high,
    )


def fails(one: Accepted, answers: Sequence[int]) -> bool:
    """Return whether the model answers a text otherwise than its seed."""
    return one.prediction != answers[one.seed % len(answers)]


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
            name,
            "INV",
            Expectation("inv", tolerance=0.0),
            tuple(found),
            "Robustness",
            f"Texts changed by {name}, and perhaps by a second transformation.",
        )
        for name, found in sorted(cases.items())
    ]
    return Suite(tuple(tests))
