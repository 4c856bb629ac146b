"""The controls of pair masks: they keep as many pairs, and their table says what was measured."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.pair_masks import (
    COLUMNS,
    GROUPS,
    agreement_of_seeds,
    kept_in_texts,
    measure,
    most_attended,
    show,
    shuffled,
    shuffled_within_frequency,
)

from mncover.masks.masks import Masks
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


def test_seeds_agree_with_themselves_and_not_with_chance() -> None:
    masks = masks_of_counts()
    assert agreement_of_seeds(masks, masks)["kappa"] == 1
    assert abs(agreement_of_seeds(masks, shuffled(masks, 3))["kappa"]) < 0.2


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
    assert found == {"places seen": pytest.approx(2 / 6), "places kept": 1.0}


def test_the_table_has_the_fidelity_of_masks_and_of_their_controls() -> None:
    subject = subject_of()
    tokens = subject.encode(tiny.texts(40, 9), 20)
    each = [replace(QUICK, epochs=1, pairs_kept=0.4, seed=seed) for seed in (0, 1)]
    found = measure(subject, tiny.texts(60, 1), tokens, each)
    assert found["pairs kept"] == pytest.approx(0.4, abs=0.01)
    for name in COLUMNS:
        assert 0 <= found[name] <= 1
    assert found["settings"]["pairs_kept"] == 0.4
    json.dumps(found)
    assert show("tiny", [found]).row_count == 1
