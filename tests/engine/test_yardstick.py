"""The yardstick: what random calibration texts reach, against sets and against draws from all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.data.calibration import DRAWS, Draws, yardstick
from mncover.data.files import cache_folder, save_json
from mncover.engine import yardstick as module
from mncover.engine.yardstick import sample_of
from tests import tiny
from tests.masks.test_mncover import random_masks
from tests.slow import SlowCover

TRAIN = tiny.texts(24, seed=11)


def small(monkeypatch: pytest.MonkeyPatch, least: int) -> None:
    """Draw from so few texts."""
    monkeypatch.setattr(module, "LEAST", least)


@pytest.mark.parametrize(("name", "least"), [("bert", 99), ("bert", 10), ("gpt2", 10)])
@pytest.mark.parametrize("kernels", ["cpu", "torch"])
def test_draws_reach_what_sets_of_their_texts_hold(
    name: str, least: int, kernels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small(monkeypatch, least)
    model, tokenizer = tiny.make(name)
    cov = Coverage(model, tokenizer, bins=5, max_length=8, kernels=kernels)
    cov.calibrate(TRAIN, cache=False)
    slow = SlowCover(model, tokenizer, 5, 8)
    slow.calibrate(TRAIN)
    sample = [TRAIN[i] for i in sample_of(cov.engine, TRAIN)]
    assert len(sample) == min(least, len(TRAIN))
    result = cov.update(tiny.texts(3, seed=12)).result()
    assert cov.data.calibration is not None
    draws = cov.data.calibration.draws
    assert draws is not None
    assert draws.points[-1] == (24 if least > 24 else 8)
    total = result.word.total + result.attention.total
    hits = [slow.hits(text) for text in sample]
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(sample))
        for point, share in zip(draws.points, draws.shares["cover"][seed], strict=True):
            union = set().union(*(hits[i] for i in order[:point]))
            assert share == pytest.approx(len(union) / total)
    found = result.yardstick()
    assert found is not None
    at = list(draws.points).index(3)
    reachable = sum(n for _, n in slow.reachable_cells())
    assert found.texts == 3
    assert found.share == pytest.approx(draws.shares["cover"][:, at].mean() * total / reachable)
    assert found.low < found.share < found.high


def test_intervals_hold_95_of_100_draws_on_average_over_samples() -> None:
    """One sample's interval may be too narrow by chance; many together must be right."""
    model, tokenizer = tiny.make("bert")
    train = tiny.texts(200, seed=13)
    cov = Coverage(model, tokenizer, bins=5, max_length=8)
    cov.calibrate(train, cache=False, yardstick=False)
    identity, about = cov.engine.identity(), cov.engine.calibration
    assert about is not None
    slow = SlowCover(model, tokenizer, 5, 8)
    slow.calibrate(train)
    hits = [slow.hits(text) for text in train]
    numbers = {hit: number for number, hit in enumerate(set().union(*hits))}
    cells = np.zeros((len(train), len(numbers)), dtype=bool)
    for row, mine in enumerate(hits):
        cells[row, [numbers[hit] for hit in mine]] = True
    tally = cov.result().main.tally
    total = tally.word.total + tally.attention.total
    reachable = tally.word.reachable + tally.attention.reachable
    rng = np.random.default_rng(14)

    def reached(rows: Any) -> int:
        return int(cells[rows].any(axis=0).sum())

    for n in (1, 20, 48):
        truth = [reached(rng.choice(200, n, replace=False)) / reachable for _ in range(200)]
        held, means = [], []
        for _ in range(60):
            sample = rng.choice(200, 60, replace=False)
            shares = [[reached(rng.permutation(sample)[:n]) / total] for _ in range(DRAWS)]
            draws = Draws(60, np.array([n]), {"cover": np.array(shares)})
            found = yardstick(replace(about, draws=draws), identity, identity.main, n)
            assert found is not None
            held.append(np.mean([found.low <= share <= found.high for share in truth]))
            means.append(found.share)
        assert 0.9 < np.mean(held) < 0.99
        assert np.mean(means) == pytest.approx(np.mean(truth), abs=0.5 * np.std(truth))


def test_as_many_texts_as_there_are_or_were_drawn() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8).calibrate(TRAIN, cache=False)
    result = cov.update(tiny.texts(40, seed=15)).result()
    found = result.yardstick()
    assert found is not None
    assert found.texts == 24
    assert found.low == pytest.approx(found.high)  # all of them: there is one such draw
    everything = Coverage(*tiny.make("bert"), max_length=8).calibrate(TRAIN, cache=False)
    whole = everything.update(TRAIN).result()
    assert found.share == pytest.approx(whole.share_of_reachable("cover"))


def test_it_is_kept_with_the_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    real = module._drawn

    def counted(*given: Any) -> Any:
        runs.append(1)
        return real(*given)

    monkeypatch.setattr(module, "_drawn", counted)

    def calibrated(**settings: Any) -> Any:
        cov = Coverage(*tiny.make("bert"), max_length=8, **settings).calibrate(TRAIN)
        assert cov.engine.calibration is not None
        return cov.engine.calibration.draws

    first, again = calibrated(), calibrated()
    assert len(runs) == 1
    np.testing.assert_array_equal(first.shares["cover"], again.shares["cover"])
    np.testing.assert_array_equal(first.points, again.points)
    calibrated(bins=4)
    masked = calibrated(masks=random_masks(tiny.make("bert")[1], 1))
    assert len(runs) == 3
    assert (masked.shares["mncover"] <= masked.shares["cover"]).all()


def test_nothing_is_drawn_where_it_would_mean_nothing(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8)
    assert cov.calibrate(TRAIN, yardstick=False).update(["film"]).result().yardstick() is None
    wider = Coverage(*tiny.make("bert"), max_length=8).calibrate(TRAIN[:9])
    result = wider.calibrate(TRAIN[9:]).update(["film"]).result()
    assert result.yardstick() is None
    assert result.calibration is not None
    assert result.calibration.lengths.sum() == len(TRAIN)


def test_long_texts_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8).calibrate(TRAIN, cache=False)
    sizes = [cov.engine.layout.touched(n) for n in cov.engine.subject.encode(TRAIN, 8).lengths]
    monkeypatch.setattr(module, "BYTES", sum(sizes) // 2)
    places = sample_of(cov.engine, TRAIN)
    assert 1 < len(places) < len(TRAIN)
    assert sum(sizes[i] for i in places) <= sum(sizes) // 2
    monkeypatch.setattr(module, "BYTES", 1)
    assert len(sample_of(cov.engine, TRAIN)) == 1


def test_an_interrupted_yardstick_leaves_the_object_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8)

    def interrupted(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_drawn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cov.calibrate(TRAIN)
    assert cov.calibrate(TRAIN).engine.identity().calibration_texts == len(TRAIN)


def test_a_damaged_yardstick_in_the_cache_is_made_again_with_a_warning() -> None:
    model, tokenizer = tiny.make("bert")

    def draws() -> Draws:
        cov = Coverage(model, tokenizer, bins=5, max_length=8).calibrate(TRAIN)
        assert cov.engine.calibration is not None
        assert cov.engine.calibration.draws is not None
        return cov.engine.calibration.draws

    first = draws()
    (kept,) = cache_folder("ranges").glob("*.json")
    key = json.loads(kept.read_text().partition("\n")[2])["key"]
    sound = kept.read_bytes()
    for number in range(3):
        if number == 0:
            kept.write_bytes(sound.replace(b'"points"', b'"pointz"'))
        else:
            state = [{"sampled": "x"}, {"sampled": 1, "points": [2], "shares": {}}][number - 1]
            save_json(kept, key, state)
        with pytest.warns(UserWarning, match="ignored and made again"):
            again = draws()
        np.testing.assert_array_equal(again.shares["cover"], first.shares["cover"])
        assert kept.read_bytes() == sound


def test_a_sample_of_one_text_has_a_yardstick() -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, bins=5, max_length=8).calibrate(TRAIN, cache=False)
    about = cov.update(TRAIN[:1]).data.calibration
    assert about is not None
    single = Draws(1, np.array([1]), {"cover": np.full((DRAWS, 1), 0.25)})
    identity = cov.data.identity
    found = yardstick(replace(about, draws=single), identity, identity.main, 3)
    assert found is not None
    assert found.low == pytest.approx(found.share) == found.high
