"""Algorithm 1: the batched search equals the one that goes attempt by attempt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.augment.grower import Grower, usable_transforms
from mncover.augment.judge import Embedder, Judge
from mncover.augment.records import Augmented, AugmentSettings, Drawing, steady_choice
from mncover.augment.search import Search, search
from mncover.augment.transforms import PAPER, Resources, transform
from mncover.engine.loading import quiet_loading
from mncover.errors import SettingsError
from mncover.types import Text
from tests import tiny
from tests.augment.bench import NAMES, Bench, Slowly, same_but_for_digits, transforms
from tests.masks.test_mncover import random_masks


def found_by(found: Augmented) -> list[Any]:
    return [(one.seed, one.text, one.transforms) for one in found.accepted]


@pytest.mark.parametrize("architecture", ["bert", "distilbert", "gpt2"])
@pytest.mark.parametrize("pairs", [False, True], ids=["texts", "pairs"])
def test_the_batched_search_equals_the_one_attempt_by_attempt(
    architecture: str, pairs: bool
) -> None:
    bench = Bench(architecture)
    seeds = tiny.texts(25, seed=3, longest=6, pairs=pairs)
    settings = AugmentSettings(NAMES, similarity=0.9, threshold=1e-3, max_iter=2, seed=5)
    slow = bench.slow(seeds, settings)
    assert found_by(bench.fast(seeds, settings)) == slow
    assert 5 < len(slow) < 25  # some seeds find nothing, some do


@pytest.mark.parametrize("threshold", [0.0, 1e-3])
@pytest.mark.parametrize("own", [False, True])
def test_kernels_that_take_all_texts_at_once_find_the_same(threshold: float, own: bool) -> None:
    seeds = tiny.texts(25, seed=3, longest=6)
    settings = AugmentSettings(NAMES, "cover", 0.9, threshold, max_iter=2, seed=5)
    found = [Bench(own=own, kernels=name).fast(seeds, settings) for name in ("cpu", "torch")]
    assert len(found[0].accepted) > 5
    assert same_but_for_digits(*found)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "mpnet"])
@pytest.mark.parametrize("threshold", [0.0, 1e-3])
def test_with_the_subject_as_its_encoder_the_outcome_is_that_of_the_slow_search(
    architecture: str, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[int] = []
    embed = Embedder.embed

    def counted(self: Embedder, texts: Sequence[Text]) -> Any:
        embedded.append(len(texts))
        return embed(self, texts)

    monkeypatch.setattr(Embedder, "embed", counted)
    bench = Bench(architecture, own=True)
    seeds = tiny.texts(25, seed=3, longest=6)
    settings = AugmentSettings(NAMES, "cover", 0.9, threshold, max_iter=3, seed=5)
    slow = bench.slow(seeds, settings)
    assert found_by(bench.fast(seeds, settings)) == slow
    assert 2 < len(slow) < 25
    # One pass gives both where texts can be packed; embedded was one text, to see that it does.
    assert (embedded == [1]) == (architecture != "mpnet")


@pytest.mark.parametrize("similarity", [-1.0, 0.5, 0.9])
@pytest.mark.parametrize("threshold", [0.0, 2e-3])
@pytest.mark.parametrize("guide", ["cover", "none"])
def test_whatever_is_asked_the_outcome_is_that_of_the_slow_search(
    similarity: float, threshold: float, guide: Any
) -> None:
    bench = Bench()
    seeds = tiny.texts(20, seed=4, longest=7)
    settings = AugmentSettings(NAMES, guide, similarity, threshold, max_iter=3, seed=1)
    assert found_by(bench.fast(seeds, settings)) == bench.slow(seeds, settings)


@pytest.mark.parametrize("ahead", [1, 3, 64])
def test_how_far_the_search_looks_ahead_changes_nothing(ahead: int) -> None:
    bench = Bench()
    seeds = tiny.texts(15, seed=6, longest=7)
    settings = AugmentSettings(NAMES, similarity=0.7, max_iter=4)
    assert same_but_for_digits(bench.fast(seeds, settings, ahead), bench.fast(seeds, settings, 7))


def test_the_gains_and_the_coverage_are_those_of_a_coverage_object() -> None:
    bench = Bench()
    seeds = tiny.texts(12, seed=2, longest=6)
    found = bench.fast(seeds, AugmentSettings(NAMES, similarity=0.0, max_iter=3))
    cov = bench.coverage().update(seeds)
    assert found.before == cov.result().cover
    for one in found.accepted:
        assert one.gain == cov.gain([one.text])[0]
        cov.update([one.text])
    assert found.after == cov.result().cover
    assert found.accepted


def test_with_masks_the_search_can_be_guided_by_mncover() -> None:
    bench = Bench()
    bench.options = {"masks": random_masks(bench.tokenizer, 2)}
    seeds = tiny.texts(15, seed=3, longest=6)
    settings = AugmentSettings(NAMES, "mncover", 0.5, 2e-3, 4)
    slow = bench.slow(seeds, settings)
    assert found_by(bench.fast(seeds, settings)) == slow
    assert slow != bench.slow(seeds, replace(settings, guide="cover"))


def test_no_accepted_text_is_a_seed_or_was_accepted_before() -> None:
    seeds = tiny.texts(30, seed=9, longest=2)  # short ones are met again soon
    found = Bench().fast(seeds, AugmentSettings(NAMES, similarity=-1.0, max_iter=6))
    texts = [one.text for one in found.accepted]
    assert len(set(texts)) == len(texts)
    assert not set(texts) & set(seeds)


def test_every_accepted_text_is_similar_and_the_account_adds_up() -> None:
    settings = AugmentSettings(NAMES, similarity=0.7, max_iter=5)
    found = Bench().fast(tiny.texts(20, seed=5), settings)
    tally = found.tally
    assert all(one.similarity >= 0.7 for one in found.accepted)
    assert len(found.accepted) <= tally.similar <= tally.made <= tally.attempts
    assert tally.drawn.total() == 2 * tally.attempts
    assert tally.changed.total() <= tally.drawn.total()
    assert tally.changed["NoFilm"] < tally.drawn["NoFilm"]
    together = found.by_combination()
    assert sum(earning.accepted for earning in together) == len(found.accepted)
    for earning in found.by_transform(NAMES):
        with_it = [one for one in found.accepted if earning.transforms[0] in one.transforms]
        assert earning.accepted == len(with_it)
        if with_it:
            assert earning.mean_gain == pytest.approx(np.mean([one.gain for one in with_it]))
    assert any(earning.accepted for earning in found.by_transform(NAMES))


def test_models_of_transformations_see_many_texts_at_once() -> None:
    changes = transforms()
    slowly = changes["Slowly"].change
    bench, seeds = Bench(), tiny.texts(40, seed=5)
    settings = AugmentSettings(NAMES, similarity=0.0)
    engine = bench.coverage().engine
    judge = Judge(engine, bench.embedder(), seeds, 0.0, "cover")
    search(Search(seeds, changes, judge, settings, 32))
    assert isinstance(slowly, Slowly)
    assert np.mean(slowly.sizes) > 2


def test_the_first_transformation_comes_from_the_queue_as_soon_as_there_is_one() -> None:
    drawing = Drawing(tuple("ABCDEFGH"), 0)
    assert {drawing.attempt(i, 0, []).first for i in range(200)} == set("ABCDEFGH")
    assert {drawing.attempt(i, 0, ["X", "Y", "X"]).first for i in range(200)} == {"X", "Y"}
    one = drawing.attempt(3, 1, [])
    assert drawing.second(one)[0] == drawing.second(one._replace(first="X"))[0]


def test_a_steady_choice_is_even_and_seldom_changes_when_the_list_grows() -> None:
    n, more, draws = 12, 3, 6000
    before = [steady_choice(n, random.Random(i)) for i in range(draws)]
    after = [steady_choice(n + more, random.Random(i)) for i in range(draws)]
    counts = np.bincount(before, minlength=n)
    assert counts == pytest.approx(draws / n, rel=0.2)
    assert len(counts) == n
    changed = [b for a, b in zip(before, after, strict=True) if a != b]
    assert len(changed) / draws == pytest.approx(more / (n + more), rel=0.1)
    assert set(changed) == {12, 13, 14}  # only what is new takes another's place


def test_a_coverage_object_augments_without_changing(tmp_path: Path) -> None:
    bench, seeds = Bench(), tiny.texts(15, seed=4, longest=7)
    with quiet_loading():
        bench.encoder.save_pretrained(tmp_path)
    bench.tokenizer.save_pretrained(tmp_path)
    names = ("RandomSwap", "WordSwapQWERTY")
    coverage = bench.coverage()
    found = coverage.augment(seeds, names, similarity=0.2, max_iter=3, seed=2, encoder=tmp_path)
    assert not coverage.result().n_texts
    changes = {name: transform(name) for name in names}
    settings = AugmentSettings(names, "cover", 0.2, 0.0, 3, 2)
    other = Grower(coverage.engine, bench.embedder(), changes, Resources())
    assert same_but_for_digits(found, other.grow(seeds, settings))
    assert found.accepted
    with pytest.raises(SettingsError, match="guide"):
        coverage.augment(seeds, guide="nothing")


@pytest.mark.parametrize(
    ("name", "value"),
    [("similarity", 1.5), ("threshold", -1.0), ("max_iter", 0), ("guide", "x"), ("transforms", ())],
)
def test_senseless_settings_are_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=name[:9]):
        AugmentSettings(**{"transforms": NAMES, name: value})


def test_what_was_asked_for_and_cannot_be_used_is_refused_but_left_out_otherwise() -> None:
    nowhere = Resources(masked_lm=None)
    with pytest.raises(SettingsError, match="masked"):
        usable_transforms(["WordSwapMaskedLM"], nowhere)
    usable, missing = usable_transforms([], nowhere)
    assert "WordSwapMaskedLM" in missing
    assert "WordSwapQWERTY" in usable


def test_only_the_papers_transformations_are_drawn_unless_others_are_named() -> None:
    usable, missing = usable_transforms([], Resources())
    assert {*usable, *missing} == set(PAPER)
    assert list(usable_transforms(["typos", "negation", "typos"], Resources())[0]) == [
        "typos",
        "negation",
    ]
