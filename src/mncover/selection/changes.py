"""How the cases of a run fare compared with an earlier run, of the same model or another.

Two cases are the same if their test, their texts and what is expected of them are. No torch here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mncover.data.table import UNKNOWN
from mncover.selection.cases import Cases
from mncover.suites.judging import FAILS, NOT_JUDGED, PASSES
from mncover.types import Text

_Key = tuple[str, tuple[Text, ...]]  # the test, and the texts


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed since an earlier run, and what cannot be compared.

    `newly_failing` has the cases that passed there and fail here, each with the cases of its run.
    `compared` cases are judged in both. Of the others here, `new` are not in the earlier run,
    `otherwise` were expected to do something else there, and `unjudged` are not judged in one of
    the two. `gone` are cases of the earlier run that are not here.
    """

    since: str
    newly_failing: tuple[tuple[Cases, int], ...]
    newly_passing: int
    compared: int
    new: int
    otherwise: int
    unjudged: int
    gone: int


def changes_since(now: Sequence[Cases], earlier: Sequence[Cases], since: str) -> Changes:
    """Compare the runs of two measurements; `since` is what the earlier one is called."""
    classes = [{*one.data.identity.labels} for one in (*now, *earlier)]
    by_name = all(one == classes[0] for one in classes)
    before: dict[_Key, dict[Any, int]] = {}
    for cases, case, key, expected in _each(earlier, by_name):
        verdicts = before.setdefault(key, {})
        # A case that was run twice failed if it ever did.
        verdicts[expected] = _worse(verdicts.get(expected), int(cases.verdicts[case]))
    failing: list[tuple[Cases, int]] = []
    numbers = dict.fromkeys(("newly_passing", "compared", "new", "otherwise", "unjudged"), 0)
    here: set[_Key] = set()
    for cases, case, key, expected in _each(now, by_name):
        here.add(key)
        verdict, then = int(cases.verdicts[case]), before.get(key, {}).get(expected)
        numbers[_kind(key in before, verdict, then)] += 1
        numbers["newly_passing"] += (verdict, then) == (PASSES, FAILS)
        if (verdict, then) == (FAILS, PASSES):
            failing.append((cases, case))
    gone = sum(len(verdicts) for key, verdicts in before.items() if key not in here)
    return Changes(since, tuple(failing), gone=gone, **numbers)


def _kind(known: bool, verdict: int, then: int | None) -> str:
    """Return how a case counts, given its verdicts here and there."""
    if then is None:
        return "otherwise" if known else "new"
    return "unjudged" if NOT_JUDGED in (verdict, then) else "compared"


def _worse(one: int | None, other: int) -> int:
    """Return the verdict on a case that was run twice."""
    order = (FAILS, PASSES, NOT_JUDGED)
    return other if one is None else min(one, other, key=order.index)


def _each(runs: Sequence[Cases], by_name: bool) -> Iterator[tuple[Cases, int, _Key, Any]]:
    """Yield every case, with what it is recognised by and what is expected of it."""
    for cases in runs:
        expected = _expectations(cases, by_name)
        for case in range(len(cases)):
            key = cases.tests[cases.test[case]], cases.texts(case)
            yield cases, case, key, expected[case]


def _expectations(cases: Cases, by_name: bool) -> list[Any]:
    """Return what is expected of each case.

    The labels of plain texts are the model's classes: the same `by_name` if both models have the
    same names, otherwise by number.
    """
    if cases.outline is None:
        labels = (int(cases.data.table["label"][rows[0]]) for rows in cases.rows)
        names = cases.data.identity.labels
        return [names[x] if by_name and x != UNKNOWN else x for x in labels]
    wanted = [label for of_test in cases.outline.cases for _, label in of_test]
    tests = [str(test.expectation.to_json()) for test in cases.outline.tests]
    numbered = zip(cases.number.tolist(), cases.test.tolist(), strict=True)
    return [(tests[test], wanted[number]) for number, test in numbered]
