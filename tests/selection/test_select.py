"""Choosing cases: budgets, the scores of a data file, and greedily."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.coverage import Coverage
from mncover.errors import SettingsError
from mncover.selection.budgets import Limit, best, choose, groups_of, parse_budget
from mncover.selection.cases import Cases, reduced_suite
from mncover.selection.scores import available, gain_score, score_cases
from mncover.selection.uncertainty import deep_gini, entropy, margin
from tests import tiny
from tests.folders import suite_of
from tests.selection.conftest import TRAIN
from tests.slow import SlowCover


def of(*values: float) -> Any:
    return np.array(values, dtype=np.float64)


def test_budgets_thresholds_and_quantiles_by_hand() -> None:
    scores = of(3, 0, 5, 5, 1)
    assert Limit(number=2).take(scores).tolist() == [2, 3]
    assert Limit(number=1).take(scores).tolist() == [2]  # of equal scores the first
    assert Limit(number=9).take(scores).tolist() == [0, 1, 2, 3, 4]
    assert Limit(share=0.4).take(scores).tolist() == [2, 3]
    assert Limit(share=0.01).take(scores).tolist() == [2]  # at least one
    assert Limit(threshold=0).take(scores).tolist() == [0, 2, 3, 4]
    assert Limit(threshold=3).take(scores).tolist() == [2, 3]
    # Of 1, 3, 5, 5 the median is 4.
    assert Limit(quantile=0.5).take(scores).tolist() == [2, 3]
    assert Limit(quantile=0).take(scores).tolist() == [0, 2, 3, 4]
    assert Limit(quantile=0.5).take(of(0, 0)).tolist() == []


def test_every_test_gives_its_share_or_the_whole_suite_does() -> None:
    scores, test = of(9, 8, 7, 1, 2, 3), np.array([0, 0, 0, 4, 4, 4])
    share = Limit(share=1 / 3)
    assert choose(scores, groups_of(test, overall=False), share).tolist() == [0, 5]
    assert choose(scores, groups_of(test, overall=True), share).tolist() == [0, 1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(1, 30))
def test_the_best_are_those_of_a_sorted_list(values: list[int], k: int) -> None:
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert best(of(*values), k).tolist() == sorted(ranked[:k])


@pytest.mark.parametrize("text", ["0", "0%", "101%", "-3", "ten", "2.5", "", "20 %%"])
def test_a_budget_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"budget|whole"):
        parse_budget(text)


def test_scores_of_cases_are_those_of_the_slow_implementation(cases: Cases) -> None:
    slow = SlowCover(*tiny.make("bert"), bins=10, max_length=12)
    slow.calibrate(TRAIN)
    seen: set[Any] = set()
    total = cases.data.identity.layout
    bins = sum(total.neurons(site) for site in total.sites) * 10
    everything = [case for test in suite_of().tests for case in test.cases]
    gains, novelty, lengths = (score_cases(cases, by) for by in ("gain", "novelty", "length"))
    assert len(everything) == len(cases) == 32
    for i, case in enumerate(everything[:14]):  # two tests, cases of one and of three texts
        hits = slow.union(list(case.texts))
        assert gains[i] == pytest.approx(len(hits - seen) / bins, rel=1e-12)
        texts = [tiny.make("bert")[1](text, truncation=True, max_length=12) for text in case.texts]
        tokens = [len(text["input_ids"]) for text in texts]
        assert lengths[i] == sum(tokens)
        touched = sum(site.touched(n) for n in tokens for site in cases.data.identity.layout.sites)
        assert novelty[i] == pytest.approx(len(hits - seen) / touched)
        seen |= hits


def test_uncertainty_of_a_case_is_that_of_its_most_uncertain_text(cases: Cases) -> None:
    for method in ("entropy", "deep_gini", "margin"):
        scores = score_cases(cases, method)
        for i, rows in enumerate(cases.rows):
            p = cases.data.table.probabilities[rows].astype(float)
            by_hand = {
                "entropy": max(-sum(x * np.log(x) for x in row) for row in p),
                "deep_gini": max(1 - sum(x * x for x in row) for row in p),
                "margin": max(1 - (sorted(row)[-1] - sorted(row)[-2]) for row in p),
            }
            assert scores[i] == pytest.approx(by_hand[method], abs=1e-6)


@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=5))
def test_uncertainty_is_least_when_sure_and_most_when_even(weights: list[float]) -> None:
    p = np.array([weights]) / sum(weights)
    n = len(weights)
    sure, even = np.eye(n)[:1], np.full((1, n), 1 / n)
    for score in (entropy, deep_gini, margin):
        assert score(sure)[0] == pytest.approx(0)
        assert score(sure)[0] - 1e-12 <= score(p)[0] <= score(even)[0] + 1e-12


def test_scores_that_lack_something_are_refused(cases: Cases) -> None:
    assert {"gain", "entropy", "failing", "random"} <= set(available(cases))
    assert "mngain" not in available(cases)
    assert [gain_score(name) for name in ("cover", "mncover", "nbc")] == [
        *("gain", "mngain", "gain-nbc")
    ]
    with pytest.raises(SettingsError, match="what each text added to mnCover"):
        score_cases(cases, "mngain")
    with pytest.raises(SettingsError, match=r"chosen by gain, .*; got 'magic'"):
        score_cases(cases, "magic")
    same = [score_cases(cases, "random", seed=7) for _ in range(2)]
    assert (same[0] == same[1]).all()
    assert sorted(same[0]) == list(range(32))


def test_a_reduced_suite_has_the_chosen_cases_of_every_test(cases: Cases) -> None:
    groups = groups_of(cases.test, overall=False)
    chosen = choose(score_cases(cases, "gain"), groups, Limit(share=0.2))
    assert cases.outline is not None
    few, whole = reduced_suite(cases, chosen, cases.outline), suite_of()
    assert [len(test.cases) for test in few.tests] == [2, 2, 2]
    assert few.labels == whole.labels
    for test in few.tests:
        mine = whole[test.name]
        assert [case for case in mine.cases if case in test.cases] == list(test.cases)
        assert (test.kind, test.expectation) == (mine.kind, mine.expectation)
    alone = reduced_suite(cases, np.array([31]), cases.outline)
    assert [test.name for test in alone.tests] == ["intensifiers"]


def test_the_failing_come_first_by_their_score(cases: Cases) -> None:
    chosen = choose(score_cases(cases, "failing"), [np.arange(32)], Limit(threshold=0.5))
    assert chosen.tolist() == np.flatnonzero(cases.verdicts == 0).tolist()


def slow_greedy(slow: SlowCover, cases: list[list[str]], budget: int) -> list[int]:
    hits, seen, kept = [slow.union(case) for case in cases], set[Any](), list[int]()
    while len(kept) < budget:
        gains = [-1 if i in kept else len(h - seen) for i, h in enumerate(hits)]
        if max(gains) <= 0:
            break
        kept.append(gains.index(max(gains)))
        seen |= hits[kept[-1]]
    return kept


@pytest.mark.parametrize(("name", "bins"), [("bert", 10), ("gpt2", 3), ("llama", 100)])
def test_greedy_equals_trying_every_case_every_time(name: str, bins: int) -> None:
    model, tokenizer = tiny.make(name)
    texts = tiny.texts(24, seed=5)
    cases = [texts[i : i + 1 + i % 2] for i in range(0, 11)] + [[texts[0]], [texts[3], texts[3]]]
    slow = SlowCover(model, tokenizer, bins, 10)
    slow.calibrate(tiny.texts(8, seed=6))
    cov = Coverage(model, tokenizer, bins=bins, max_length=10)
    cov.calibrate(tiny.texts(8, seed=6), cache=False)
    found = cov.greedy(cases, budget=9)
    assert found.kept == slow_greedy(slow, cases, 9)
    everything = cov.greedy(cases)
    assert everything.kept == slow_greedy(slow, cases, 99)
    assert set(everything.kept) < set(range(len(cases)))  # copies add nothing
    gains = everything.gains[everything.kept]
    assert (np.diff(gains) <= 0).all()
    cov.update([text for case in cases for text in case])
    assert gains.sum() == pytest.approx(cov.result().share("cover"))
    assert cov.greedy([]).kept == []


def test_greedy_says_how_much_space_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=10)
    cov.calibrate(tiny.texts(4, seed=6), cache=False)
    usage = type("Usage", (), {"free": 10})
    monkeypatch.setattr("mncover.selection.filters.shutil.disk_usage", lambda path: usage)
    with pytest.raises(SettingsError, match="GB are free"):
        cov.greedy(tiny.texts(4, seed=5))
