"""MnCover: equal to the slow implementation, never above Cover, and everywhere Cover is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover.coverage import Coverage
from mncover.data.store import CoverageData
from mncover.engine.loading import fingerprint_tokenizer
from mncover.errors import MaskError, MismatchError, SettingsError
from mncover.masks.masks import Masks, Unseen
from tests import tiny
from tests.engine.test_laws import POOL, TRAIN, slowly
from tests.slow import Hit, SlowCover, SlowMasks, count

ARCHITECTURES = ["bert", "roberta", "albert", "deberta", "llama", "gpt2", "t5_encoder"]
V = len(tiny.VOCABULARY)


def random_masks(tokenizer: Any, seed: int, unseen: Unseen = "keep") -> Masks:
    """Return masks of random scores, in which some words and most pairs were never seen."""
    rng = np.random.default_rng(seed)
    special = np.array(sorted(set(tokenizer.all_special_ids)), dtype=np.int64)
    upper = [(a, b) for a in range(V) for b in range(a + 1, V)]
    keys = np.array(sorted(a * V + b for a, b in upper if rng.random() < 0.4), dtype=np.int64)
    return Masks(
        fingerprint_tokenizer(tokenizer),
        tuple(tokenizer.convert_ids_to_tokens(range(V))),
        special,
        rng.random(V, dtype=np.float32),
        rng.integers(0, 3, V),
        keys,
        rng.random(len(keys), dtype=np.float32),
        np.ones(len(keys), dtype=np.int64),
        unseen=unseen,
    )


def slow_masks(masks: Masks) -> SlowMasks:
    seen = [i for i in range(V) if masks.word_counts[i] > 0 or masks.unseen == "words"]
    pairs = {
        frozenset((int(key) // V, int(key) % V)): float(score)
        for key, score in zip(masks.pair_keys, masks.pair_scores, strict=True)
    }
    words = {i: float(masks.word_scores[i]) for i in seen}
    return SlowMasks(words, pairs, set(masks.special.tolist()), masks.unseen)


def tokens(tokenizer: Any, text: Any, max_length: int) -> list[int]:
    first, second = (text, None) if isinstance(text, str) else text
    return list(tokenizer(first, second, truncation=True, max_length=max_length)["input_ids"])


def slow_hits(
    slow: SlowCover, masks: Masks, tokenizer: Any, texts: list[Any]
) -> list[tuple[set[Hit], set[Hit]]]:
    """Return, for each text, all its hits and those that count."""
    rule = slow_masks(masks)
    found = []
    for text in texts:
        hits = slow.hits(text)
        found.append((hits, rule.masked(hits, tokens(tokenizer, text, slow.max_length))))
    return found


@pytest.mark.parametrize("unseen", ["keep", "drop", "words"])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_masked_bins_equal_the_slow_implementation(name: str, unseen: Unseen) -> None:
    assert_equals_slow(name, unseen, bins=10, pairs=False)


@pytest.mark.parametrize("bins", [2, 17, 65, 300])
def test_masked_bins_equal_the_slow_implementation_for_any_number_of_bins(bins: int) -> None:
    assert_equals_slow("bert", "keep", bins=bins, pairs=False)


@pytest.mark.parametrize("name", ["bert", "t5_encoder"])
def test_masked_bins_of_pairs_of_texts_equal_the_slow_implementation(name: str) -> None:
    assert_equals_slow(name, "keep", bins=7, pairs=True)


def assert_equals_slow(name: str, unseen: Unseen, bins: int, pairs: bool) -> None:
    model, tokenizer = tiny.make(name)
    train, tests = tiny.texts(8, 1, pairs=pairs), tiny.texts(8, 2, pairs=pairs)
    masks = random_masks(tokenizer, 3, unseen)
    cov = Coverage(model, tokenizer, bins=bins, max_length=14, masks=masks)
    cov.calibrate(train, cache=False)
    slow = SlowCover(model, tokenizer, bins, 14)
    slow.calibrate(train)
    found = slow_hits(slow, masks, tokenizer, tests)
    plain = set().union(*(hits for hits, _ in found))
    masked = set().union(*(hits for _, hits in found))
    assert 0 < len(masked) < len(plain)
    result = cov.update(tests).result()
    assert result.word.covered == count(plain, "hidden")
    tally = result.criteria["mncover"].tally
    assert tally.word.covered == count(masked, "hidden")
    assert tally.attention.covered == count(masked, "attention")
    for site in result.criteria["mncover"].sites:
        assert site.count.covered == count(masked, site.kind, site.layer)
        for head, heads in enumerate(site.heads):
            assert heads.covered == count(masked, site.kind, site.layer, head)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_what_each_text_adds_equals_the_slow_implementation(name: str) -> None:
    model, tokenizer = tiny.make(name)
    masks = random_masks(tokenizer, 4)
    tests = tiny.texts(10, 5)
    slow = SlowCover(model, tokenizer, 10, 10)
    slow.calibrate(TRAIN)
    covered: set[Hit] = set()
    expected = []
    for _, hits in slow_hits(slow, masks, tokenizer, tests):
        expected.append([count(hits - covered, kind) for kind in ("hidden", "attention")])
        covered |= hits
    cov = Coverage(model, tokenizer, max_length=10, masks=masks).calibrate(TRAIN, cache=False)
    cov.update(tests, gains=True)
    table = cov.data.table
    assert table.new["mncover"][0].tolist() == [row[0] for row in expected]
    assert table.new["mncover"][1].tolist() == [row[1] for row in expected]


def masked_engine(batch_size: int = 32, seed: int = 6, unseen: Unseen = "keep") -> Any:
    model, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, seed, unseen)
    cov = Coverage(model, tokenizer, max_length=10, batch_size=batch_size, masks=masks)
    return cov.calibrate(TRAIN, cache=False)._engine


ENGINES = {size: masked_engine(size) for size in (1, 3, 32)}


def fresh(batch_size: int = 32) -> Coverage:
    engine = ENGINES[batch_size]
    return Coverage._of(CoverageData(engine.identity()), engine)


some_texts = st.lists(st.sampled_from(POOL), max_size=12)


@slowly
@given(texts=some_texts, batch_size=st.sampled_from([1, 3]), seed=st.integers(0, 99))
def test_batch_size_and_order_change_nothing_and_masked_is_part_of_plain(
    texts: list[str], batch_size: int, seed: int
) -> None:
    shuffled = [texts[i] for i in np.random.default_rng(seed).permutation(len(texts))]
    a, b = fresh().update(texts), fresh(batch_size).update(shuffled, gains=True)
    np.testing.assert_array_equal(a.data.total("mncover"), b.data.total("mncover"))
    assert not (a.data.total("mncover") & ~a.data.total()).any()
    result = a.result()
    assert result.mncover is not None
    assert result.mncover <= result.cover


@slowly
@given(first=some_texts, second=some_texts)
def test_union_of_files_is_the_update_with_all_texts(first: list[str], second: list[str]) -> None:
    united = fresh().update(first, context="a") | fresh().update(second, context="b")
    whole = fresh().update(first, context="a").update(second, context="b")
    for context in united.data.contexts:
        for metric in united.data.identity.names:
            np.testing.assert_array_equal(
                united.data.map_of(context, metric), whole.data.map_of(context, metric)
            )


@slowly
@given(texts=some_texts, more=some_texts)
def test_gain_by_mncover_is_what_an_update_adds(texts: list[str], more: list[str]) -> None:
    cov = fresh().update(texts)
    before = cov.result().mncover or 0.0
    for text, gain in zip(more, cov.gain(more, metric="mncover"), strict=True):
        after = (cov | fresh().update([text])).result().mncover or 0.0
        assert after - before == pytest.approx(gain, abs=1e-12)


def test_filter_by_mncover_keeps_what_the_slow_filter_keeps() -> None:
    model, tokenizer = tiny.make("bert")
    masks = ENGINES[32].masks
    cases = [POOL[i : i + 2] for i in range(0, 20, 2)]
    threshold = 0.01
    slow = SlowCover(model, tokenizer, 10, 10)
    slow.calibrate(TRAIN)
    layout = ENGINES[32].layout
    bins = sum(layout.neurons(site) for site in layout.sites) * 10
    covered: set[Hit] = set()
    kept, gains = [], []
    for number, case in enumerate(cases):
        hits = set().union(*(h for _, h in slow_hits(slow, masks, tokenizer, case)))
        gains.append(len(hits - covered) / bins)
        if gains[-1] > threshold:
            kept.append(number)
            covered |= hits
    found = fresh().filter(cases, threshold, metric="mncover")
    assert 0 < len(kept) < len(cases)
    assert found.kept == kept
    assert found.gains == pytest.approx(gains)
    assert fresh().filter(cases, threshold).gains.sum() > found.gains.sum()


def test_with_masks_that_keep_everything_mncover_is_cover() -> None:
    model, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 1).with_thresholds(words=0.0, pairs=0.0)
    cov = Coverage(model, tokenizer, max_length=10, masks=masks).calibrate(TRAIN, cache=False)
    cov.update(POOL, gains=True)
    np.testing.assert_array_equal(cov.data.total(), cov.data.total("mncover"))
    np.testing.assert_array_equal(cov.data.table.new["cover"][0], cov.data.table.new["mncover"][0])


def test_with_masks_that_keep_nothing_only_special_tokens_and_same_words_count() -> None:
    model, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 1, "drop")
    nothing = replace(masks, word_scores=np.zeros(V, np.float32), pair_scores=masks.pair_scores * 0)
    cov = Coverage(model, tokenizer, max_length=10, masks=nothing, bins=2)
    cov.calibrate(["film good bad"], cache=False).update(["film good bad"])
    result = cov.result()
    masked = result.criteria["mncover"].tally
    # [CLS] film good bad [SEP]: two of five positions; of 25 pairs those with an end or equal.
    assert result.word.covered == 3 * 5 * 16
    assert masked.word.covered == 3 * 2 * 16
    assert result.attention.covered == 2 * 2 * 25
    assert masked.attention.covered == 2 * 2 * (25 - 6)


def test_the_torch_kernels_measure_the_same_mncover_as_the_compiled_ones() -> None:
    compiled = fresh().update(POOL, gains=True)
    masks = ENGINES[32].masks
    other = Coverage(*tiny.make("bert"), max_length=10, masks=masks, kernels="torch")
    other.calibrate(TRAIN, cache=False)
    quick = Coverage._of(CoverageData(other.engine.identity()), other.engine).update(POOL)
    other.update(POOL, gains=True)
    for cov in (other, quick):
        np.testing.assert_array_equal(compiled.data.total("mncover"), cov.data.total("mncover"))
    np.testing.assert_array_equal(
        compiled.data.table.new["mncover"], other.data.table.new["mncover"]
    )
    np.testing.assert_array_equal(
        compiled.gain(POOL[:9], metric="mncover"), other.gain(POOL[:9], metric="mncover")
    )


def test_a_data_file_gives_mncover_back(tmp_path: Path) -> None:
    cov = fresh().update(POOL, context=["a", "b"] * 22 + ["a"], gains=True)
    cov.save(tmp_path / "x.mncover")
    again = Coverage.load(tmp_path / "x.mncover")
    assert again.result() == cov.result()
    assert again.data.identity.masks == cov.data.identity.masks
    contexts = again.result().contexts
    assert contexts[0].by["mncover"].adds == contexts[0].mncover


def test_a_loaded_file_goes_on_with_its_own_masks_and_no_others(tmp_path: Path) -> None:
    fresh().update(POOL[:5]).save(tmp_path / "x.mncover")
    model, tokenizer = tiny.make("bert")
    path, masks = tmp_path / "x.mncover", ENGINES[32].masks
    again = Coverage.load(path, model, tokenizer, masks=masks).calibrate(TRAIN, cache=False)
    whole = fresh().update(POOL[:9])
    np.testing.assert_array_equal(
        again.update(POOL[5:9]).data.total("mncover"), whole.data.total("mncover")
    )
    for other in (None, random_masks(tokenizer, 99)):
        with pytest.raises(MismatchError, match="with masks, but not with these"):
            Coverage.load(path, model, tokenizer, masks=other)


def test_other_masks_are_not_united() -> None:
    other = masked_engine(seed=7)
    with pytest.raises(MismatchError, match="differ in the masks"):
        fresh() | Coverage._of(CoverageData(other.identity()), other)


def test_masks_of_another_tokenizer_are_refused() -> None:
    model, tokenizer = tiny.make("bert")
    masks = replace(random_masks(tokenizer, 1), tokenizer_fingerprint="0" * 64)
    with pytest.raises(MaskError, match="another tokenizer"):
        Coverage(model, tokenizer, max_length=10, masks=masks)


def test_mncover_without_masks_is_refused() -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN, cache=False)
    for work in (cov.gain, cov.filter):
        with pytest.raises(SettingsError, match="'mncover' is not measured, and there"):
            work(POOL[:2], metric="mncover")
        with pytest.raises(SettingsError, match="'coverage' is not measured; there is cover"):
            work(POOL[:2], metric="coverage")
    assert cov.result().mncover is None
