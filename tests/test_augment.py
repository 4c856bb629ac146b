"""Algorithm 1: the batched search equals the one that goes attempt by attempt."""

from __future__ import annotations

import gzip
import json
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
from mncover.augmentation import resume
from mncover.augmentation.attempts import Drawing, steady_choice
from mncover.augmentation.grower import Grower, usable_transforms
from mncover.augmentation.judge import Judge
from mncover.augmentation.records import Accepted, Augmented
from mncover.augmentation.resume import Unfinished
from mncover.augmentation.search import Search, search
from mncover.augmentation.settings import AugmentSettings
from mncover.augmentation.testing import Yield, suite_of, yield_of
from mncover.batches import START, batches_with_padding
from mncover.cli import main
from mncover.embedding import Embedder
from mncover.errors import SettingsError
from mncover.intervals import wilson
from mncover.loading import quiet_loading
from mncover.report.augmentreport import conclusion
from mncover.subject import Subject
from mncover.suites.jsonl import read_suite
from mncover.texts import BETWEEN, Text
from mncover.transforms import Resources, Transform, transform
from mncover.transforms.kinds import TextTransform
from tests import tiny
from tests.folders import Material, write_material
from tests.slow_augment import PlainCoverage, slow_augment, slow_cosine
from tests.test_cli import error_of
from tests.test_mncover import random_masks


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
    """A tiny subject, ranges, and an encoder that is another tiny model."""

    def __init__(self, architecture: str = "bert", **options: Any) -> None:
        self.model, self.tokenizer = tiny.make(architecture)
        self.encoder, _ = tiny.make("bert", 7)
        self.options = options

    def coverage(self) -> Coverage:
        cov = Coverage(self.model, self.tokenizer, bins=20, max_length=16, **self.options)
        return cov.calibrate(tiny.texts(40, seed=1), cache=False)

    def embedder(self) -> Embedder:
        return Embedder(Subject(self.encoder, self.tokenizer), 16, batch_size=5)

    def fast(self, seeds: Sequence[Text], settings: AugmentSettings, ahead: int = 7) -> Augmented:
        engine = self.coverage()._require_engine()
        judge = Judge(engine, self.embedder(), seeds, settings.similarity, settings.metric)
        return search(Search(seeds, transforms(), judge, settings, ahead))

    def slow(self, seeds: Sequence[Text], settings: AugmentSettings) -> list[Any]:
        cosine = slow_cosine(self.encoder.base_model, self.tokenizer, 16)
        coverage = self.coverage()
        ranges = coverage._require_engine().ranges
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
    engine = bench.coverage()._require_engine()
    judge = Judge(engine, bench.embedder(), seeds, 0.0, "cover")
    search(Search(seeds, changes, judge, settings, 32))
    assert isinstance(slowly, Slowly)
    assert np.mean(slowly.sizes) > 3


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
    return Grower(bench.coverage()._require_engine(), bench.embedder(), transforms(), Resources())


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
    engine = bench.coverage()._require_engine()
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
    other = Grower(coverage._require_engine(), bench.embedder(), changes, Resources())
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


def test_a_failure_is_a_text_that_gets_another_class_than_its_seed() -> None:
    accepted = [
        Accepted(0, "a", ("A",), 1.0, 0.1),
        Accepted(1, "b", ("A",), 1.0, 0.1),
        Accepted(2, "c", ("B", "A"), 1.0, 0.1),  # seed 0, the second time
    ]
    found = Augmented(4, accepted)
    found.tally.similar = 8
    one = yield_of("guided", found, [1, 0, 0], [1, 1])
    assert (one.failures, one.seeds, one.model_calls, one.per_thousand) == (2, 2, 8, 250.0)
    assert one.low < 250 < one.high
    suite = suite_of(accepted, ["x", "y"])
    assert [(t.name, t.kind, len(t.cases)) for t in suite.tests] == [
        ("A", "INV", 2),
        ("B", "INV", 1),
    ]
    assert suite["B"].cases[0].texts == ("x", "c")


def test_the_conclusion_follows_from_the_intervals() -> None:
    def found(failures: int) -> Yield:
        low, high = wilson(failures, 100)
        return Yield("", 100, 100, failures, failures, 10 * failures, 1000 * low, 1000 * high)

    assert "more failures than" in conclusion([found(60), found(10)])
    assert "fewer failures than" in conclusion([found(10), found(60)])
    assert "overlap" in conclusion([found(12), found(10)])


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


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return write_material(tmp_path)


def command(material: Material, output: str, *more: str) -> list[str]:
    plain = ["--transform", "RandomSwap", "--transform", "WordSwapQWERTY"]
    options = ["--train", str(material.train), "--max-length", "16", "--similarity", "0.3"]
    seeds = str(material.suite)
    return ["augment", str(material.model), seeds, "-o", output, *options, *plain, *more]


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_augment_writes_texts_with_their_seeds_labels_and_an_account(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(material, "new.jsonl")) == 0
    printed = capsys.readouterr().out
    rows, seeds = rows_of(Path("new.jsonl")), rows_of(material.suite)
    assert rows
    for row in rows:
        assert row["label"] == seeds[row["seed"]]["label"]
        assert row["text"] != seeds[row["seed"]]["text"]
        assert set(row["transforms"]) <= {"RandomSwap", "WordSwapQWERTY"}
        assert row["similarity"] >= 0.3
        assert row["gain"] > 0
    report = json.loads(Path("new.jsonl.report.json").read_text())
    assert report["accepted"] == len(rows)
    assert f"{len(rows)} new texts from 30 seeds" in printed
    assert not Path("new.jsonl.partial").exists()


def test_seeds_can_be_written_too_in_their_own_fields_and_compressed(material: Material) -> None:
    pairs = Path("pairs.tsv")
    lines = [f"{a}\t{b}\t1" for a, b in tiny.texts(10, seed=2, pairs=True)]
    pairs.write_text("\n".join(["premise\thypothesis\tlabel", *lines]))
    arguments = command(material, "new.jsonl.gz", "--include-seeds", "--rounds", "2")
    arguments[2] = str(pairs)
    assert main(arguments) == 0
    with gzip.open("new.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert [f"{r['premise']}\t{r['hypothesis']}\t{r['label']}" for r in rows[:10]] == lines
    assert len(rows) > 20  # each seed was changed twice, or nearly
    assert {row["seed"] for row in rows[10:]} <= set(range(10))


def test_tests_are_a_suite_that_run_takes_and_failures_stand_beside_unguided_ones(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(material, "new.jsonl", "--target", "tests")) == 0
    printed = capsys.readouterr().out
    guided, unguided = json.loads(Path("new.jsonl.report.json").read_text())["failures"]
    assert guided["model_calls"] == unguided["model_calls"] > 0
    assert "unguided" in printed
    assert not Path("new.jsonl.partial").exists()
    suite = read_suite(Path("new.jsonl"))
    assert suite.cases == guided["texts"]
    run = ["run", str(material.model), "new.jsonl", "--train", str(material.train)]
    assert main([*run, "--max-length", "16"]) == 0
    assert main(["json", "run.mncover", "-o", "run.json"]) == 0
    tests = json.loads(Path("run.json").read_text())["tests"]
    assert sum(test["failing"] for test in tests) == guided["failures"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--guide", "mncover"], "masks"),
        (["--guide", "x"], "guide must be"),
        (["--target", "x"], "--target"),
        (["--target", "tests", "--include-seeds"], "include-seeds"),
        (["--transform", "Nothing"], "Nothing"),
        (["-o", "new.csv"], "name it .jsonl"),
        (["--similarity", "2"], "--similarity"),
        (["--similarity", "1", "--max-iter", "1"], "no text was accepted"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    material: Material, capsys: pytest.CaptureFixture[str], more: list[str], words: str
) -> None:
    assert words in error_of(capsys, *command(material, "new.jsonl", *more))
    assert not Path("new.jsonl").exists()


def test_transform_lists_and_tries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transform", "list"]) == 0
    assert "WordSwapQWERTY" in capsys.readouterr().out
    assert main(["transform", "WordSwapExtend", "It isn't bad."]) == 0
    assert capsys.readouterr().out == "It is not bad.\n"
    assert main(["transform", "WordSwapExtend", "Fine.", "--pair", "It isn't bad."]) == 0
    assert capsys.readouterr().out == "Fine.\tIt is not bad.\n"
    assert main(["transform", "WordSwapExtend", "Fine."]) == 0
    assert "nothing to change" in capsys.readouterr().err
    assert main(["transform", "WordSwapExtend"]) == 1
    assert "give a text" in capsys.readouterr().err


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
