"""Language models at the command line: choices are classes in every command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.engine.loading import quiet_loading
from tests import causal, tiny
from tests.cli.test_commands import error_of
from tests.folders import Material

ASKED = ["--max-length", "30", "--template", r"it was {text} .\n so it is", "--choices"]


@pytest.fixture
def material(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Material:
    """A tiny causal language model, a file of labelled texts, and training texts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    model, tokenizer = causal.make("llama")
    with quiet_loading():
        model.save_pretrained("model")
    tokenizer.save_pretrained("model")
    rows = [
        {"text": text, "label": ["very good", "bad"][i % 2], "context": "ab"[i % 2]}
        for i, text in enumerate(tiny.texts(30, seed=8))
    ]
    Path("suite.jsonl").write_text("\n".join(map(json.dumps, rows)))
    Path("train.txt").write_text("\n".join(tiny.texts(20, seed=9)))
    return Material(tmp_path, Path("model"), Path("suite.jsonl"), Path("train.txt"))


def run(material: Material, *more: str) -> list[str]:
    model, suite, train = map(str, (material.model, material.suite, material.train))
    return ["run", model, suite, "--train", train, *more]


def test_choices_are_classes_from_run_to_next(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(run(material, *ASKED, "very good,bad", "--context", "context")) == 0
    assert "by the choices very good, bad" in capsys.readouterr().out
    cov = Coverage.load("run.mncover")
    assert cov.data.identity.labels == ("very good", "bad")
    table = cov.data.table
    wrong = int((table["label"] != table["prediction"]).sum())
    assert 0 < wrong < 30
    assert main(["report", "run.mncover", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(context["failing"] for context in found["contexts"]) == wrong
    assert found["prompting"]["choices"] == ["very good", "bad"]
    for command in (
        ["report", "run.mncover", "--failures", "3"],
        ["report", "run.mncover", "--format", "junit"],
        ["html", "run.mncover", "-o", "pages"],
        ["select", "run.mncover", "--by", "entropy", "--budget", "20%", "-o", "few.jsonl"],
        ["next", "run.mncover", "-n", "5", "--judge"],
        ["found", "run.mncover"],
        ["debug", "data", "run.mncover"],
    ):
        assert main(command) == 0, command
    assert "very good" in capsys.readouterr().out


def test_settings_in_pyproject_hold_for_the_command_line(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ['choices = "very good,bad"', 'template = "{text} ,"', "chat = true"]
    Path("pyproject.toml").write_text("\n".join(["[tool.mncover]", *lines, "max_length = 30"]))
    assert main(run(material, "-q", "--normalise", "length")) == 0
    prompting = Coverage.load("run.mncover").data.identity.prompting
    assert (prompting.chat, prompting.normalise) == (True, "length")
    model, suite, train = map(str, (material.model, material.suite, material.train))
    again = ["compare", model, suite, train, "--train", train, "--draws", "2", "-q"]
    assert main(again) == 0
    Path("pyproject.toml").write_text('[tool.mncover]\nchat = "yes"')
    assert error_of(capsys, *run(material)).endswith("'chat' must be true or false, got 'yes'.")


def test_files_of_other_choices_are_not_combined(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(run(material, "-q", *ASKED, "very good,bad", "-o", "one.mncover")) == 0
    assert main(run(material, "-q", *ASKED, "very good,not good", "--no-label")) == 0
    one, other = (Coverage.load(name).data for name in ("one.mncover", "run.mncover"))
    np.testing.assert_array_equal(one.total(), other.total())  # the inside is that of the prompts
    said = error_of(capsys, "combine", "one.mncover", "run.mncover", "-o", "both.mncover")
    assert "they differ in" in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--choices", "good,"], "a choice is empty"),
        (["--choices", "good,bad", "--template", "so"], "has no {text}"),
        (["--normalise", "length"], "`normalise` is for `choices`"),
    ],
)
def test_mistakes_are_one_line(
    material: Material, capsys: pytest.CaptureFixture[str], options: list[str], says: str
) -> None:
    assert says in error_of(capsys, *run(material, *options))


def save(tests: list[dict[str, object]], texts: list[str]) -> None:
    """Write a suite of tests with the same texts, each a case; variants for `same`."""
    lines: list[dict[str, object]] = [{"suite": 1}]
    for test in tests:
        lines.append(test)
        if test["expectation"] == "same":
            lines.append({"case": texts})
        else:
            lines += [{"case": text, "label": "good"} for text in texts]
    Path("suite.jsonl").write_text("\n".join(map(json.dumps, lines)))


ANSWERING = ["--max-length", "20", "--generate", "5", "--template", "{text} ? so"]


def test_answers_are_kept_judged_and_shown(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = [*tiny.texts(8, seed=3, longest=4), "good <b>bad</b>"]
    save(
        [
            {"test": "never", "expectation": {"expect": "contains", "values": ["<i>zebra</i>"]}},
            {"test": "short", "expectation": {"expect": "shorter", "words": 100}},
            {"test": "label", "expectation": {"expect": "contains", "not": True}},
            {"test": "alike", "type": "INV", "expectation": "same"},
            {"test": "mine", "expectation": "judge"},
        ],
        texts,
    )
    Path("my_checks.py").write_text(
        "def long(text, answer, label):\n    assert label == 'good'\n    return len(answer) > 3\n"
    )
    assert main(run(material, "-q", *ANSWERING, "--judge", "my_checks.py:long")) == 0
    data = Coverage.load("run.mncover").data
    said = dict(zip(data.table.texts, data.table.answers, strict=True))
    fails = {c.name: (c.failing, c.judged) for c in Coverage.load("run.mncover").result().contexts}
    assert fails["never"] == (9, 9)
    assert fails["short"] == (0, 9)
    assert fails["label"] == (sum("good" in said[text] for text in texts), 9)
    alike = {said[text].casefold().strip(" .,!?") for text in texts}
    assert fails["alike"] == (int(len(alike) > 1), 1)
    assert fails["mine"] == (sum(len(said[text]) <= 3 for text in texts), 9)
    capsys.readouterr()
    answer = said[texts[0]]
    for options in (["--failures", "9"], ["--format", "junit"], ["--format", "markdown"]):
        assert main(["report", "run.mncover", *options, "--failures", "9"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert answer in shown
        assert "zebra" in shown
    assert main(["report", "run.mncover", "--format", "json"]) == 0
    assert main(["json", "run.mncover", "--texts", "-o", "all.json"]) == 0
    rows = json.loads(Path("all.json").read_text())["rows"]
    assert rows[0]["answer"] == answer
    assert main(["html", "run.mncover", "-o", "pages"]) == 0
    page = next(Path("pages").rglob("0001.html")).read_text()
    assert "&lt;i&gt;zebra&lt;/i&gt;" in page
    assert "<i>zebra" not in page
    assert answer in page
    frame = Coverage.load("run.mncover").result().cases()
    assert answer in str(frame.to_pandas()["predictions"][0])


def test_a_file_of_prompts_is_judged_by_the_function(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my_rules.py").write_text("def odd(text, answer, label):\n    return 1 / len(label)\n")
    assert main(run(material, "-q", *ANSWERING, "--judge", "my_rules:odd")) == 0
    assert Coverage.load("run.mncover").result().judged == 30
    for name, says in (
        ("my_rules", "MODULE:NAME"),
        ("my_rules:x", "no function"),
        ("no:x", "No m"),
    ):
        assert says in error_of(capsys, *run(material, *ANSWERING, "--judge", name))
    Path("my_fault.py").write_text("def odd(text, answer, label):\n    return 1 / 0\n")
    said = error_of(capsys, *run(material, "-o", "x", *ANSWERING, "--judge", "my_fault:odd"))
    assert "ZeroDivisionError" in said
    assert "give `generate`" in error_of(capsys, *run(material, "--judge", "my_rules:odd"))


def test_suites_of_classes_and_of_answers_are_not_mixed_up(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    save([{"test": "a", "expectation": {"expect": "contains", "values": ["x"]}}], ["good"])
    assert "give `generate`" in error_of(capsys, *run(material, *ASKED, "good,bad"))
    save([{"test": "a", "expectation": "judge"}], ["good"])
    assert "give `judge`" in error_of(capsys, *run(material, *ANSWERING))
    save([{"test": "a", "expectation": "label"}], ["good"])
    assert "give `choices`" in error_of(capsys, *run(material, *ANSWERING))


def test_a_plan_and_next_say_what_they_lack(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    save([{"test": "a", "expectation": {"expect": "shorter", "words": 3}}], tiny.texts(20))
    assert main(run(material, "-q", *ANSWERING)) == 0
    assert "answered in words" in error_of(
        capsys, "plan", "run.mncover", "--budget", "50%", "-o", "p.jsonl"
    )
    assert main(["select", "run.mncover", "--budget", "20%", "-o", "few.jsonl"]) == 0
    assert main(["report", "run.mncover", "--since", "run.mncover"]) == 0
