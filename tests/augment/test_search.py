"""Algorithm 1: the batched search equals the one that goes attempt by attempt."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover import Coverage
from mncover.augment import resume
from mncover.augment.attempts import Drawing, steady_choice
from mncover.augment.grower import Grower, Unfinished, usable_transforms
from mncover.augment.judge import Embedder, Judge
from mncover.augment.records import Augmented, AugmentSettings
from mncover.augment.search import Search, search
from mncover.augment.transforms import Resources, Transform, transform
from mncover.augment.transforms.kinds import TextTransform
from mncover.engine.batches import START, batches_with_padding, end_of
from mncover.engine.loading import quiet_loading
from mncover.engine.subject import Subject
from mncover.errors import SettingsError
from mncover.types import BETWEEN, Text
from tests import tiny
from tests.masks.test_mncover import random_masks
from tests.slow_augment import PlainCoverage, slow_augment, slow_cosine


def _other_word(text: str, rng: random.Random) -> str | None:
    places = list(re.finditer(rf"[^\s{BETWEEN}]+", text))
    if not places:
        return None
    place = rng.choice(places)
    return text[: place.start()] + rng.choice(tiny.WORDS) + text[place.end() :]


def _longer(text: str, rng: random.Random) -> str | None:
    return f"{text} {rng.choice(tiny.WORDS)}"


def _no_film(text: str, rng: random.Random) -> str | None:
    return text.replace("film", "food", 1) if "film" in text else None


class Slowly:
    """Stands for a transformation with a model: it remembers how many texts it saw at once."""

    name = "Slowly"
    needs_model = True

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(self, text: str, rng: random.Random) -> str | None:
        return self.many([text], [rng])[0]

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        self.sizes.append(len(texts))
        return [f"{rng.choice(tiny.WORDS)} {t}" for t, rng in zip(texts, rngs, strict=True)]


def transforms() -> dict[str, Transform]:
    changes: list[Transform] = [
        TextTransform("Other", _other_word),
        TextTransform("Longer", _longer),
        TextTransform("NoFilm", _no_film),
        Slowly(),
    ]
    return {change.name: change for change in changes}


NAMES = tuple(transforms())


class Bench:
    """A tiny subject, ranges, and an encoder: another tiny model, or the subject itself."""

    def __init__(self, architecture: str = "bert", own: bool = False, **options: Any) -> None:
        self.model, self.tokenizer = tiny.make(architecture)
        self.own = own
        self.encoder = self.model if own else tiny.make("bert", 7)[0]
        self.options = options

    def coverage(self) -> Coverage:
        cov = Coverage(self.model, self.tokenizer, bins=20, max_length=16, **self.options)
        return cov.calibrate(tiny.texts(40, seed=1), cache=False)

    def embedder(self) -> Embedder:
        return Embedder(Subject(self.encoder, self.tokenizer), 16, batch_size=5)

    def fast(self, seeds: Sequence[Text], settings: AugmentSettings, ahead: int = 7) -> Augmented:
        engine = self.coverage().engine
        embedder = Embedder(engine.subject, 16) if self.own else self.embedder()
        judge = Judge(engine, embedder, seeds, settings.similarity, settings.metric)
        return search(Search(seeds, transforms(), judge, settings, ahead))

    def slow(self, seeds: Sequence[Text], settings: AugmentSettings) -> list[Any]:
        cosine = slow_cosine(self.encoder.base_model, self.tokenizer, 16)
        coverage = self.coverage()
        ranges = coverage.engine.ranges
        assert ranges is not None
        if settings.guide == "mncover":  # tests/test_mncover.py has its own slow check
            return slow_augment(coverage, cosine, seeds, transforms(), settings)
        self.model.set_attn_implementation("eager")
        plain = PlainCoverage(self.model, self.tokenizer, ranges, bins=20)
        return slow_augment(plain, cosine, seeds, transforms(), settings)


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


def same_but_for_digits(one: Augmented, other: Augmented) -> bool:
    """Compare all but `texts_run`; a cosine's last digits hang on what was embedded with it."""
    cosines = [accepted.similarity for accepted in one.accepted]
    assert cosines == pytest.approx([accepted.similarity for accepted in other.accepted], abs=1e-5)
    plain = [
        replace(
            found,
            texts_run=0,
            accepted=[replace(accepted, similarity=0.0) for accepted in found.accepted],
        )
        for found in (one, other)
    ]
    return plain[0] == plain[1]


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
    slowly = changes["Slowly"]
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
    assert drawing.chance(one).second == drawing.chance(one._replace(first="X")).second


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


def grower(bench: Bench) -> Grower:
    return Grower(bench.coverage().engine, bench.embedder(), transforms(), Resources())


def test_a_search_that_was_cut_off_goes_on_and_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resume, "INTERVAL", 0.0)
    seeds, settings = tiny.texts(20, seed=4), AugmentSettings(NAMES, similarity=0.6, max_iter=4)
    bench = Bench()
    whole = bench.fast(seeds, settings)
    partial = tmp_path / "partial"
    step, steps = Search.step, 0

    def interrupted(self: Search) -> Any:
        nonlocal steps
        steps += 1
        if steps == 15:
            raise KeyboardInterrupt
        return step(self)

    monkeypatch.setattr(Search, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        grower(bench).grow(seeds, settings, partial)
    assert "run the same command to go on" in " ".join(capsys.readouterr().err.split())
    assert partial.is_file()
    again = grower(bench).grow(seeds, settings, partial)
    assert "seeds are done" in " ".join(capsys.readouterr().err.split())
    assert same_but_for_digits(again, whole)
    assert steps == whole.tally.attempts + 1  # nothing was tried twice
    once_more = grower(bench).grow(seeds, settings, partial)  # as if its outcome had been lost
    assert same_but_for_digits(once_more, whole)
    assert steps == whole.tally.attempts + 1


def test_a_state_of_another_search_or_a_damaged_one_is_not_used(tmp_path: Path) -> None:
    seeds, settings = tiny.texts(3, seed=4), AugmentSettings(NAMES)
    run = Search(seeds, transforms(), _judge(seeds, settings), settings)
    path = tmp_path / "partial"
    Unfinished(path, {"a": 1}).save(run.state())
    assert Unfinished(path, {"a": 1}).load() is not None
    assert Unfinished(path, {"a": 2}).load() is None
    path.write_text(path.read_text()[:-20])
    assert Unfinished(path, {"a": 1}).load() is None
    path.write_text('{"key": {"a": 1}, "state": {"seed": 1}}')
    assert Unfinished(path, {"a": 1}).load() is None


def _judge(seeds: Sequence[Text], settings: AugmentSettings) -> Judge:
    bench = Bench()
    engine = bench.coverage().engine
    return Judge(engine, bench.embedder(), seeds, settings.similarity, settings.metric)


def test_a_state_comes_back_as_it_was_with_pairs_and_counts(tmp_path: Path) -> None:
    seeds = tiny.texts(8, seed=4, pairs=True)
    settings = AugmentSettings(NAMES, similarity=0.0)
    run = Search(seeds, transforms(), _judge(seeds, settings), settings)
    run.start()
    for _ in range(6):
        run.step()
    unfinished = Unfinished(tmp_path / "partial", {})
    unfinished.save(run.state())
    assert unfinished.load() == run.state()
    assert run.found.accepted


def test_a_coverage_object_augments_without_changing(tmp_path: Path) -> None:
    bench, seeds = Bench(), tiny.texts(15, seed=4, longest=7)
    with quiet_loading():
        bench.encoder.save_pretrained(tmp_path)
    bench.tokenizer.save_pretrained(tmp_path)
    names = ("RandomSwap", "WordSwapQWERTY")
    coverage = bench.coverage()
    found = coverage.augment(seeds, names, similarity=0.2, max_iter=3, seed=2, encoder=tmp_path)
    assert not coverage.result().texts
    changes = {name: transform(name) for name in names}
    settings = AugmentSettings(names, "cover", 0.2, 0.0, 3, 2)
    other = Grower(coverage.engine, bench.embedder(), changes, Resources())
    assert same_but_for_digits(found, other.grow(seeds, settings))
    assert found.accepted
    with pytest.raises(SettingsError, match="guide"):
        coverage.augment(seeds, guide="nothing")


def test_embeddings_are_normalised_means_of_the_last_hidden_states() -> None:
    bench = Bench()
    texts: list[Text] = [*tiny.texts(9, seed=2), ("good film", "bad plot"), "good film"]
    found = bench.embedder().embed(texts)
    cosine = slow_cosine(bench.encoder.base_model, bench.tokenizer, 16)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
    for i, one in enumerate(texts):
        assert found[i] @ found[0] == pytest.approx(cosine(one, texts[0]), abs=1e-5)


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


def test_the_end_of_batches_is_that_of_the_lane_that_works_longest() -> None:
    lengths = [30, 20, 20, 10]
    batches = [[0], [1, 2], [3]]  # 70 | 80, then 50 on the first lane, which is free at 70
    assert START == 40
    assert end_of(batches, lengths, 1) == 70 + 80 + 50
    assert end_of(batches, lengths, 2) == 120
    assert end_of(batches, lengths, 3) == 80
