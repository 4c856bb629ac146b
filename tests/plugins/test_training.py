"""The callback of the Trainer, in real trainings of a tiny model."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from mncover import Coverage, MnCoverError, SuiteCallback
from mncover.cli.options import Config, suite_texts
from tests import tiny

SUITE = """{"suite": 1, "labels": ["LABEL_0", "LABEL_1", "LABEL_2"]}
{"test": "plain words", "capability": "Vocabulary"}
{"case": "the film was good", "label": "LABEL_1"}
{"case": "the food is awful", "label": "LABEL_0"}
{"test": "negation", "capability": "Negation"}
{"case": "not good", "label": "LABEL_0"}
"""
STEPS = 6


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "suite.jsonl"
    path.write_text(SUITE)
    return path


def make_trainer(folder: Path, **more: Any) -> Any:
    """Return a trainer of a tiny classifier with dropout."""
    model, tokenizer = tiny.make("bert")
    texts = tiny.texts(48, seed=3)
    rows: Any = [{**tokenizer(text), "labels": int("good" in text)} for text in texts]
    args = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        max_steps=STEPS,
        per_device_train_batch_size=8,
        learning_rate=0.02,
        logging_steps=2,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )
    data = {"train_dataset": rows, "eval_dataset": rows[:8], "processing_class": tokenizer}
    return transformers.Trainer(model, args, **data)


def logged(trainer: Any, name: str) -> dict[int, float]:
    return {row["step"]: row[name] for row in trainer.state.log_history if name in row}


def attached(trainer: Any, suite: Path, place: Path, **options: Any) -> SuiteCallback:
    given = {"max_length": 16, "folder": place / "runs", **options}
    callback = SuiteCallback(trainer, suite, tiny.texts(20), **given)
    trainer.add_callback(callback)
    return callback


def test_training_goes_as_without_the_callback_and_both_log(tmp_path: Path, suite: Path) -> None:
    plain, watched = make_trainer(tmp_path), make_trainer(tmp_path)
    attached(watched, suite, tmp_path, every=2)
    states = []
    for trainer in (plain, watched):
        torch.manual_seed(1)
        np.random.seed(1)
        trainer.train()
        assert trainer.model.training
        states.append((torch.get_rng_state(), np.random.random()))
    for name, weight in plain.model.state_dict().items():
        assert torch.equal(weight, watched.model.state_dict()[name]), name
    assert torch.equal(states[0][0], states[1][0])
    assert states[0][1] == states[1][1]
    assert logged(plain, "loss") == logged(watched, "loss") != {}


def test_failures_and_coverage_are_logged_as_the_data_files_have_them(
    tmp_path: Path, suite: Path
) -> None:
    trainer = make_trainer(tmp_path)
    attached(trainer, suite, tmp_path, every=3)
    trainer.train()
    for step in (3, 6):
        result = Coverage.load(tmp_path / "runs" / f"step-{step:06}.mncover").result()
        names = {context.name: context for context in result.contexts}
        assert logged(trainer, "eval_mncover_cover")[step] == result.main.tally.share_of_reachable
        rate = logged(trainer, "eval_mncover_failing_negation")[step]
        assert rate == names["negation"].failure_rate
        failing = sum(context.failing for context in names.values())
        assert logged(trainer, "eval_mncover_failing")[step] == pytest.approx(failing / 3)
    assert list(logged(trainer, "eval_mncover_new_failures")) == [6]  # the first has none before
    last = Coverage.load(tmp_path / "runs" / "step-000006.mncover", trainer.model, tiny.tokenizer())
    assert last.data.identity.calibration_texts == 20


def test_the_program_on_the_page_runs_as_it_stands(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "training.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)
    Path("train.txt").write_text("\n".join(tiny.texts(20)) + "\n")
    like = make_trainer(tmp_path)
    names = {"Trainer": transformers.Trainer, "model": like.model, "args": like.args}
    names |= {"data": like.train_dataset, "tokenizer": like.processing_class}
    exec(block.replace("every=100", "every=3"), names)
    assert len(list(Path("mncover-training").iterdir())) == 2


@pytest.mark.parametrize(("every", "steps"), [("evaluation", [4, 6]), ("epoch", [6]), (5, [5])])
def test_when_the_suite_is_run(
    tmp_path: Path, suite: Path, every: int | str, steps: list[int]
) -> None:
    trainer = make_trainer(tmp_path, eval_strategy="steps", eval_steps=4)
    attached(trainer, suite, tmp_path, every=every)
    trainer.train()
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == [f"step-{step:06}.mncover" for step in steps]


def test_training_stops_on_a_new_failure(
    tmp_path: Path, suite: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The labels are those that the untrained model gives; the training then turns it over."""
    trainer = make_trainer(tmp_path)
    with torch.inference_mode():
        asked = tiny.tokenizer()(["the film was good"], return_tensors="pt")
        first = int(trainer.model(**asked).logits.argmax())
    for row in trainer.train_dataset:
        row["labels"] = (first + 1) % 3
    lines = [json.loads(line) for line in SUITE.splitlines()]
    lines[2]["label"] = f"LABEL_{first}"
    suite.write_text("".join(json.dumps(line) + "\n" for line in (*lines[:2], lines[2])))
    before = Coverage(trainer.model, tiny.tokenizer(), max_length=16)
    before.run(suite_texts(suite, Config()), tmp_path / "old.mncover", tiny.texts(20))
    callback = attached(
        trainer, suite, tmp_path, every=1, since=tmp_path / "old.mncover", stop_on_new_failure=True
    )
    with caplog.at_level(logging.WARNING):
        trainer.train()
    assert callback.new_failures == [("plain words", ("the film was good",))]
    assert trainer.state.global_step < STEPS
    assert "1 case fails that passed before (plain words: the film was good)" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"every": 0}, "`every` must be a number of steps"),
        ({"every": "year"}, "`every` must be a number of steps"),
        ({"max_length": 500}, "`max_length` is 500"),
        ({"since": "gone.mncover"}, "gone.mncover"),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_training(
    tmp_path: Path, suite: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(MnCoverError, match=message):
        attached(make_trainer(tmp_path), suite, tmp_path, **options)


def test_a_suite_in_which_nothing_can_fail_cannot_stop_a_training(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("the film was good\n")
    with pytest.raises(MnCoverError, match="nothing in this suite can fail"):
        attached(make_trainer(tmp_path), path, tmp_path, stop_on_new_failure=True)
