"""Every criterion under every way to treat positions, against a slow and obvious loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.criteria import known_criterion
from mncover.errors import SettingsError
from tests import tiny
from tests.slow import count
from tests.slow_criteria import SlowCriteria

TRAIN = tiny.texts(10, seed=1)
TEXTS = tiny.texts(9, seed=2)
NAMES = ["cover", "kmnc", "nbc", "snac", "nc:0.75", "nc", "tknc:2"]
SIX = ["bert", "albert", "modernbert", "gpt2", "llama", "t5_encoder"]
POSITIONS = pytest.mark.parametrize("positions", ["each", "any", "mean"])


def slowly(name: str, positions: str) -> tuple[SlowCriteria, dict[str, list[set[Any]]]]:
    """Return slow ranges, and what each text hits by every criterion."""
    slow = SlowCriteria(*tiny.make(name), bins=10, max_length=9, how=positions)
    slow.calibrate(TRAIN)
    hits: dict[str, list[set[Any]]] = {}
    for criterion in NAMES:
        family, _, number = criterion.partition(":")
        hits[criterion] = [slow.hits(family, text, float(number or 0.5)) for text in TEXTS]
    return slow, hits


@POSITIONS
@pytest.mark.parametrize("name", SIX)
def test_criteria_equal_the_slow_implementation(name: str, positions: str) -> None:
    slow, hits = slowly(name, positions)
    for kernels in ("cpu", "torch"):
        cov = Coverage(
            *tiny.make(name), max_length=9, positions=positions, criteria=NAMES, kernels=kernels
        )
        cov.calibrate(TRAIN, cache=False, yardstick=False)
        alone = {criterion: cov.gain(TEXTS, criterion) for criterion in NAMES}
        cov.update(TEXTS[:5], context="a", gains=True).update(TEXTS[5:], context="b", gains=True)
        result, table = cov.result(), cov.data.table
        for criterion in NAMES:
            mine, seen = hits[criterion], set[Any]()
            tally = result.criteria[criterion].tally
            whole = set().union(*mine)
            assert len(whole) > 5
            assert tally.word.covered == count(whole, "hidden")
            assert tally.attention.covered == count(whole, "attention")
            total = tally.word.total + tally.attention.total
            np.testing.assert_allclose(alone[criterion], [len(m) / total for m in mine], rtol=1e-9)
            for text, one in enumerate(mine):
                new = [count(one - seen, kind) for kind in ("hidden", "attention")]
                assert table.new[criterion][:, text].tolist() == new
                seen |= one
            for site in result.criteria[criterion].sites:
                assert site.count.covered == count(whole, site.kind, site.layer)
        assert result.criteria["kmnc"].tally.word == result.criteria["cover"].tally.word
        ranged = sum(1 for neuron in slow.low if neuron[0] == "hidden")
        assert result.criteria["nbc"].tally.word.reachable == 2 * ranged


@POSITIONS
def test_updating_without_order_hits_the_same(positions: str) -> None:
    options: Any = {"max_length": 9, "positions": positions, "criteria": NAMES}
    for kernels in ("cpu", "torch"):
        one = Coverage(*tiny.make("bert"), **options, kernels=kernels).calibrate(TRAIN, cache=False)
        other = Coverage(*tiny.make("bert"), **options, kernels=kernels)
        other.calibrate(TRAIN, cache=False)
        one.update(TEXTS, gains=True)
        other.update(TEXTS)
        for criterion in NAMES:
            np.testing.assert_array_equal(one.data.total(criterion), other.data.total(criterion))


@POSITIONS
def test_a_choice_by_any_criterion_is_that_of_sets(positions: str) -> None:
    _, hits = slowly("bert", positions)
    for kernels in ("cpu", "torch"):
        cov = Coverage(
            *tiny.make("bert"), max_length=9, positions=positions, criteria=NAMES, kernels=kernels
        )
        cov.calibrate(TRAIN, cache=False, yardstick=False)
        cases = [[TEXTS[0], TEXTS[1]], [TEXTS[2]], TEXTS[3:6], [TEXTS[0]], [TEXTS[6]]]
        where = [[0, 1], [2], [3, 4, 5], [0], [6]]
        for criterion in NAMES:
            each = [set().union(*(hits[criterion][i] for i in texts)) for texts in where]
            seen: set[Any] = set()
            kept = []
            for number, mine in enumerate(each):
                if mine - seen:
                    kept.append(number)
                seen |= mine
            assert cov.filter(cases, metric=criterion).kept == kept
            best = max(range(len(each)), key=lambda i: (len(each[i]), -i))
            assert cov.greedy(cases, 1, metric=criterion).kept == [best]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("tknc:0", "from 1 to 1000 .*got '0'"),
        ("tknc:1.5", "must be a whole number"),
        ("nc:2", "from 0 to 1"),
        ("nc:x", "got 'x'"),
        ("nc:nan", "got 'nan'"),
        ("nbc:3", "NBC takes no number"),
        ("tknn", "did you mean 'tknc'"),
    ],
)
def test_what_is_no_criterion_is_refused(name: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        known_criterion(name)


def test_a_number_is_part_of_a_criterions_name_unless_it_is_the_usual_one() -> None:
    assert known_criterion("tknc:3").name == known_criterion("tknc").name == "tknc"
    assert known_criterion("nc:0.250").name == "nc:0.25"
