"""The command line of masks: learn, show, make, sweep, use, reproduce, refuse."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.engine.loading import load_subject
from mncover.masks.controls import Controls, agreement_of_seeds
from mncover.masks.masks import Masks
from mncover.masks.wimask import fidelity_on
from mncover.suites.formats import read_texts
from mncover.types import display_percent
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, write_material

LEARN = ("--max-length", "20", "--set", "epochs=1", "--set", "word_hidden=4", "-q")


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return write_material(tmp_path)


def learn(material: Material, *more: str) -> int:
    return main(["masks", str(material.model), "--train", str(material.train), *LEARN, *more])


def test_masks_are_learnt_shown_and_used_from_run_to_report(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert learn(material) == 0
    assert capsys.readouterr().out == ""
    summary = Masks.load("masks.safetensors").summary()
    assert main(["masks", "--show", "masks.safetensors", "--top", "2"]) == 0
    shown = capsys.readouterr().out
    assert f"{summary.words_kept} of {summary.words}" in shown
    assert summary.top_words[0][0] in shown
    assert main(material.run("--masks", "masks.safetensors")) == 0
    shown = capsys.readouterr().out
    result = Coverage.load("run.mncover").result()
    assert result.mncover is not None
    assert 0 < result.mncover < result.share("cover")
    assert f"mnCover {result.share_of_reachable('mncover') * 100:.2f} %" in shown
    assert main(["json", "--texts"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["totals"]["criteria"]["mncover"]["share"] == result.mncover
    assert content["masks"]["words_kept"] == summary.words_kept
    gains = [row["gains"]["mncover"] for row in content["rows"]]
    assert sum(gains) == pytest.approx(result.mncover)
    adds = [context["criteria"]["mncover"]["adds"] for context in content["contexts"]]
    assert adds == [context.by["mncover"].adds for context in result.contexts]


def test_the_report_lists_masks_layers_and_contexts_by_mncover(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(material)
    main(material.run("--masks", "masks.safetensors", "-q"))
    assert main(["report", "--sort", "-mncover"]) == 0
    shown = capsys.readouterr().out
    result = Coverage.load("run.mncover").result()
    best = max(result.contexts, key=lambda c: c.mncover or 0)
    rows = [line for line in shown.splitlines() if line[:2] in ("a ", "b ", "c ")]
    assert rows[0].startswith(best.name)
    assert f"{best.share_of_reachable('mncover') * 100:.2f}" in rows[0]
    assert "masked" in shown
    assert "most important words" in shown


def test_fail_under_can_judge_mncover(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(material)
    main(material.run("--masks", "masks.safetensors", "-q"))
    result = Coverage.load("run.mncover").result()
    for share, ending in ((result.share_of_reachable, ""), (result.share, "-of-all")):
        between = f"{(share('cover') + share('mncover')) * 50}"
        assert main(["report", "--fail-under", between, "--metric", f"cover{ending}"]) == 0
        assert main(["report", "--fail-under", between, "--metric", f"mncover{ending}"]) == 2
        bins = "all" if ending else "the reachable"
        percent = display_percent(share("mncover"))
        assert f"mnCover {percent} % of {bins} bins is below" in capsys.readouterr().err
    between = f"{(result.share_of_reachable('cover') + result.share('cover')) * 50}"
    assert main(["report", "--fail-under", between]) == 0
    assert main(["report", "--fail-under", between, "--metric", "cover-of-all"]) == 2


def test_mncover_without_masks_is_refused_before_any_work(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    message = error_of(capsys, *material.run("--metric", "mncover"))
    assert "'mncover' is not measured, and there are no masks" in message
    assert not Path("run.mncover").exists()
    message = error_of(capsys, *material.run("--masks", "none.safetensors"))
    assert "no such file of masks" in message


def test_a_report_by_mncover_of_a_file_without_masks_is_refused_before_anything_is_printed(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    main(material.run("-q"))
    for command in ("report", "json"):
        assert "'mncover' was not measured" in error_of(capsys, command, "--metric", "mncover")
        assert main([command, "--metric", "mncover"]) == 1
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize("columns", ["80", "100"])
def test_a_report_with_masks_fits_the_screen(
    material: Material,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    columns: str,
) -> None:
    learn(material)
    main(material.run("--masks", "masks.safetensors", "-q"))
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["report"]) == 0
    shown = capsys.readouterr().out
    for heading in ("mnCover", "Only %", "Out %", "Adds little", "Failing", "Layer", "masked"):
        assert heading in shown
    assert "…" not in shown.split("Masks keep")[0]


def test_files_with_other_masks_or_none_are_not_combined(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(material)
    main(material.run("--masks", "masks.safetensors", "-q", "-o", "a.mncover"))
    main(material.run("-q", "-o", "b.mncover"))
    assert "differ in the masks" in error_of(
        capsys, "combine", "a.mncover", "b.mncover", "-o", "ab.mncover"
    )
    assert main(["combine", "a.mncover", "a.mncover", "-o", "aa.mncover"]) == 0
    assert "mnCover" in capsys.readouterr().out
    assert datafile.read(Path("aa.mncover")).identity.names == ("cover", "mncover")


def test_masks_are_made_from_words_and_from_scores(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("words.txt").write_text("good\n\n bad \n")
    assert main(["masks", str(material.model), "--words", "words.txt", "-q"]) == 0
    masks = Masks.load("masks.safetensors")
    assert {masks.words[i] for i in masks.keep_words.nonzero()[0]} == {"good", "bad", *tiny.SPECIAL}
    Path("scores.json").write_text('{"good": 0.9, "bad": 0.1}')
    options = ["masks", str(material.model), "--scores", "scores.json", "-q", "-o", "s.safetensors"]
    assert main(options) == 0
    masks = Masks.load("s.safetensors")
    assert {masks.words[i] for i in masks.keep_words.nonzero()[0]} == {"good", *tiny.SPECIAL}
    for content, message in (("[1]", "one object"), ("{", "not JSON"), ('{"a": true}', "number")):
        Path("scores.json").write_text(content)
        assert message in error_of(capsys, *options)


def test_a_sweep_writes_masks_a_table_and_a_curve(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    options = ["--sweep", "sparse_pairs=0.001,10", "--plot", "curve.png", "--test"]
    assert learn(material, *options, str(material.train)) == 0
    rows = list(csv.DictReader(Path("masks.csv").read_text().splitlines()))
    assert [row["sparse_pairs"] for row in rows] == ["0.001", "10.0"]
    for row in rows:
        assert 0 <= float(row["low"]) <= float(row["fidelity"]) <= float(row["high"]) <= 1
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")
    masks = Masks.load("masks-sparse_pairs-10.0.safetensors")
    assert masks.facts["settings"]["sparse_pairs"] == 10
    assert "curve.gif: a plot must end" in error_of(
        capsys, "masks", str(material.model), "--train", str(material.train), *LEARN,
        "--sweep", "epochs=1", "--plot", "curve.gif",
    )  # fmt: skip


def test_controls_are_measured_beside_each_value_of_a_sweep(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    options = ["--sweep", "pairs_kept=0.2,0.5", "--plot", "curve.svg", "--controls", "--test"]
    assert learn(material, *options, str(material.train)) == 0
    rows = list(csv.DictReader(Path("masks.csv").read_text().splitlines()))
    subject, texts = load_subject(str(material.model)), read_texts(material.train).texts
    for row in rows:
        masks = Masks.load(f"masks-pairs_kept-{row['pairs_kept']}.safetensors")
        found = [one.value for one in Controls(subject, texts, 20).random(masks)][:3]
        assert [float(row[name]) for name in ("pairs_alone", "random", "shuffled")] == found
    drawn = Path("curve.svg").read_text()
    assert "as many at random" in drawn
    assert "shuffled, equally frequent" in drawn


def test_controls_learn_a_second_seed_and_write_a_table(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["masks", str(material.model), "--train", str(material.train), *LEARN[:-1]]
    assert main([*command, "--controls", "--test", str(material.train)]) == 0
    shown = capsys.readouterr().out
    one, two = Masks.load("masks.safetensors"), Masks.load("masks-seed-1.safetensors")
    assert (one.facts["settings"]["seed"], two.facts["settings"]["seed"]) == (0, 1)
    rows = list(csv.DictReader(Path("masks-controls.csv").read_text().splitlines()))
    values = {row["name"]: float(row["value"]) for row in rows}
    subject, texts = load_subject(str(material.model)), read_texts(material.train).texts
    assert values["words and pairs"] == fidelity_on(subject, one, texts, 20)
    assert values["kappa of pairs"] == agreement_of_seeds(one, two).kappa
    for name, value in values.items():
        assert name.startswith("kappa") or display_percent(value) in shown
        assert name.startswith("kappa") or name in " ".join(shown.split())
    assert f"with kappa {values['kappa of pairs']:.2f}" in shown


def test_a_sentence_is_drawn_with_the_words_that_may_meet(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(material)
    command = ["masks", str(material.model), "--show", "masks.safetensors", "--sentence"]
    assert main([*command, "good bad film"]) == 0
    shown = capsys.readouterr().out
    masks = Masks.load("masks.safetensors")
    ids = tiny.tokenizer()("good bad film")["input_ids"]
    lines = shown.splitlines()
    for line, (word, kept, pairs) in zip(lines, masks.meeting(ids).rows(), strict=False):
        marks = "".join({"+": "● ", "?": "○ ", "-": "· "}[one] for one in pairs)
        assert line == f"  {marks}{word if kept else f'({word})'}"
    message = error_of(capsys, "masks", "--show", "masks.safetensors", "--sentence", "good")
    assert "needs the MODEL too" in message
    assert "give --show FILE too" in error_of(capsys, "masks", "--sentence", "good")


def test_pairs_are_shown_with_their_scores(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(material)
    assert main(["masks", "--show", "masks.safetensors", "--top", "3"]) == 0
    shown = capsys.readouterr().out
    for name, score, _ in Masks.load("masks.safetensors").extreme_pairs(3)[0]:
        [line] = [line for line in shown.splitlines() if line.startswith(name)]
        assert f"{score:.3f}" in line


def test_fidelity_on_a_test_file_is_printed(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [option for option in LEARN if option != "-q"]
    command = ["masks", str(material.model), "--train", str(material.train), *options]
    assert main([*command, "--test", str(material.suite), "--unseen", "drop"]) == 0
    shown = capsys.readouterr().out
    assert "Fidelity on" in shown
    assert "did not see do not count" in shown


def test_table_five_is_reproduced_as_text_csv_and_json(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    row = f"sst2={material.model},{material.train},{material.suite}"
    command = ["reproduce", "table5", "--row", row, "--row", row, "-o", "out"]
    assert main([*command, "--set", "epochs=1", "--set", "max_length=20"]) == 0
    shown = capsys.readouterr().out
    content = json.loads(Path("out/table5.json").read_text())
    assert [r["paper_fidelity"] for r in content["rows"]] == [99.31, 99.31]
    assert content["settings"]["epochs"] == 1
    first = content["rows"][0]
    assert first["low"] <= first["fidelity"] <= first["high"]
    assert f"{first['fidelity'] * 100:.2f}" in shown
    assert len(Path("out/table5.csv").read_text().splitlines()) == 3
    assert "99.31" in Path("out/table5.txt").read_text()
    assert len(list(Path("out").glob("*.safetensors"))) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "give a MODEL"),
        (("MODEL",), "--train FILE"),
        (("MODEL", "--train", "TRAIN", "--plot", "x.png"), "--plot draws the curve of a --sweep"),
        (("MODEL", "--train", "TRAIN", "--set", "epoch=1"), "no setting 'epoch'"),
        (("MODEL", "--train", "TRAIN", "--pairs", "all"), "must be attention or messages"),
        (("MODEL", "--train", "TRAIN", "--paper", "--pairs", "attention"), "drop --paper or"),
        (
            ("MODEL", "--train", "TRAIN", "--pairs", "messages", "--pairs-kept", "0.2"),
            "`pairs_kept` is for --pairs attention",
        ),
        (("MODEL", "--train", "TRAIN", "--sweep", "pairs=attention"), "cannot change `pairs`"),
        (
            ("MODEL", "--train", "TRAIN", "--sweep", "start_message=0.1"),
            "`start_message` is for --pairs messages",
        ),
        (("MODEL", "--train", "TRAIN", "--sweep", "epochs"), "a sweep is NAME=V1,V2"),
        (("MODEL", "--train", "TRAIN", "--unseen", "maybe"), "`unseen` is keep, drop, words"),
        (
            ("MODEL", "--words", "TRAIN", "--unseen", "keep"),
            "--unseen is for masks",
        ),
        (("MODEL", "--words", "TRAIN", "--sweep", "epochs=1"), "--sweep learns masks"),
        (("MODEL", "--train", "nowhere.txt"), "nowhere.txt"),
        (("MODEL", "--train", "TRAIN", "--controls"), "give --test FILE"),
        (("MODEL", "--words", "TRAIN", "--controls", "--test", "TRAIN"), "masks that are learnt"),
    ],
)
def test_a_wrong_command_is_refused_in_one_line(
    material: Material,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    names = {"MODEL": str(material.model), "TRAIN": str(material.train)}
    assert message in error_of(capsys, "masks", *(names.get(o, o) for o in options))


def test_interrupted_learning_says_how_to_resume(
    material: Material, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mncover.masks.learning import Learner

    step = Learner.step

    def interrupted(self: Learner, rows: list[int], number: int, done: float) -> None:
        if number == 5:
            raise KeyboardInterrupt
        step(self, rows, number, done)

    monkeypatch.setattr(Learner, "step", interrupted)
    command = ["masks", str(material.model), "--train", str(material.train), *LEARN[:-1]]
    assert main(command) == 130
    assert "run the same command to resume" in capsys.readouterr().err
    assert Path("masks.safetensors.partial").exists()
    monkeypatch.setattr(Learner, "step", step)
    assert main(command) == 0
    assert "Resuming from" in capsys.readouterr().err
    assert not Path("masks.safetensors.partial").exists()
