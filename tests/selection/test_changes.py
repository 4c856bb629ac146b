"""What changed since an earlier run: which cases are the same, and how each one counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mncover.coverage import Coverage
from mncover.report.failures import changes_in_words, changes_to_json, listed_failures
from mncover.selection.cases import Cases, cases_by_run, cases_of
from mncover.selection.changes import Changes, changes_since
from mncover.suites.expectations import Expectation
from mncover.suites.judging import FAILS, NOT_JUDGED, PASSES
from mncover.suites.model import Case, Suite, Test
from mncover.suites.rows import Rows
from tests import tiny
from tests.folders import suite_of

TRAIN = tiny.texts(20, seed=9)
Run = Callable[..., list[Cases]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a function that runs a suite, or rows, through a tiny model of a seed."""
    ready = {
        seed: Coverage(*tiny.make("bert", seed), max_length=12).calibrate(TRAIN, cache=False)
        for seed in (0, 1)
    }

    def made(what: Suite | Rows, seed: int = 0) -> list[Cases]:
        rows = what if isinstance(what, Rows) else Rows.of_suite(Path("suite.jsonl"), what)
        output = tmp_path_factory.mktemp("run") / "run.mncover"
        return cases_by_run(ready[seed].run(rows, output).data)

    return made


def verdicts(cases: Cases) -> dict[tuple[str, Any], int]:
    """The independent way: verdicts by test and texts, where no two cases are alike."""
    names = [cases.tests[number] for number in cases.test]
    keys = [(name, cases.texts(i)) for i, name in enumerate(names)]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, cases.verdicts.tolist(), strict=True))


def numbers(changes: Changes) -> list[int]:
    found = changes.newly_passing, changes.compared, changes.new, changes.otherwise
    return [len(changes.newly_failing), *found, changes.unjudged, changes.gone]


@pytest.mark.parametrize("plain", [False, True])
def test_another_model_fails_where_its_verdicts_say_so(run: Run, plain: bool) -> None:
    texts = Rows.make(tiny.texts(60, 5), ["a", "b"] * 30, [i % 3 for i in range(60)])
    what = texts if plain else suite_of()
    (now,), (then,) = run(what, 1), run(what, 0)
    here, there = verdicts(now), verdicts(then)
    found = changes_since([now], [then], "old.mncover")
    pairs = [(verdict, there[key]) for key, verdict in here.items()]
    judged = [pair for pair in pairs if NOT_JUDGED not in pair]
    new, fixed = judged.count((FAILS, PASSES)), judged.count((PASSES, FAILS))
    assert new > 0
    assert fixed > 0
    assert numbers(found) == [new, fixed, len(judged), 0, 0, len(pairs) - len(judged), 0]
    for cases, case in found.newly_failing:
        key = cases.tests[cases.test[case]], cases.texts(case)
        assert (here[key], there[key]) == (FAILS, PASSES)


def words(*cases: Case, expectation: str = "label") -> Suite:
    test = Test("words", "MFT", Expectation(expectation), cases)  # type: ignore[arg-type]
    return Suite((test,), ("LABEL_0", "LABEL_1", "LABEL_2"))


def answered(run: Run, text: str) -> int:
    """Return the class that the model of seed 0 gives a text."""
    (cases,) = run(Rows.make([text]))
    return int(cases.data.table["prediction"][0])


def test_what_cannot_be_compared_is_counted_by_its_reason(run: Run) -> None:
    right = answered(run, "good film")
    wrong = (right + 1) % 3
    then = run(words(Case(("good film",), right), Case(("bad film",), 0), Case(("food",), None)))
    same = changes_since(run(words(Case(("good film",), right))), then, "o")
    assert numbers(same) == [0, 0, 1, 0, 0, 0, 2]
    # Another label is another expectation, and so is another rule: neither is a new failure.
    relabelled = changes_since(run(words(Case(("good film",), wrong))), then, "o")
    assert numbers(relabelled) == [0, 0, 0, 0, 1, 0, 2]
    other = run(words(Case(("good film",), right), expectation="inv"))
    assert numbers(changes_since(other, then, "o")) == [0, 0, 0, 0, 1, 0, 2]
    added = run(words(Case(("good film",), right), Case(("plot",), right), Case(("food",), None)))
    assert numbers(changes_since(added, then, "o")) == [0, 0, 1, 1, 0, 1, 1]
    foreign = run(Rows.make(["good film"], "texts", [wrong]))
    found = changes_since(foreign, then, "old.mncover")
    assert numbers(found) == [0, 0, 0, 1, 0, 0, 3]
    assert changes_in_words(found) == (
        "Since old.mncover: 0 new failures, 0 fixed, 0 cases compared. "
        "Not compared: 1 not in that file. 3 cases of that file not run here."
    )


def test_the_same_text_with_two_labels_is_two_cases(run: Run) -> None:
    """As in a suite that holds a text twice, once right and once wrong."""
    right = answered(run, "good film")
    both = run(words(Case(("good film",), right), Case(("good film",), (right + 1) % 3)))
    assert numbers(changes_since(both, both, "o")) == [0, 0, 2, 0, 0, 0, 0]


def test_a_case_that_failed_once_before_is_no_new_failure(run: Run) -> None:
    right = answered(run, "good film")
    (now,) = run(words(Case(("good film",), right)))
    failed = replace(now, verdicts=now.verdicts * 0 + FAILS)
    assert numbers(changes_since([failed], [now], "o"))[0] == 1
    assert numbers(changes_since([failed], [now, failed], "o"))[0] == 0
    assert numbers(changes_since([failed], [failed, now], "o"))[0] == 0


def test_labels_are_the_same_by_name_or_else_by_number(run: Run) -> None:
    (now,) = run(Rows.make(["good film", "bad"], "a", [0, 1]))

    def with_classes(*names: str) -> list[Cases]:
        data = now.data
        made = object.__new__(type(data))
        made.__dict__ |= {**data.__dict__, "identity": replace(data.identity, labels=names)}
        return [cases_of(made)]

    named, renamed = with_classes("a", "b", "c"), with_classes("x", "y", "z")
    assert numbers(changes_since(named, renamed, "o"))[1:5] == [0, 2, 0, 0]  # by number
    swapped = with_classes("b", "a", "c")
    assert numbers(changes_since(named, swapped, "o"))[1:5] == [0, 0, 0, 2]  # other classes


def test_new_failures_are_listed_with_what_was_expected_and_what_came(run: Run) -> None:
    right = answered(run, "good film")
    then = run(words(Case(("good film",), right)))
    table = then[0].data.table
    (now,) = run(words(Case(("good film",), right)))
    wrong = (right + 1) % 3
    now.data.table.probabilities[0] = [0.9 if c == wrong else 0.05 for c in range(3)]
    now = cases_of(now.data)
    assert int(table["prediction"][0]) == right
    found = changes_since([now], then, "old.mncover")
    assert list(listed_failures(found)) == [
        f"words, case 0: expected LABEL_{right}, got LABEL_{wrong} 90.0 %",
        "    good film",
    ]
    assert changes_to_json(found)["newly_failing"] == [
        {
            "test": "words",
            "case": "case 0",
            "texts": ["good film"],
            "expected": f"LABEL_{right}",
            "got": f"LABEL_{wrong} 90.0 %",
        }
    ]


def test_a_long_list_ends_with_how_many_more_there_are(run: Run) -> None:
    (now,) = run(suite_of())
    failed = replace(now, verdicts=now.verdicts * 0 + FAILS)
    passed = replace(now, verdicts=now.verdicts * 0 + PASSES)
    lines = list(listed_failures(changes_since([failed], [passed], "o")))
    assert sum(not line.startswith("    ") for line in lines) == 20 + 1
    assert lines[-1] == "and 12 cases more; `mncover report --format json` has them all"
