"""Embeddings, and the padded batches that they are made in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.augment.judge import START, batches_with_padding, end_of
from mncover.types import Text
from tests import tiny
from tests.augment.bench import Bench
from tests.slow_augment import slow_cosine


def test_embeddings_are_normalised_means_of_the_last_hidden_states() -> None:
    bench = Bench()
    texts: list[Text] = [*tiny.texts(9, seed=2), ("good film", "bad plot"), "good film"]
    found = bench.embedder().embed(texts)
    cosine = slow_cosine(bench.encoder.base_model, bench.tokenizer, 16)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
    assert bench.embedder().embed([]).shape[0] == 0
    for i, one in enumerate(texts):
        assert found[i] @ found[0] == pytest.approx(cosine(one, texts[0]), abs=1e-5)


@given(st.lists(st.integers(0, 60), max_size=12), st.integers(1, 4))
def test_padded_batches_hold_every_text_once_at_the_least_cost(lengths: list[int], n: int) -> None:
    found = batches_with_padding(lengths, n)
    assert sorted(i for batch in found for i in batch) == [i for i, k in enumerate(lengths) if k]
    assert all(len(batch) <= n for batch in found)

    def cheapest(sizes: tuple[int, ...]) -> int:
        """Try every size of the first batch."""
        if not sizes:
            return 0
        ways = range(1, min(n, len(sizes)) + 1)
        return min(START + k * sizes[0] + cheapest(sizes[k:]) for k in ways)

    cost = sum(START + len(batch) * max(lengths[i] for i in batch) for batch in found)
    assert cost == cheapest(tuple(sorted((k for k in lengths if k), reverse=True)))


@given(st.lists(st.integers(0, 60), max_size=20), st.integers(1, 8), st.integers(2, 4))
def test_padded_batches_that_run_side_by_side_hold_every_text_once_and_end_no_later(
    lengths: list[int], size: int, n: int
) -> None:
    found = batches_with_padding(lengths, size, n)
    assert sorted(i for batch in found for i in batch) == [i for i, k in enumerate(lengths) if k]
    assert all(len(batch) <= size for batch in found)
    cheapest = batches_with_padding(lengths, size)
    assert end_of(found, lengths, n) <= end_of(cheapest, lengths, n)


def test_the_end_of_batches_is_that_of_the_worker_that_works_longest() -> None:
    lengths = [30, 20, 20, 10]
    batches = [[0], [1, 2], [3]]  # 70 | 80, then 50 on the first worker, which is free at 70
    assert START == 40
    assert end_of(batches, lengths, 1) == 70 + 80 + 50
    assert end_of(batches, lengths, 2) == 120
    assert end_of(batches, lengths, 3) == 80
