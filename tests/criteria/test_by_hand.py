"""Each criterion worked out by hand: two layers of three neurons, and values one can follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mncover.criteria import known_criterion
from mncover.data.layout import Layout, Site
from mncover.engine.batches import Batch
from mncover.engine.kernels.base import Heads, Target
from mncover.engine.pairs import sampled_pairs
from mncover.engine.ranges import Ranges
from mncover.engine.readers import HitReader
from mncover.engine.setups import Setups
from mncover.engine.statistics import of_heads, of_weights
from mncover.types import Settings

# Ranges of the three neurons of a layer, at each of two positions or for all: 0..10, -1..1, 5..5.
LOW, HIGH = [0.0, -1.0, 5.0], [10.0, 1.0, 5.0]
# A text of two tokens.
TEXT = [[2.5, 2.0, 5.0], [12.0, -3.0, 4.0]]  # mean: 7.25, -0.5, 4.5


def cells_hit(criterion: str, positions: str, kernels: str) -> set[tuple[int, int, int]]:
    """Return position, dimension and cell of everything that the text hits in layer 0."""
    settings = Settings(bins=4, max_length=2, positions=positions, sites="hidden")
    rows = 1 if settings.pooled else 2
    layout = Layout(tuple(Site("hidden", layer, 1, rows, 3) for layer in range(2)))
    setups = Setups([known_criterion(criterion)], settings, layout)
    setups.run_on(torch.device("cpu"), kernels)
    low, high = (np.array(one * rows * 2, dtype=np.float32) for one in (LOW, HIGH))
    setups.use_ranges(Ranges(layout, low, high, np.zeros(3, dtype=np.int64)))
    bits = setups.new_bits(criterion)
    reader = HitReader(setups.each, {criterion: Target(bits)})
    row = np.array([0])
    read = reader.begin(Batch(row, torch.from_numpy(row).int(), torch.zeros(1, 2).long()))
    read("hidden", 0, torch.tensor([TEXT]))
    reader.end()
    mine, cells = setups.layout_of(criterion), setups.group(criterion).cells
    found = setups.bits_to_numpy(bits, criterion).reshape(2, -1, mine.sites[0].columns)
    assert not found[1].any()  # the other layer was not read
    hit = [np.argwhere(found[0] >> cell & 1) for cell in range(cells)]
    return {(int(t), int(d), cell) for cell, places in enumerate(hit) for t, d in places}


BOTH = pytest.mark.parametrize("kernels", ["cpu", "torch"])


@BOTH
@pytest.mark.parametrize(
    ("criterion", "positions", "expected"),
    [
        # 2.5 of 0..10 is on the edge of bins 0 and 1; 5 of 5..5 is bin 0; all else is outside.
        ("kmnc", "each", {(0, 0, 1), (0, 2, 0)}),
        ("kmnc", "any", {(0, 0, 1), (0, 2, 0)}),
        ("kmnc", "mean", {(0, 0, 2), (0, 1, 1)}),
        # Cell 0 is below the range, 1 above it.
        ("nbc", "each", {(0, 1, 1), (1, 0, 1), (1, 1, 0), (1, 2, 0)}),
        ("nbc", "any", {(0, 1, 1), (0, 0, 1), (0, 1, 0), (0, 2, 0)}),
        ("nbc", "mean", {(0, 2, 0)}),
        ("snac", "each", {(0, 1, 0), (1, 0, 0)}),
        ("snac", "any", {(0, 1, 0), (0, 0, 0)}),
        ("snac", "mean", set()),
        # From -3 to 12: 2.5 is 0.37, 2 is 0.33, 5 is 0.53, 4 is 0.47.
        ("nc", "each", {(0, 2, 0), (1, 0, 0)}),
        ("nc:0.35", "each", {(0, 0, 0), (0, 2, 0), (1, 0, 0), (1, 2, 0)}),
        ("nc", "any", {(0, 2, 0), (0, 0, 0)}),
        # Of the means, from -0.5 to 7.25: 4.5 is 0.65.
        ("nc", "mean", {(0, 0, 0), (0, 2, 0)}),
        ("nc:0.75", "mean", {(0, 0, 0)}),
        ("tknc:1", "each", {(0, 2, 0), (1, 0, 0)}),
        ("tknc:2", "each", {(0, 2, 0), (0, 0, 0), (1, 0, 0), (1, 2, 0)}),
        ("tknc:1", "any", {(0, 2, 0), (0, 0, 0)}),
        ("tknc:1", "mean", {(0, 0, 0)}),
        # Pairs (0, 1), (0, 2), (1, 2); the middles are 5, 0, 5.
        # First token: low, high, low (5 is not above 5). Second: high, low, low.
        ("pairs", "each", {(0, 0, 1), (0, 1, 0), (0, 2, 2), (1, 0, 2), (1, 1, 2), (1, 2, 0)}),
        ("pairs", "any", {(0, 0, 1), (0, 1, 0), (0, 2, 2), (0, 0, 2), (0, 1, 2), (0, 2, 0)}),
        ("pairs", "mean", {(0, 0, 2), (0, 1, 2), (0, 2, 0)}),
    ],
)
def test_cells_of_a_text_by_hand(
    criterion: str, positions: str, expected: Any, kernels: str
) -> None:
    assert cells_hit(criterion, positions, kernels) == expected


def test_statistics_of_a_head_by_hand() -> None:
    weights = torch.tensor([[[[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]]]])
    found = of_weights(weights)[0, :, 0]
    half = float(np.log(2))
    expected = [
        # entropy, largest, on itself, on the one before, on the first, mean distance
        [0.0, 1.0, 1.0, 0.0, 1.0, 0.0],
        [half, 0.5, 0.5, 0.5, 0.5, 0.5],
        [1.5 * half, 0.5, 0.5, 0.25, 0.25, 0.75],
    ]
    torch.testing.assert_close(found, torch.tensor(expected))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block", [1, 40, 10**6])
@pytest.mark.parametrize("rows", [1, 3, 256])
def test_statistics_from_queries_and_keys_are_those_of_the_weights(
    causal: bool, block: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mncover.engine.statistics.BLOCK", block)
    monkeypatch.setattr("mncover.engine.statistics.ROWS", rows)
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, n, 7, 4) for n in (4, 2, 2))
    heads = Heads(query, key, value, 0.5, causal, torch.empty(2, 7, 4, 4))
    scores = query @ key.repeat_interleave(2, 1).transpose(2, 3) * 0.5
    if causal:
        scores = scores.masked_fill(torch.ones(7, 7).triu(1).bool(), -torch.inf)
    weights = scores.softmax(-1)
    torch.testing.assert_close(of_heads(heads), of_weights(weights))
    output = (weights @ value.repeat_interleave(2, 1)).transpose(1, 2)
    torch.testing.assert_close(heads.output, output)


def test_pairs_are_different_and_the_same_each_time() -> None:
    assert sampled_pairs(0, 4, 99).T.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    some = sampled_pairs(3, 50, 200).T
    assert len({tuple(pair) for pair in some.tolist()}) == 200
    assert (some[:, 0] < some[:, 1]).all()
    assert some.max() == 49
    assert not np.array_equal(some, sampled_pairs(4, 50, 200).T)
