"""Experiment 4: training targets, the statistics of arms, and their table."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from mncover.cli import main
from mncover.engine.loading import quiet_loading
from mncover.engine.subject import Subject
from mncover.errors import ModelError, SettingsError, TextError
from mncover.paper import table4 as retraining_run
from mncover.paper.finetuning import FineTuning, accuracy, batches, fine_tune
from mncover.paper.retraining import (
    FIELDS,
    Arm,
    difference,
    estimate,
    print_retraining,
    record,
    rows_of,
    t95,
    write_retraining,
)
from mncover.paper.table4 import RetrainJob, TrainingSet, common_settings, retrain
from tests import tiny
from tests.cli.test_commands import error_of

QUICK = FineTuning(epochs=12, learning_rate=5e-3, batch_size=16, max_length=32)
SHORT = FineTuning(epochs=1, batch_size=8, max_length=16)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny BERT without a head, as a folder."""
    folder = tmp_path_factory.mktemp("base")
    torch.manual_seed(0)
    tiny.bert_encoder().save_pretrained(folder)
    tiny.tokenizer().save_pretrained(folder)
    return str(folder)


def ruled(n: int, seed: int, pairs: bool = False) -> TrainingSet:
    """Return texts whose label is decided by a word: 'good', in a pair's second text."""
    words = [word for word in tiny.WORDS if word not in ("good", "bad")]
    rng = np.random.default_rng(seed)

    def one(word: str) -> str:
        chosen = [*rng.choice(words, rng.integers(1, 6)).tolist(), word]
        return " ".join(rng.permutation(chosen).tolist())

    labels = [int(label) for label in rng.integers(0, 2, n)]
    if pairs:
        texts: list[Any] = [(one("is"), one("good" if label else "bad")) for label in labels]
    else:
        texts = [one("good" if label else "bad") for label in labels]
    return TrainingSet(tuple(texts), tuple(labels))


def weights(subject: Subject) -> dict[str, torch.Tensor]:
    return dict(subject.model.state_dict())


@pytest.mark.parametrize("pairs", [False, True])
def test_a_trivial_rule_is_learnt(base: str, pairs: bool) -> None:
    train, test = ruled(200, 0, pairs), ruled(60, 1, pairs)
    told: list[int] = []
    subject = fine_tune(base, train.texts, train.labels, 2, QUICK, 0, advance=told.append)
    assert accuracy(subject, test.texts, test.labels).all()
    assert told == [1] * (12 * 13)
    assert not subject.model.training
    assert subject.n_labels == 2


def test_accuracy_equals_a_plain_loop(base: str) -> None:
    train, test = ruled(40, 0), ruled(50, 1)
    subject = fine_tune(base, train.texts, train.labels, 2, SHORT, 0)
    found = accuracy(subject, test.texts, test.labels, batch_size=7)
    assert found.dtype == bool
    for text, label, right in zip(test.texts, test.labels, found.tolist(), strict=True):
        with torch.no_grad():
            answer = subject.model(**subject.tokenizer(text, return_tensors="pt")).logits[0]
        assert right == (int(answer.argmax()) == label)
    assert 0 < found.sum() < 50  # a loop over all or nothing would prove little


def test_the_seed_decides_everything_and_disturbs_nothing(base: str) -> None:
    train = ruled(40, 0)
    before = torch.random.get_rng_state()
    runs = [fine_tune(base, train.texts, train.labels, 2, SHORT, seed) for seed in (3, 3, 4)]
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(99)  # nor does the caller's state matter
    again = fine_tune(base, train.texts, train.labels, 2, SHORT, 3)
    one, two, other, later = (weights(subject) for subject in (*runs, again))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert all(torch.equal(one[name], later[name]) for name in one)
    assert not torch.equal(one["classifier.weight"], other["classifier.weight"])


def test_the_head_is_new_and_the_rest_is_the_bases(tmp_path: Path) -> None:
    model, tokenizer = tiny.make("bert")  # has a head, of three classes
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    train = ruled(4, 0)
    still = replace(SHORT, steps=1, learning_rate=1e-12, weight_decay=0.0)
    for n in (2, 3):
        subject = fine_tune(str(tmp_path), train.texts, train.labels, n, still, 0)
        assert subject.n_labels == n
        mine, theirs = subject.model.bert.state_dict(), model.bert.state_dict()
        for name in theirs:
            assert torch.allclose(mine[name], theirs[name], atol=1e-6)
    assert not torch.allclose(subject.model.classifier.weight, model.classifier.weight, atol=0.01)


def test_the_schedule_by_hand() -> None:
    settings = FineTuning(epochs=2, batch_size=4, warmup=0.2)
    assert settings.steps_over(17) == 10
    paces = [settings.pace(step, 10) for step in range(10)]
    assert paces == pytest.approx([1 / 3, 2 / 3, 1, *(k / 8 for k in (7, 6, 5, 4, 3, 2, 1))])
    assert FineTuning(warmup=0).pace(0, 4) == 1
    assert FineTuning(warmup=1).pace(3, 4) == pytest.approx(0.8)
    assert FineTuning(steps=7).steps_over(1000) == 7
    assert common_settings(FineTuning(epochs=2, batch_size=4), [5, 17]).steps is None
    equal = FineTuning(epochs=2, batch_size=4, equal_steps=True)
    assert common_settings(equal, [5, 17]).steps == 10
    with pytest.raises(SettingsError, match="`epochs` must be at least 1"):
        FineTuning(epochs=0)
    with pytest.raises(SettingsError, match="`warmup` from 0 to 1"):
        FineTuning(warmup=2)


def test_the_rates_of_the_steps_follow_the_schedule(
    base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = []
    step = torch.optim.AdamW.step

    def spying(self: torch.optim.AdamW, *arguments: Any) -> Any:
        rates.append([group["lr"] for group in self.param_groups])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", spying)
    train = ruled(5, 0)
    settings = FineTuning(steps=3, warmup=0.4, learning_rate=6e-4, batch_size=2, max_length=16)
    fine_tune(base, train.texts, train.labels, 2, settings, 0)
    assert np.array(rates) == pytest.approx(np.array([[3e-4] * 2, [6e-4] * 2, [3e-4] * 2]))


def test_every_epoch_has_every_text_once_in_batches_of_like_length() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 60, 1003).tolist()
    rows = list(itertools.islice(batches(lengths, 10, seed=1), 2 * 101))
    first, second = rows[:101], rows[101:]
    for epoch in (first, second):
        assert sorted(row for batch in epoch for row in batch) == list(range(1003))
        waste = [max(lengths[row] for row in batch) for batch in epoch]
        assert sum(w * len(b) for w, b in zip(waste, epoch, strict=True)) < 1.1 * sum(lengths)
        assert waste != sorted(waste)  # neither short nor long ones come first
    assert first != second
    assert first == list(itertools.islice(batches(lengths, 10, seed=1), 101))


def test_padding_does_not_change_answers(base: str) -> None:
    train, test = ruled(20, 0), ruled(9, 1)
    subject = fine_tune(base, train.texts, train.labels, 2, SHORT, 0)
    encodings = subject.encode(test.texts, 16)
    with torch.no_grad():
        together = subject.model(**subject.padded(encodings)).logits
        alone = [subject.model(**subject.padded([encoding])).logits for encoding in encodings]
    assert torch.allclose(together, torch.cat(alone), atol=1e-5)


def test_what_cannot_be_trained_is_refused(base: str, tmp_path: Path) -> None:
    def train(texts: list[str], labels: list[int], where: str = base) -> None:
        fine_tune(where, texts, labels, 2, SHORT, 0)

    with pytest.raises(TextError, match="2 texts but 1 labels"):
        train(["a", "b"], [0])
    with pytest.raises(TextError, match="text 1: the label 2 is not from 0 to 1"):
        train(["a", "b"], [0, 2])
    with pytest.raises(TextError, match="no texts to train on"):
        train([], [])
    with pytest.raises(ModelError, match="no such folder"):
        train(["a"], [0], where="./nowhere")
    model, tokenizer = tiny.make("gpt2")
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="no padding token"):
        train(["a"], [0], where=str(tmp_path))
    with pytest.raises(ModelError, match="device 'nothing' cannot be used"):
        fine_tune(base, ["a"], [0], 2, SHORT, 0, device="nothing")


@pytest.mark.parametrize(
    ("freedom", "value"),  # from printed tables
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (5, 2.5706), (9, 2.2622), (30, 2.0423)],
)
def test_students_t(freedom: int, value: float) -> None:
    assert t95(freedom) == pytest.approx(value, abs=1e-4)


def test_mean_accuracy_by_hand() -> None:
    correct = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]], dtype=bool)
    found = estimate(correct)
    assert found.mean == 0.75
    # Standard deviation 0.25, standard error 0.25 / sqrt(3).
    assert found.half == pytest.approx(4.3027 * 0.25 / math.sqrt(3), abs=1e-5)
    assert estimate(correct[:1]).half is None


def test_differences_by_hand() -> None:
    a = np.array([[1, 1, 1, 0], [1, 0, 1, 0]], dtype=bool)
    b = np.array([[1, 0, 0, 0], [1, 1, 0, 0]], dtype=bool)
    found, swapped, same = difference(a, b), difference(b, a), difference(a, a)
    assert found.mean == 0.25
    assert swapped.mean == -0.25
    assert [swapped.low, swapped.high] == pytest.approx([-found.high, -found.low], abs=0.13)
    assert [same.mean, same.low, same.high, same.not_above] == [0, 0, 0, 1]
    assert difference(a, b) == found  # seeded
    sure = difference(np.ones((2, 3), bool), np.zeros((2, 3), bool))
    assert [sure.mean, sure.low, sure.high, sure.not_above] == [1, 1, 1, 0]


@pytest.mark.parametrize("seeds", [1, 4])
def test_the_bootstrap_equals_a_slow_one(seeds: int) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((seeds, 50)) < 0.8, rng.random((seeds, 50)) < 0.7
    found = difference(a, b)
    draws = []
    for _ in range(4000):
        rows, columns = rng.integers(0, seeds, seeds), rng.integers(0, 50, 50)
        values = [int(a[row, column]) - int(b[row, column]) for row in rows for column in columns]
        draws.append(sum(values) / len(values))
    assert found.mean == pytest.approx(a.mean() - b.mean())
    assert found.low == pytest.approx(np.quantile(draws, 0.025), abs=0.02)
    assert found.high == pytest.approx(np.quantile(draws, 0.975), abs=0.02)
    assert found.not_above == pytest.approx(np.mean(np.array(draws) <= 0), abs=0.03)


def arms(perturbed: int = 80) -> list[Arm]:
    rng = np.random.default_rng(0)
    shares = {"none": 0.8, "random": 0.82, "cover": 0.85, "mncover": 0.9}
    return [
        Arm(
            name,
            0 if name == "none" else 6541,
            rng.random((3, 200)) < share,
            rng.random((3, perturbed)) < share - 0.2,
        )
        for name, share in shares.items()
    ]


def test_each_arm_is_compared_with_none_and_with_random() -> None:
    none, random, cover, _ = rows_of("sst2", arms())
    assert (none.to_none, none.to_random, none.perturbed_to_none) == (None, None, None)
    assert random.to_random is None
    assert cover.to_none == difference(cover.arm.correct, none.arm.correct)
    assert cover.to_random == difference(cover.arm.correct, random.arm.correct)
    assert cover.perturbed_to_none == difference(cover.arm.perturbed, none.arm.perturbed)
    values = record(cover)
    assert list(values) == list(FIELDS)
    assert record(rows_of("other", arms(0))[1])["perturbed_accuracy"] is None


def test_the_reports_numbers_are_in_text_csv_and_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = write_retraining("sst2", arms(), {"epochs": 3}, tmp_path)
    shown = (tmp_path / "retraining.txt").read_text()
    assert "mncover" in capsys.readouterr().out
    with (tmp_path / "retraining.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    content = json.loads((tmp_path / "retraining.json").read_text())
    assert content["settings"] == {"epochs": 3}
    for row, line, found in zip(rows, table, content["rows"], strict=True):
        accuracies = row.arm.correct.mean(axis=1)
        assert float(line["accuracy"]) == found["accuracy"] == pytest.approx(accuracies.mean())
        assert content["by_seed"][row.arm.name]["accuracy"] == accuracies.tolist()
        assert f"{100 * accuracies.mean():.2f} ± {100 * (row.accuracy.half or 0):.2f}" in shown
        if row.to_none is not None:
            assert float(line["minus_none_low"]) == row.to_none.low == found["minus_none_low"]
            assert f"[{100 * row.to_none.low:+.2f}, {100 * row.to_none.high:+.2f}]" in shown
    assert table[0]["minus_none"] == ""
    assert "90.45" in shown
    assert "so those with more texts for more steps" in " ".join(shown.split())


def test_the_table_lines_up_in_110_columns() -> None:
    wide = [
        Arm(name, texts, np.tile(row, (2, 50)), np.tile(row, (2, 50)))
        for name, texts, row in (
            ("none", 0, np.array([[True, False, False], [True, True, False]])),
            ("mncover", 1_234_567, np.array([[False, False, False], [True, False, False]])),
        )
    ]
    for some in (wide, arms()):
        file = io.StringIO()
        print_retraining(rows_of("sst2", some), {"steps": 5}, Console(file=file, width=110))
        lines = file.getvalue().splitlines()
        assert max(len(line) for line in lines) <= 110
        assert "…" not in file.getvalue()
        (head,) = (line for line in lines if line.startswith("with"))
        (first,) = (line for line in lines if line.startswith("none"))
        assert len(head.rstrip()) == len(first.rstrip())
        assert "equally many steps." in file.getvalue()


@pytest.fixture
def job(base: str, tmp_path: Path) -> RetrainJob:
    extra = {"random": ruled(8, 2), "cover": ruled(8, 3)}
    sets = (ruled(16, 0), extra, ruled(10, 4), ruled(6, 5))
    return RetrainJob("sst2", base, *sets, 2, SHORT, seeds=2, output=tmp_path, quiet=True)


class Counted:
    """`fine_tune`, which counts its calls and fails at one of them."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[tuple[int, int]] = []  # number of texts, seed
        self.fails_at = fails_at

    def __call__(self, base: str, texts: Any, labels: Any, n: int, *rest: Any) -> Subject:
        self.calls.append((len(texts), rest[1]))
        if len(self.calls) == self.fails_at:
            raise KeyboardInterrupt
        return fine_tune(base, texts, labels, n, *rest)


def counting(monkeypatch: pytest.MonkeyPatch, fails_at: int | None = None) -> Counted:
    counted = Counted(fails_at)
    monkeypatch.setattr(retraining_run, "fine_tune", counted)
    return counted


def test_retraining_goes_on_where_it_stopped(
    job: RetrainJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting(monkeypatch, fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        retrain(job)
    second = counting(monkeypatch)
    found = retrain(job)
    assert second.calls == [(24, 0), (16, 1), (24, 1), (24, 1)]
    third = counting(monkeypatch)
    again = retrain(job)
    assert third.calls == []
    for arm, same in zip(found, again, strict=True):
        assert np.array_equal(arm.correct, same.correct)
        assert np.array_equal(arm.perturbed, same.perturbed)
    assert [(arm.name, arm.texts) for arm in found] == [("none", 0), ("random", 8), ("cover", 8)]
    cover = job.train + job.extra["cover"]
    subject = fine_tune(job.base, cover.texts, cover.labels, 2, SHORT, 1)
    assert np.array_equal(found[2].correct[1], accuracy(subject, job.test.texts, job.test.labels))
    right = accuracy(subject, job.perturbed.texts, job.perturbed.labels)
    assert np.array_equal(found[2].perturbed[1], right)


def test_a_damaged_or_foreign_part_is_made_again(
    job: RetrainJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = retrain(job)
    parts = job.output / "parts"
    (parts / "sst2-none-1.json").write_text('{"key": ')
    content = json.loads((parts / "sst2-random-0.json").read_text())
    (parts / "sst2-random-0.json").write_text(json.dumps(content | {"correct": "01"}))
    (parts / "sst2-cover-0.json").write_text("[]")
    counted = counting(monkeypatch)
    again = retrain(job)
    assert counted.calls == [(24, 0), (24, 0), (16, 1)]
    assert all(np.array_equal(a.correct, b.correct) for a, b in zip(found, again, strict=True))

    flipped = TrainingSet(job.test.texts, tuple(1 - label for label in job.test.labels))
    other = retrain(replace(job, test=flipped))
    assert len(counted.calls) == 3 + 6
    assert np.array_equal(other[0].correct, ~found[0].correct)
    tighter = FineTuning(epochs=1, batch_size=8, max_length=16, equal_steps=True)
    retrain(replace(job, settings=tighter, seeds=1))
    assert len(counted.calls) == 3 + 6 + 3


def test_what_cannot_be_retrained_is_refused(job: RetrainJob) -> None:

    with pytest.raises(SettingsError, match="`seeds` must be at least 1"):
        retrain(replace(job, seeds=0))
    with pytest.raises(SettingsError, match="'none' is trained without"):
        retrain(replace(job, extra={"none": job.train}))
    with pytest.raises(SettingsError, match="cannot name an arm"):
        retrain(replace(job, extra={"a/b": job.train}))
    with pytest.raises(TextError, match="training texts and test texts"):
        retrain(replace(job, test=TrainingSet((), ())))
    with pytest.raises(TextError, match="1 texts but 0 labels"):
        TrainingSet(("a",), ())


def test_without_perturbed_texts_the_rest_is_judged(job: RetrainJob) -> None:

    found = retrain(replace(job, perturbed=TrainingSet((), ()), seeds=1))
    row = rows_of("sst2", found)[1]
    assert row.perturbed is None
    assert row.perturbed_to_none is None
    assert row.accuracy.half is None


def material(folder: Path, base: str) -> list[str]:
    """Write labelled texts, and return the options of a small table 4."""
    for name, n, seed in (("train", 30, 0), ("test", 10, 4)):
        mine = ruled(n, seed)
        rows = zip(mine.texts, mine.labels, strict=True)
        lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    files = ["--train", str(folder / "train.jsonl"), "--test", str(folder / "test.jsonl")]
    sizes = ["--texts", "20", "--seeds", "2", "--epochs", "1", "--max-length", "16"]
    search = ["--similarity", "-1", "-o", str(folder / "table4")]
    return ["reproduce", "table4", "--task", "sst2", *files, *sizes, *search, "--base", base]


def test_table_4_makes_sets_of_one_size_trains_and_goes_on(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with quiet_loading():
        tiny.bert(num_labels=2).save_pretrained(tmp_path / "model")
    tiny.tokenizer().save_pretrained(tmp_path / "model")
    arguments = [*material(tmp_path, base), "--model", str(tmp_path / "model")]
    assert main(arguments) == 0
    content = json.loads((tmp_path / "table4" / "retraining.json").read_text())
    assert [row["arm"] for row in content["rows"]] == ["none", "random", "cover"]
    none, random, cover = (row["texts_added"] for row in content["rows"])
    assert (none, random) == (0, cover)
    assert cover > 5
    sets = {
        name: json.loads((tmp_path / "table4" / "sets" / f"{name}.json").read_text())
        for name in ("random", "cover", "perturbed-test")
    }
    assert min(len(sets[name]["texts"]) for name in ("random", "cover")) == cover
    assert content["rows"][0]["perturbed_texts"] == len(sets["perturbed-test"]["texts"]) > 0
    assert sets["random"]["texts"] != sets["cover"]["texts"]

    def not_again(*arguments: Any, **options: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("mncover.paper.table4.fine_tune", not_again)
    monkeypatch.setattr("mncover.paper.table4.calibrated_engine", not_again)
    capsys.readouterr()
    assert main(arguments) == 0
    assert json.loads((tmp_path / "table4" / "retraining.json").read_text()) == content
    assert "made before" in capsys.readouterr().err


def test_table_4_refuses_texts_without_labels(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [*material(tmp_path, base), "--model", base]
    (tmp_path / "test.jsonl").write_text('{"text": "good film"}')
    assert "no text has a label" in error_of(capsys, *arguments)
