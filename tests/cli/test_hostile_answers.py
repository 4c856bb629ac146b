"""Answers of a hostile language model, and suites of other tools: shown, never obeyed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mncover.cli import main
from mncover.data import datafile
from mncover.data.members import ANSWERS
from mncover.engine.loading import quiet_loading
from tests import causal, tiny
from tests.cli.test_hostile import COMMAND, CONTROL, PAYLOADS, check_page, check_table, harmless
from tests.folders import Material
from tests.fuzz.mutations import with_members

# Neither tokenizers nor YAML hold half a character.
WORDS = [payload for payload in PAYLOADS if not any("\ud800" <= one <= "\udfff" for one in payload)]


def expectations() -> list[Any]:
    """Return expectations of every kind that holds text, each with a payload in it."""
    kinds = ("equals", "contains", "contains-all", "refuses")
    made: list[Any] = [
        {"expect": kinds[number % 4], "values": [payload]}
        for number, payload in enumerate(PAYLOADS)
    ]
    made += [{"expect": "regex", "values": ["\x1b\\[2J|::error::|\u202e"]}, "same"]
    made += [{"expect": "json", "schema": {"title": "\x1b[2J", "type": "object"}}]
    return made


def write_suite(path: Path) -> None:
    lines: list[dict[str, Any]] = [{"suite": 1}]
    for number, expected in enumerate(expectations()):
        payload = PAYLOADS[number % len(PAYLOADS)]
        lines.append({"test": f"{payload}{number}", "expectation": expected, "capability": payload})
        if expected == "same":
            lines[-1]["type"] = "INV"
        lines.append({"case": [f"{payload} good", f"film {payload}"], "label": payload})
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """A language model whose words are payloads, and a suite that expects payloads."""
    place = tmp_path_factory.mktemp("answers")
    model, tokenizer = causal.make("llama")
    with quiet_loading():
        model.save_pretrained(place / "model")
    tokenizer.save_pretrained(place / "model")
    path = place / "model" / "tokenizer.json"
    content = json.loads(path.read_text())
    words = content["model"]["vocab"]
    plain = [word for word in words if word.isalpha() and word not in ("good", "film")]
    for number, word in enumerate(plain):
        words[f"{WORDS[number % len(WORDS)]}{'_' * (number // len(WORDS))}"] = words.pop(word)
    path.write_text(json.dumps(content))
    write_suite(place / "suite.jsonl")
    (place / "train.txt").write_text("\n".join(tiny.texts(20, seed=9)))
    (place / "out").mkdir()
    return Material(place, place / "model", place / "suite.jsonl", place / "train.txt")


ASKED = ("--max-length", "30", "--template", "\x1b[2J ::error::x {text} \u202e so", "-o")


def commands(made: Material) -> list[list[str]]:
    model, suite, train = map(str, (made.model, made.suite, made.train))
    run = ["run", model, suite, "--train", train]
    answers, report = "out/\x1b[2Ja.mncover", ["report", "out/\x1b[2Ja.mncover"]
    kinds = ("text", "markdown", "github", "json", "junit")
    return [
        [*run, "--generate", "6", "--stop", "\x1b[2J", *ASKED, answers],
        *([*report, "--failures", "99", "--format", kind] for kind in kinds),
        [*report, "--junit", "out/\x1b[2Ja.xml"],
        [*report, "--since", answers],
        ["json", answers, "--texts", "-o", "out/::a.json"],
        ["html", answers, "-o", "out/\x1b[2Jpages"],
        ["debug", "data", answers],
        ["select", answers, "--budget", "9", "-o", "out/::few.jsonl"],
        ["next", answers, "-n", "9"],
        ["next", answers, "-n", "50", "-o", "out/\x1b[2Jb.csv"],
        ["found", answers],
        ["suite", "show", suite],
        ["criteria"],
        ["criteria", "--json"],
        ["suite", "convert", "foo.yaml", "-o", "out/::foo.jsonl"],
        ["suite", "show", "out/::foo.jsonl"],
        ["suite", "convert", "samples.jsonl", "-o", "out/\x1b[2Js.jsonl"],
        ["suite", "show", "out/\x1b[2Js.jsonl"],
    ]


# Words that the model knows tell them apart: its tokenizer may make nothing of payloads.
CHOICES = (
    *("\x1b[2J good", "::error:: film", "=1+1 good good", "\u202e film film", "@all good film"),
    "<img src=x onerror=alert(1)> film good",
)


def classified(made: Material) -> list[list[str]]:
    """Return commands on texts that a model classifies by choices of hostile names."""
    run = ["run", str(made.model), "texts.jsonl", "--train", str(made.train)]
    kinds = ("text", "markdown", "github", "json", "junit")
    return [
        [*run, "--choices", ",".join(CHOICES), *ASKED, "out/\u202ec.mncover"],
        *(["report", "out/\u202ec.mncover", "--failures", "9", "--format", k] for k in kinds),
        ["html", "out/\u202ec.mncover", "-o", "out/::choices"],
        ["debug", "data", "out/\u202ec.mncover"],
        ["next", "out/\u202ec.mncover", "-n", "9", "-o", "out/::c.csv"],
    ]


def write_foreign() -> None:
    """Write files of other tools in which whatever can be named is named by a payload."""
    asserts = [{"type": "contains", "value": payload} for payload in WORDS]
    tests = [
        {"description": p, "vars": {"q": p}, "assert": [one, {"type": p, "value": p}]}
        for p, one in zip(WORDS, asserts, strict=True)
    ]
    Path("foo.yaml").write_text(json.dumps({"prompts": ["{{q}}?"], "tests": tests}))
    rows = [
        {"doc_id": p, "arguments": [[p, {"until": []}]], "target": p or "x"} for p in PAYLOADS
    ] + [{"doc_id": 1, "arguments": [["q", "\x1b[2J"], ["q", "::error::x"]], "target": "\x1b[2J"}]
    Path("samples.jsonl").write_text("\n".join(map(json.dumps, rows)))
    texts = [
        {"text": f"{payload} good", "context": payload, "label": CHOICES[number % len(CHOICES)]}
        for number, payload in enumerate(PAYLOADS)
    ]
    Path("texts.jsonl").write_text("\n".join(map(json.dumps, texts)))


@pytest.mark.parametrize("build", ["", "GITHUB_ACTIONS", "TF_BUILD"])
def test_nothing_that_a_model_answers_is_obeyed(
    build: str,
    asked: Material,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(asked.folder)
    if build:
        monkeypatch.setenv(build, "true")
    write_foreign()
    for arguments in commands(asked) if build != "TF_BUILD" else classified(asked):
        error = harmless(arguments, capsys, build=bool(build))
        refused = arguments[0] in ("next", "found") and "a.mncover" in arguments[1]
        assert refused or not error, (arguments, error)
        if "--generate" in arguments:
            answer_with_payloads(Path(arguments[-1]))
    check_files(Path("out"))


def answer_with_payloads(path: Path) -> None:
    """Let every payload be an answer in a data file; a model may say anything."""
    assert CONTROL.search(" ".join(datafile.read(path).table.answers))  # it did by itself

    def change(members: dict[str, bytes]) -> str:
        said = [PAYLOADS[n % len(PAYLOADS)] for n, _ in enumerate(json.loads(members[name]))]
        members[name] = json.dumps(said).encode("ascii")
        return name

    name = ANSWERS
    path.write_bytes(with_members(path.read_bytes(), change, random.Random(0)))
    assert set(datafile.read(path).table.answers) == set(PAYLOADS)


def check_files(folder: Path) -> None:
    """Nothing that was written acts where it is opened."""
    for path in folder.rglob("*.csv"):
        check_table(path)
    for path in (*folder.rglob("*.html"), *folder.rglob("*.xml")):
        check_page(path.read_text(encoding="utf-8"))
    for path in folder.rglob("*.xml"):
        assert ElementTree.parse(path).getroot().tag == "testsuites"


def test_a_warning_about_an_answer_is_one_harmless_line(
    asked: Material, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(asked.folder)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    bad = {"test": "t", "expectation": {"expect": "regex", "values": ["(\x1b[2J\n::error::x"]}}
    Path("bad.jsonl").write_text("\n".join(map(json.dumps, [{"suite": 1}, bad, {"case": "a"}])))
    assert main(["suite", "show", "bad.jsonl"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert not CONTROL.search(said)
    assert not COMMAND.search(said)
