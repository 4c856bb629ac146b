"""The controls of masks: they keep as many pairs, and their tables say what was measured."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from benchmarks.pair_masks import cut_to, most_attended, show
from benchmarks.pair_masks import measure as measure_for_benchmark
from rich.console import Console

from mncover.masks import controls as c
from mncover.masks.controls import (
    GROUPS,
    Agreement,
    Control,
    Controls,
    agreement_of_seeds,
    controls_table,
    kappa,
    kept_in_texts,
    shuffled,
    shuffled_within_frequency,
    with_every_word,
    write_controls,
)
from mncover.masks.learning import learn_masks
from mncover.masks.masks import Masks
from mncover.masks.wimask import fidelity_on
from tests import tiny
from tests.masks.test_learning import QUICK, subject_of
from tests.masks.test_mncover import V, random_masks


def masks_of_counts() -> Masks:
    """Return masks in which frequent pairs count and rare ones do not."""
    masks = random_masks(tiny.tokenizer(), 1)
    rng = np.random.default_rng(0)
    counts = rng.permutation(np.repeat(np.arange(1, 101), 10)[: len(masks.pair_keys)])
    scores = np.where(counts > 10, 0.9, 0.1).astype(np.float32)
    return replace(masks, pair_counts=counts.astype(np.int64), pair_scores=scores)


def test_shuffled_masks_keep_as_many_pairs_and_within_frequency_as_frequent_ones() -> None:
    masks = masks_of_counts()
    free, within = shuffled(masks, 0), shuffled_within_frequency(masks, 0)
    for changed in (free, within):
        assert changed.keep_pairs.sum() == masks.keep_pairs.sum()
    # All pairs of a group are about equally frequent, so nearly all that is kept stays frequent.
    size = len(masks.pair_keys) / GROUPS
    assert np.sum(masks.pair_counts[within.keep_pairs] <= 10) <= 2 * size
    assert np.sum(masks.pair_counts[free.keep_pairs] <= 10) > 4 * size


def test_the_most_attended_pairs_are_as_many() -> None:
    subject, masks = subject_of(), masks_of_counts()
    found = most_attended(subject, masks, subject.encode(tiny.texts(200, 1), 20))
    assert found.keep_pairs.sum() == masks.keep_pairs.sum()
    paid = found.pair_scores
    assert paid[found.keep_pairs].min() > paid[~found.keep_pairs].max()


def test_masks_are_cut_to_the_pairs_with_the_highest_scores() -> None:
    masks = random_masks(tiny.tokenizer(), 1)
    cut = cut_to(masks, 0.2)
    assert cut.keep_pairs.mean() == pytest.approx(0.2, abs=0.01)
    assert masks.pair_scores[cut.keep_pairs].min() >= masks.pair_scores[~cut.keep_pairs].max()


def test_with_every_word_no_word_is_dropped_under_any_rule_for_unseen_ones() -> None:
    masks = masks_of_counts()
    for unseen in ("keep", "drop", "words"):
        changed = with_every_word(masks.with_thresholds(unseen=unseen))
        assert changed.keep_words.all()
        np.testing.assert_array_equal(changed.keep_pairs, masks.keep_pairs)


def test_kappa_by_hand() -> None:
    one = np.array([True, True, False, False])
    assert kappa(one, one) == 1
    assert kappa(one, ~one) == -1
    # They agree on 3 of 4; by chance on 1/2 * 1/4 + 1/2 * 3/4 = 1/2.
    assert kappa(one, np.array([True, False, False, False])) == pytest.approx(0.5)
    assert kappa(one | True, one | True) == 1
    assert np.isnan(kappa(one[:0], one[:0]))


def test_seeds_agree_with_themselves_and_not_with_chance() -> None:
    masks = masks_of_counts()
    same = agreement_of_seeds(masks, masks)
    assert (same.kappa, same.kappa_often, same.kappa_words) == (1, 1, 1)
    assert same.pairs == len(masks.pair_keys)
    assert same.often == int((masks.pair_counts >= c.OFTEN).sum())
    assert abs(agreement_of_seeds(masks, shuffled(masks, 3)).kappa) < 0.2


def test_seeds_are_compared_on_the_pairs_that_both_saw() -> None:
    masks = masks_of_counts()
    fewer = replace(
        masks,
        pair_keys=masks.pair_keys[::2],
        pair_scores=masks.pair_scores[::2],
        pair_counts=masks.pair_counts[::2],
    )
    found = agreement_of_seeds(masks, fewer)
    assert (found.pairs, found.kappa) == (len(fewer.pair_keys), 1)


def test_places_of_pairs_in_texts_are_counted_as_often_as_they_occur() -> None:
    subject = subject_of()
    masks = replace(
        masks_of_counts(),
        pair_keys=np.array([tiny.VOCABULARY["film"] * V + tiny.VOCABULARY["good"]]),
        pair_scores=np.ones(1, np.float32),
        pair_counts=np.ones(1, np.int64),
    )
    found = kept_in_texts(masks, subject.encode(["film good good bad", "film bad"], 20))
    # film-good twice; film-bad twice and good-bad twice were not seen.
    assert found == pytest.approx((2 / 6, 1.0))


def test_every_control_is_the_fidelity_of_the_masks_that_its_name_says() -> None:
    subject, texts = subject_of(), tiny.texts(60, 9)
    masks = replace(random_masks(subject.tokenizer, 2), pairs="attention")
    found = {one.name: one for one in Controls(subject, texts, 20).all(masks)}

    def slow(changed: Masks) -> float:
        return fidelity_on(subject, changed, texts, 20)

    ones, none = np.ones_like(masks.word_scores), np.zeros_like(masks.pair_scores)
    pairs = replace(masks, word_scores=ones, word_counts=masks.word_counts + 1)
    assert found[c.BOTH].value == slow(masks)
    assert found[c.PAIRS].value == slow(pairs)
    assert found[c.WORDS].value == slow(replace(masks, pair_scores=none + 1))
    assert found[c.NO_PAIR].value == slow(replace(pairs, pair_scores=none))
    assert found[c.DROPPED].value == slow(replace(pairs, unseen="drop"))
    for name, above, change in (
        (c.RANDOM, c.ABOVE_RANDOM, shuffled),
        (c.SHUFFLED, c.ABOVE_SHUFFLED, shuffled_within_frequency),
    ):
        values = [slow(change(pairs, seed)) for seed in range(5)]
        assert found[above].value == pytest.approx(slow(pairs) - np.mean(values))
        assert found[name].value == pytest.approx(np.mean(values))
        assert found[name][2:] == (min(values), max(values), 5)
    assert len({one.value for one in found.values()}) > 1
    assert all(one.low <= one.value <= one.high for one in found.values())


def test_by_how_much_masks_are_better_is_told_with_the_interval_of_paired_differences() -> None:
    own = np.array([True, True, True, False])
    others = np.array([[True, False, False, False], [True, True, False, False]])
    found = c._above("above", own, others)
    # Of the four texts it is 0, a half, 1 and 0 better; Student's t of three degrees is 3.182.
    error = np.sqrt(((0.375**2) * 2 + 0.125**2 + 0.625**2) / 3 / 4)
    assert found.value == pytest.approx(0.375)
    assert found[2:4] == pytest.approx((0.375 - 3.182446 * error, 0.375 + 3.182446 * error))
    shown = StringIO()
    console = Console(width=80, file=shown)
    console.print(controls_table([found._replace(name=c.ABOVE_SHUFFLED)]))
    assert "+37.50" in shown.getvalue()


def test_the_table_of_controls_is_written_with_the_agreement_of_seeds(tmp_path: Path) -> None:
    write_controls([Control("a", 0.5, 0.4, 0.6)], Agreement(9, 0.5, 4, 0.6, 7, 0.7), tmp_path / "c")
    rows = list(csv.DictReader((tmp_path / "c").read_text().splitlines()))
    assert [(row["name"], row["value"]) for row in rows] == [
        ("a", "0.5"),
        ("kappa of pairs", "0.5"),
        ("kappa of pairs seen 5 times", "0.6"),
        ("kappa of words", "0.7"),
    ]


def test_the_benchmark_controls_masks_of_two_seeds() -> None:
    subject, texts = subject_of(), tiny.texts(60, 1)
    each = [replace(QUICK, epochs=1, pairs_kept=0.4, seed=seed) for seed in (0, 1)]
    learnt = [learn_masks(Masks, subject, texts, settings) for settings in each]
    sample = subject.encode(texts, 20)
    controls = Controls(subject, tiny.texts(40, 9), 20)
    found = measure_for_benchmark(subject, learnt, controls, sample)
    assert found["pairs kept"] == pytest.approx(0.4, abs=0.01)
    assert len(found["fidelity"]) == 10
    json.dumps(found)
    assert show("tiny", [{**found, "seconds": 1.0}]).row_count == 4 + 10 + 6 + 1
