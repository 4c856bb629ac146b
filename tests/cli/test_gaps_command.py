"""`mncover gaps` from the command line: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.engine import gaps as engine_gaps
from mncover.engine.loading import quiet_loading
from mncover.errors import SettingsError, TextError
from mncover.report.gaps import to_json
from mncover.selection.finder import Finder
from mncover.selection.gaps import Reference, benjamini_hochberg
from mncover.selection.journal import journal_path
from mncover.suites.formats import read_records, save_suite
from tests import tiny
from tests.cli.test_commands import error_of
from tests.folders import Material, suite_of, write_material

NORMAL = tiny.texts(600, seed=8, longest=4)
STRANGE = [f"no no no no no {text} ! ! ! ! ! !" for text in tiny.texts(40, seed=4, longest=2)]


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    """Return a tiny model, a suite of short texts, and traffic of which some is strange."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    made = write_material(tmp_path)
    rows = [{"text": t, "context": "abc"[i % 3]} for i, t in enumerate(NORMAL[:400])]
    made.suite.write_text("\n".join(map(json.dumps, rows)))
    lines = [*NORMAL[400:], *STRANGE, *STRANGE[:10]]
    Path("logs.jsonl").write_text("\n".join(json.dumps({"text": t, "user": 1}) for t in lines))
    return made


def command(made: Material, *more: str) -> list[str]:
    start = ["gaps", str(made.model), str(made.suite), "--traffic", "logs.jsonl"]
    return [*start, "--max-length", "16", *more]


def mean_states(made: Material, texts: list[str]) -> np.ndarray:
    """Return the middle layer's mean states, from what the model itself returns."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(made.model)
    with quiet_loading():
        model = AutoModel.from_pretrained(made.model).eval()
    found = []
    for text in texts:
        ids = tokenizer(text, truncation=True, max_length=16, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            hidden = model(ids, output_hidden_states=True).hidden_states
        found.append(hidden[(len(hidden) - 1) // 2][0].mean(dim=0).numpy())
    return np.stack(found)


def test_gaps_flags_what_a_slow_computation_flags(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(material, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    counts = Counter([*NORMAL[400:], *STRANGE, *STRANGE[:10]])
    tests, texts = list(dict.fromkeys(NORMAL[:400])), list(counts)
    reference = Reference.of(mean_states(material, tests), np.arange(len(tests)))
    ratios = reference.place(mean_states(material, texts)).ratios
    p_values = reference.p_values(ratios)
    flagged = {t for t, f in zip(texts, benjamini_hochberg(p_values, 0.1), strict=True) if f}
    told = {one["text"]: one for one in found["flagged"]}
    assert len(flagged ^ set(told)) <= 1  # half precision may move one over the edge
    assert len(flagged & set(STRANGE)) >= 0.8 * len(set(STRANGE))
    assert all(one["count"] == counts[text] for text, one in told.items())
    slow = dict(zip(texts, ratios, strict=True))
    assert all(one["ratio"] == pytest.approx(slow[t], rel=0.02) for t, one in told.items())
    assert (found["lines"], found["texts"]) == (250, len(texts))
    share = sum(counts[t] for t, r in slow.items() if r <= reference.reach) / 250
    assert found["within_reach"]["value"] == pytest.approx(share, abs=0.01)
    assert found["within_reach"]["low"] < share < found["within_reach"]["high"]
    assert [test["name"] for test in found["tests"]] == ["a", "b", "c"]
    assert sum(test["texts"] for test in found["tests"]) == len(tests) == found["compared"]
    assert sum(g["lines"] for g in found["groups"]) == found["flagged_lines"]


def test_gaps_prints_and_writes_a_page_and_texts_to_label(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--train", str(material.train), "--html", "gaps.html", "-o", "flagged.jsonl"]
    assert main(command(material, *more)) == 0
    out = capsys.readouterr().out
    assert "% of the traffic is within reach of a test (95 % interval" in out
    assert "within reach of training texts" in out
    rows = [json.loads(line) for line in Path("flagged.jsonl").read_text().splitlines()]
    assert {row["label"] for row in rows} == {""}
    assert f"flagged.jsonl: {len(rows)} texts" in out
    page = Path("gaps.html").read_text()
    assert "Content-Security-Policy" in page
    assert "http" not in page.replace("http-equiv", "")
    spots = json.loads(page.split('id="spot-data">')[1].split("</script>")[0])
    assert sum(kind == 3 for kind in spots["kind"]) == len(rows)
    assert (
        len(spots["x"])
        == len(spots["text"])
        == len(set(NORMAL[:400])) + len({*NORMAL[400:], *STRANGE})
    )
    # The file can be run as it is.
    run = ["run", str(material.model), "flagged.jsonl", "--train", str(material.train), "-q"]
    assert main([*run, "--max-length", "16"]) == 0
    assert main(command(material, "-o", "flagged.csv", "-q")) == 0
    with Path("flagged.csv").open(encoding="utf-8-sig") as file:
        assert [row["text"] for row in csv.DictReader(file)] == [row["text"] for row in rows]
    assert capsys.readouterr().out == ""


def test_next_accepts_the_flagged_texts(material: Material) -> None:
    assert main(command(material, "--train", str(material.train), "-o", "flagged.mncover")) == 0
    assert main(["next", "flagged.mncover", "-n", "5", "-o", "batch.jsonl", "-q"]) == 0
    batch = [json.loads(line) for line in Path("batch.jsonl").read_text().splitlines()]
    assert len(batch) == 5
    assert Finder(Path("flagged.mncover")).has_inside


@pytest.mark.parametrize("name", ["flagged.jsonl", "flagged.csv", "flagged.tsv.gz"])
def test_next_accepts_the_file_to_label_in_every_format(
    material: Material, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert main(command(material, "-o", name)) == 0
    assert f"mncover next {name} --review" in " ".join(capsys.readouterr().out.split())
    assert main(["next", name, "-n", "5", "-o", "batch.jsonl"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert f"{name} has no signatures" in said
    assert "repeat `mncover gaps` with --train" in said
    batch = [json.loads(line) for line in Path("batch.jsonl").read_text().splitlines()]
    finder = Finder(Path(name))
    assert len(batch) == 5
    records = list(read_records(Path(name)))
    assert len(finder.numbers) == len(records)
    for item in batch:
        _, record = records[item["case"]]
        assert (item["text"], item["answer"]) == (record["text"], record["answer"])
        assert item["confidence"] == pytest.approx(float(record["confidence"]), abs=1e-4)
    batch[0]["verdict"] = "wrong"
    Path("told.jsonl").write_text("\n".join(map(json.dumps, batch)))
    assert main(["next", name, "-n", "5", "--verdicts", "told.jsonl", "-q"]) == 0
    assert len(Finder(name, journal=journal_path(Path(name))).journal.verdicts) == 1
    assert main(["found", name, "-q"]) == 0
    # Verdicts are about this file, so it is not written again.
    assert "holds verdicts on" in error_of(capsys, *command(material, "-o", name))


def test_labels_that_were_filled_in_judge_a_batch_of_flagged_texts(material: Material) -> None:
    assert main(command(material, "-o", "flagged.jsonl", "-q")) == 0
    rows = [json.loads(line) for line in Path("flagged.jsonl").read_text().splitlines()]
    for row in rows:
        row["label"] = "LABEL_1"
    Path("flagged.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["next", "flagged.jsonl", "-n", "100", "-q"]) == 0
    assert main(["next", "flagged.jsonl", "-n", "100", "--judge", "-q"]) == 0
    verdicts = Finder("flagged.jsonl", journal="flagged.verdicts.jsonl").journal.verdicts
    wrong = {case for case, verdict in verdicts.items() if verdict == "wrong"}
    assert wrong == {case for case, row in enumerate(rows) if row["answer"] != "LABEL_1"}
    assert len(verdicts) == len(rows)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (['{"text": "good"}'], "line 1: no field 'probabilities': give a data file, or the texts"),
        (['{"text": "good", "probabilities": 3}'], "must be a JSON object of classes and shares"),
        (['{"text": "good", "probabilities": {"a": 7}}'], "must be a JSON object of classes"),
        (
            [
                '{"text": "good", "probabilities": {"a": 0.4, "b": 0.6}}',
                '{"text": "bad", "probabilities": {"a": 0.4, "c": 0.6}}',
            ],
            "different classes",
        ),
        (
            ['{"text": "good", "label": "x", "probabilities": {"a": 0.4, "b": 0.6}}'],
            "'x' is none of",
        ),
    ],
)
def test_next_refuses_files_that_gaps_did_not_write(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: list[str],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.jsonl").write_text("\n".join(lines))
    assert why in error_of(capsys, "next", "texts.jsonl")


def test_the_method_finds_what_the_command_finds(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(material, "--train", str(material.train), "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    cov = Coverage(str(material.model), max_length=16, progress=False)
    found = cov.gaps(str(material.suite), Path("logs.jsonl"), str(material.train))
    same = json.loads(json.dumps(to_json(found)))
    assert same == told
    lines = [{"said": t} for t in [*NORMAL[400:], *STRANGE, *STRANGE[:10]]]
    handed = cov.gaps(material.suite, lines, text="said", space=cov)
    assert handed.space.startswith("encoder")
    assert (handed.traffic, handed.lines, handed.texts) == ("", found.lines, found.texts)
    with pytest.raises(SettingsError, match="between 0 and 1"):
        cov.gaps(material.suite, ["a text"], fdr=10)
    with pytest.raises(TextError, match="no text was given"):
        cov.gaps(material.suite, [])


def test_the_gate_and_a_sample(material: Material, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(material, "--fail-under", "99", "-q")) == 2
    assert "is within reach of a test, less than 99 %." in capsys.readouterr().err
    assert main(command(material, "--fail-under", "10", "-q")) == 0
    assert main(command(material, "--limit", "100", "--seed", "3")) == 0
    assert "250 lines, 100 of them drawn at random" in capsys.readouterr().out


def test_a_suite_of_cases_other_layers_and_an_encoder(
    material: Material, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_suite(suite_of(), material.suite)
    monkeypatch.setattr(engine_gaps, "MOST_TESTS", 40)  # some of each test
    for space, name in (("0", "layer 0,"), ("last", "layer 2,"), (str(material.model), "encoder")):
        assert main(command(material, "--space", space, "--json")) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["space"].startswith(name)
        assert (found["compared"], found["suite_texts"] > 40) == (40, True)
        assert [test["texts"] for test in found["tests"]] == pytest.approx([12, 14, 14], abs=1)


def test_traffic_without_a_gap_flags_nothing(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("logs.jsonl").write_text("\n".join(json.dumps(text) for text in NORMAL[400:]))
    assert main(command(material, "-o", "none.jsonl")) == 0
    out = capsys.readouterr().out
    assert "No text is flagged at a rate of false alarms of 10 %." in out
    assert not Path("none.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (("--fdr", "x"), "--fdr must be a percentage such as 10%, got 'x'."),
        (("--fdr", "100%"), "--fdr must be a percentage"),
        (("--space", "7"), "there is no space '7': give middle, last, a layer from 0 to 2"),
        (("--space", "nowhere"), "there is no space 'nowhere'"),
        (("--html", "page.txt"), "a page must end with .html"),
        (("-o", "x.parquet"), "flagged texts go to a file that ends with .jsonl, .csv, .tsv"),
        (("-o", "x.mncover"), "a data file needs the training texts: give --train FILE."),
        (("--text", "words"), "no field 'words'"),
        (("--traffic", "empty.jsonl"), "empty.jsonl: the file holds no text."),
        (("--traffic", "numbers.jsonl"), "numbers.jsonl, line 2: field 'text' must be text"),
        (("--traffic", "nofield.jsonl"), "nofield.jsonl, line 1: which field is the text?"),
        (("--traffic", "suite2.jsonl"), "this is a test suite; traffic is a file of texts."),
        (("--traffic", "missing.jsonl"), "missing.jsonl"),
    ],
)
def test_bad_input_gets_one_clear_line(
    material: Material,
    capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...],
    expected: str,
) -> None:
    Path("empty.jsonl").write_text("")
    Path("numbers.jsonl").write_text('{"text": "a"}\n{"text": 7}\n')
    Path("nofield.jsonl").write_text('{"user": "a"}\n')
    save_suite(suite_of(), Path("suite2.jsonl"))
    assert expected in error_of(capsys, *command(material, *more))


def test_labels_and_verdicts_are_never_overwritten(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("flagged.jsonl").write_text('{"text": "a", "label": "LABEL_1"}\n')
    line = error_of(capsys, *command(material, "-o", "flagged.jsonl"))
    assert "flagged.jsonl holds 1 label that would be lost" in line
    Path("flagged.verdicts.jsonl").write_text("{}\n")
    more = ("--train", str(material.train), "-o", "flagged.mncover")
    assert "holds verdicts on flagged.mncover" in error_of(capsys, *command(material, *more))


def test_pairs_and_a_model_without_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("bert", "gpt2"):
        made = write_material(tmp_path, name)
        pairs = zip(tiny.texts(300, 1, 3), tiny.texts(300, 2, 3), strict=True)
        records = [json.dumps({"premise": a, "hypothesis": b}) for a, b in pairs]
        strange = [json.dumps({"premise": t, "hypothesis": t}) for t in STRANGE]
        made.suite.write_text("\n".join(records[:200]))
        Path("logs.jsonl").write_text("\n".join(records[200:] + strange))
        assert main(command(made, "--json", "--max-length", "40")) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["flagged"]
        assert all("pair" in one for one in found["flagged"])
        assert all(bool(one["answer"]) == (name == "bert") for one in found["flagged"])
        assert all(bool(group["answers"]) == (name == "bert") for group in found["groups"])
