"""Table 4: trainings are kept and resumed, sets are made once and of one size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.cli import main
from mncover.engine.loading import quiet_loading
from mncover.engine.subject import Subject
from mncover.errors import SettingsError, TextError
from mncover.paper import table4
from mncover.paper.finetuning import FineTuning, TrainingSet, accuracy, fine_tune
from mncover.paper.retraining import rows_of
from mncover.paper.table4 import Retraining, common_settings
from tests import tiny
from tests.cli.test_commands import error_of
from tests.paper.test_finetuning import SHORT, ruled


@pytest.fixture
def job(base: str, tmp_path: Path) -> Retraining:
    extra = {"random": ruled(8, 2), "cover": ruled(8, 3)}
    sets = (ruled(16, 0), extra, ruled(10, 4), ruled(6, 5))
    return Retraining("sst2", base, *sets, 2, SHORT, seeds=2, output=tmp_path, quiet=True)


class Counted:
    """`fine_tune`, which counts its calls and fails at one of them."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls: list[tuple[int, int]] = []  # number of texts, seed
        self.fails_at = fails_at

    def __call__(self, base: str, train: TrainingSet, n: int, *rest: Any) -> Subject:
        self.calls.append((len(train.texts), rest[1]))
        if len(self.calls) == self.fails_at:
            raise KeyboardInterrupt
        return fine_tune(base, train, n, *rest)


def counting(monkeypatch: pytest.MonkeyPatch, fails_at: int | None = None) -> Counted:
    counted = Counted(fails_at)
    monkeypatch.setattr(table4, "fine_tune", counted)
    return counted


def test_retraining_resumes_where_it_stopped(
    job: Retraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting(monkeypatch, fails_at=3)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    second = counting(monkeypatch)
    found = job.run()
    assert second.calls == [(24, 0), (16, 1), (24, 1), (24, 1)]
    third = counting(monkeypatch)
    again = job.run()
    assert third.calls == []
    for arm, same in zip(found, again, strict=True):
        assert np.array_equal(arm.correct, same.correct)
        assert np.array_equal(arm.perturbed, same.perturbed)
    assert [(arm.name, arm.texts) for arm in found] == [("none", 0), ("random", 8), ("cover", 8)]
    subject = fine_tune(job.base, job.train + job.extra["cover"], 2, SHORT, 1)
    assert np.array_equal(found[2].correct[1], accuracy(subject, job.test))
    assert np.array_equal(found[2].perturbed[1], accuracy(subject, job.perturbed))


def state_of(path: Path) -> Any:
    """Return what a file of a state has behind its checksum."""
    return json.loads(path.read_text().partition("\n")[2])


def test_a_damaged_or_foreign_part_is_made_again(
    job: Retraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = job.run()
    parts = job.output / "parts"
    (parts / "sst2-none-1.json").write_text('{"key": ')
    content = state_of(parts / "sst2-random-0.json")
    content["state"][0] = "01"
    (parts / "sst2-random-0.json").write_text(json.dumps(content))
    (parts / "sst2-cover-0.json").write_text("[]")
    counted = counting(monkeypatch)
    again = job.run()
    assert counted.calls == [(24, 0), (24, 0), (16, 1)]
    assert all(np.array_equal(a.correct, b.correct) for a, b in zip(found, again, strict=True))

    flipped = TrainingSet(job.test.texts, tuple(1 - label for label in job.test.labels))
    other = replace(job, test=flipped).run()
    assert len(counted.calls) == 3 + 6
    assert np.array_equal(other[0].correct, ~found[0].correct)
    tighter = FineTuning(epochs=1, batch_size=8, max_length=16, equal_steps=True)
    replace(job, settings=tighter, seeds=1).run()
    assert len(counted.calls) == 3 + 6 + 3


def test_what_cannot_be_retrained_is_refused(job: Retraining) -> None:
    with pytest.raises(SettingsError, match="`seeds` must be at least 1"):
        replace(job, seeds=0).run()
    with pytest.raises(SettingsError, match="'none' is trained without"):
        replace(job, extra={"none": job.train}).run()
    with pytest.raises(SettingsError, match="cannot name an arm"):
        replace(job, extra={"a/b": job.train}).run()
    with pytest.raises(TextError, match="training texts and test texts"):
        replace(job, test=TrainingSet((), ())).run()
    with pytest.raises(TextError, match="1 text but 0 labels"):
        TrainingSet(("a",), ())


def test_equal_steps_are_those_of_the_largest_set() -> None:
    assert common_settings(FineTuning(epochs=2, batch_size=4), [5, 17]).steps is None
    equal = FineTuning(epochs=2, batch_size=4, equal_steps=True)
    assert common_settings(equal, [5, 17]).steps == 10


def test_without_perturbed_texts_the_rest_is_judged(job: Retraining) -> None:
    found = replace(job, perturbed=TrainingSet((), ()), seeds=1).run()
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


def test_table_4_makes_sets_of_one_size_trains_and_reuses_them(
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
    folder = tmp_path / "table4" / "sets"
    sets = {
        name: state_of(folder / f"{name}.json")["state"]["texts"]
        for name in ("random", "cover", "perturbed-test")
    }
    assert min(len(sets[name]) for name in ("random", "cover")) == cover
    assert content["rows"][0]["perturbed_texts"] == len(sets["perturbed-test"]) > 0
    assert sets["random"] != sets["cover"]
    assert not list(folder.glob("*.partial"))

    def not_again(*arguments: Any, **options: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("mncover.paper.table4.fine_tune", not_again)
    monkeypatch.setattr("mncover.cli.options.calibrated", not_again)
    capsys.readouterr()
    assert main(arguments) == 0
    assert json.loads((tmp_path / "table4" / "retraining.json").read_text()) == content
    assert "made by an earlier run" in capsys.readouterr().err


def test_table_4_refuses_texts_without_labels(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [*material(tmp_path, base), "--model", base]
    (tmp_path / "test.jsonl").write_text('{"text": "good film"}')
    assert "no text has a label" in error_of(capsys, *arguments)
