"""Laws of coverage: what must hold for any texts, in any order, batch and split."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mncover.coverage import Coverage
from mncover.data import maps
from mncover.data.gains import gain_share
from mncover.data.store import CoverageData
from tests import tiny
from tests.slow import SlowCover, count

TRAIN = tiny.texts(30, seed=1)
POOL = [*tiny.texts(40, seed=2), "", "[PAD] film", "unknownword", TRAIN[0], TRAIN[1]]
some_texts = st.lists(st.sampled_from(POOL), max_size=12)
slowly = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


@lru_cache(maxsize=8)
def engine_of(name: str, batch_size: int = 32, bins: int = 10, kernels: str = "auto") -> Any:
    options: Any = {"bins": bins, "max_length": 10, "batch_size": batch_size, "kernels": kernels}
    cov = Coverage(*tiny.make(name), **options)
    return cov.calibrate(TRAIN, cache=False)._engine


def fresh(name: str = "bert", batch_size: int = 32, bins: int = 10) -> Coverage:
    """Return a calibrated Coverage that has measured nothing."""
    engine = engine_of(name, batch_size, bins)
    return Coverage._of(CoverageData(engine.identity()), engine)


def total(cov: Coverage) -> maps.Bits:
    return cov.data.total()


@slowly
@given(texts=some_texts, batch_size=st.sampled_from([1, 2, 3, 5, 32]), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", ["bert", "llama", "deberta"])
def test_batch_size_and_order_change_nothing(
    name: str, texts: list[str], batch_size: int, seed: int
) -> None:
    shuffled = [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))]
    a = fresh(name).update(texts)
    b = fresh(name, batch_size).update(shuffled)
    np.testing.assert_array_equal(total(a), total(b))


@slowly
@given(texts=some_texts, extra=st.sampled_from(POOL))
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_company_of_other_lengths_which_would_mean_padding_changes_nothing(
    name: str, texts: list[str], extra: str
) -> None:
    alone = fresh(name).update([extra])
    together = fresh(name).update([extra], context="mine")
    together.update(texts, context="others")
    np.testing.assert_array_equal(total(alone), together.data.map_of("mine"))


@slowly
@given(a=some_texts, b=some_texts)
def test_coverage_is_monotone(a: list[str], b: list[str]) -> None:
    less, more = fresh().update(a), fresh().update(a + b)
    assert not (total(less) & ~total(more)).any()
    assert more.result().cover >= less.result().cover


@slowly
@given(a=some_texts, b=some_texts, c=some_texts)
def test_union_is_commutative_associative_and_idempotent(
    a: list[str], b: list[str], c: list[str]
) -> None:
    x, y, z = (fresh().update(t, context=n) for t, n in ((a, "a"), (b, "b"), (c, "a")))
    assert_same_data(x | y, y | x)
    assert_same_data((x | y) | z, x | (y | z))
    assert_same_data(x | x, x)


def assert_same_data(x: Coverage, y: Coverage) -> None:
    one, two = x.data, y.data
    assert one.contexts == two.contexts
    for context in one.contexts:
        np.testing.assert_array_equal(one.map_of(context), two.map_of(context))
    assert one.table.texts == two.table.texts
    for name, values in one.table.columns.items():
        np.testing.assert_array_equal(values, two.table[name])
    assert x.result().cover == y.result().cover


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(parts=st.lists(some_texts, min_size=1, max_size=4))
def test_n_updates_equal_the_union_of_n_files(
    tmp_path_factory: pytest.TempPathFactory, parts: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("files")
    whole = fresh()
    for number, texts in enumerate(parts):
        whole.update(texts, context=str(number % 2))
        fresh().update(texts, context=str(number % 2)).save(folder / f"{number}.mncover")
    united = Coverage.load(folder / "0.mncover")
    for number in range(1, len(parts)):
        united = united | Coverage.load(folder / f"{number}.mncover")
    np.testing.assert_array_equal(total(whole), total(united))
    for context in whole.data.contexts:
        np.testing.assert_array_equal(whole.data.map_of(context), united.data.map_of(context))


@slowly
@given(texts=some_texts)
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_gains_in_order_add_up_to_cover_and_equal_the_differences(
    name: str, texts: list[str]
) -> None:
    in_order = fresh(name).update(texts, gains=True)
    table = in_order.data.table
    step = fresh(name)
    for row, text in enumerate(texts):
        before = step.result()
        step.update([text])
        after = step.result()
        assert table.new["cover"][0][row] == after.word.covered - before.word.covered
        assert table.new["cover"][1][row] == after.attention.covered - before.attention.covered
    np.testing.assert_array_equal(total(in_order), total(step))


@slowly
@given(seen=some_texts, texts=some_texts)
def test_gain_is_what_an_update_would_add_and_changes_nothing(
    seen: list[str], texts: list[str]
) -> None:
    cov = fresh().update(seen)
    before = total(cov).copy()
    gains = cov.gain(texts)
    np.testing.assert_array_equal(total(cov), before)
    for text, gain in zip(texts, gains, strict=True):
        added = fresh().update([*seen, text]).result().cover - cov.result().cover
        assert gain == pytest.approx(added, abs=1e-15)


@slowly
@given(
    cases=st.lists(st.lists(st.sampled_from(POOL), min_size=1, max_size=3), max_size=8),
    threshold=st.sampled_from([-1.0, 0.0, 0.002, 0.01, 0.05, 1.0]),
)
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_filter_equals_the_slow_sequential_filter(
    name: str, cases: list[list[str]], threshold: float
) -> None:
    cov = fresh(name)
    engine = engine_of(name)
    kept_hits: set[Any] = set()
    kept, gains = [], []
    for number, case in enumerate(cases):
        hits = set().union(*(slow_hits(name, text) for text in case))
        new = hits - kept_hits
        counts = count(new, "hidden"), count(new, "attention")
        gain = float(gain_share(engine.layout, engine.settings, 10, *counts))
        gains.append(gain)
        if gain > threshold:
            kept.append(number)
            kept_hits |= hits
    found = cov.filter(cases, threshold)
    assert found.kept == kept
    np.testing.assert_allclose(found.gains, gains, rtol=0, atol=1e-15)


@lru_cache(maxsize=4)
def slow_cover(name: str) -> SlowCover:
    slow = SlowCover(*tiny.make(name), bins=10, max_length=10)
    slow.calibrate(TRAIN)
    return slow


@lru_cache(maxsize=200)
def slow_hits(name: str, text: str) -> frozenset[Any]:
    if name in tiny.DECODERS and not text:  # no token, nothing to run
        return frozenset()
    return frozenset(slow_cover(name).hits(text))


def test_filter_starts_from_nothing_unless_asked_to_go_on_top() -> None:
    cov = fresh().update(POOL[:3])
    assert cov.filter(POOL[:3]).kept == [0, 1, 2]
    assert cov.filter(POOL[:3], on_top=True).kept == []
    assert cov.filter(POOL[:3], on_top=True).gains.sum() == 0


@pytest.mark.parametrize("kernels", ["cpu", "torch"])
def test_windows_of_any_size_change_nothing(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [[text, POOL[0]] for text in POOL]
    whole = fresh().filter(cases, 0.001)
    engine = engine_of("bert", kernels=kernels)
    for texts, size in ((1, 10**9), (5, 10**9), (2048, 4000), (2048, 1)):
        monkeypatch.setattr("mncover.engine.windows.WINDOW_TEXTS", texts)
        monkeypatch.setattr("mncover.engine.windows.WINDOW_BYTES", size)
        split = Coverage._of(CoverageData(engine.identity()), engine).filter(cases, 0.001)
        assert split.kept == whole.kept
        np.testing.assert_array_equal(split.gains, whole.gains)


def test_the_torch_kernels_measure_the_same_as_the_compiled_ones() -> None:
    """What a GPU runs, run here: the same map, gains and filter."""
    compiled = fresh().update(POOL, context=["a", "b"] * 22 + ["a"], gains=True)
    model, tokenizer = tiny.make("bert")
    other = Coverage(model, tokenizer, max_length=10, kernels="torch")
    other.calibrate(TRAIN, cache=False)
    assert other.engine.kernels.name == "torch"
    other.update(POOL, context=["a", "b"] * 22 + ["a"], gains=True)
    for context in ("a", "b"):
        np.testing.assert_array_equal(compiled.data.map_of(context), other.data.map_of(context))
    np.testing.assert_array_equal(compiled.data.table.new["cover"], other.data.table.new["cover"])
    np.testing.assert_array_equal(
        compiled.filter(POOL, 0.001).gains, other.filter(POOL, 0.001).gains
    )
    np.testing.assert_array_equal(compiled.gain(POOL), other.gain(POOL))
    plain = Coverage._of(CoverageData(other.engine.identity()), other.engine).update(POOL)
    np.testing.assert_array_equal(total(plain), total(compiled))
