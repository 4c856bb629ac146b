"""Files about language models: suites of other tools, expectations, runs with answers."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from mncover.cli import main
from mncover.engine.loading import quiet_loading
from mncover.errors import MnCoverError
from mncover.report.describe import suite_table
from mncover.suites.formats import converted, load_suite
from tests import causal, tiny
from tests.fuzz import samples
from tests.fuzz.mutations import damaged_bytes, damaged_value, with_members

PROMPTFOO = """
description: Capitals
prompts:
  - "What is the capital of {{country}}?"
  - {raw: "{{ country }}: capital?", label: short}
  - file://prompt.txt
providers: [openai:gpt-4o]
defaultTest:
  vars: {tone: kind}
  assert:
    - {type: not-icontains, value: sorry}
tests:
  - description: France
    vars: {country: France, year: 1998, share: 0.5}
    assert:
      - {type: equals, value: "Paris"}
  - vars: {country: [Italy, Spain], more: [1, 2, 3]}
    assert:
      - {type: icontains-any, value: [rome, madrid]}
      - type: assert-set
        assert: [{type: contains, value: 12}, {type: llm-rubric, value: polite}]
  - vars: {country: Peru}
    assert:
      - {type: is-json, value: {type: object, required: [a]}}
      - {type: regex, value: "^\\\\{.*{{country}}"}
      - {type: starts-with, value: "{"}
      - {type: word-count, value: {max: 5}}
"""
SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/b"}, "c": {"pattern": "^[A-Z]", "minLength": 1}},
    "$defs": {"b": {"type": "integer", "multipleOf": 2, "maximum": 9}},
    "additionalProperties": False,
}
EXPECTED: list[dict[str, Any]] = [
    {"expect": "equals", "values": ["good"]},
    {"expect": "contains", "ignore_case": True},
    {"expect": "contains-all", "values": ["a", "b"], "not": True},
    {"expect": "regex", "values": [r"\bgo+d\b", "(?i)film|plot"]},
    {"expect": "json", "schema": SCHEMA},
    {"expect": "number", "values": ["12", "1e3"], "tolerance": 0.5},
    {"expect": "shorter", "words": 3, "characters": 20},
    {"expect": "refuses", "values": ["I can't"]},
    {"expect": "same"},
    {"expect": "all", "of": [{"expect": "json"}, {"expect": "shorter", "words": 9}]},
]
# What a stranger would write to make judging slow, large, or reach out.
PATTERNS = (
    *(r"(a|aa)+$", r"(\w+\s?)*$!", r"(?R)", r"((?1))", r"(?<a>(?&a))", r"(?x)(?P >a)(?P<a>.)"),
    *(
        r"(.*)*\1x",
        r"(?:a?){999}a{999}",
        "(?i)" + "ß" * 996,
        "(" * 900,
        r"(?:(?:.{0,999}){0,999})*!",
    ),
    *(r"(?:\w+){e}", r"\p{", r"[\p{L}--[a-z]]*$x", r"(?<=.*)x", r"(?=(\w+))\1\1", "|" * 999, ""),
)
LAUGHS = {f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(30)} | {"d30": {}}
SCHEMAS: tuple[Any, ...] = (
    *({"$ref": "#"}, {"$ref": "http://127.0.0.1:9/x"}, {"$ref": "file:///etc/passwd"}, True, {}),
    *({"$ref": "#/$defs/d0", "$defs": LAUGHS}, {"items": {"$schema": "x", "pattern": "(a|aa)+$"}}),
    *({"patternProperties": {"(a+)+$": {}}}, {"unevaluatedProperties": {"$ref": "#"}}),
    *({"multipleOf": 1e-308}, {"$dynamicRef": "#x"}, {"$id": "http://[", "$ref": "b"}),
    *({"pattern": pattern} for pattern in PATTERNS),
)
ANSWERS = (
    *("a" * 5000 + "b", "ab " * 5000, "[" * 400 + "]" * 400, "1e999", "9" * 5000, '{"a": 4}'),
    *("[" + ",".join(f'{{"a":{i}}}' for i in range(3000)) + "]", "\x1b[2J", "\ud800", "", "NaN"),
)
YAML = (
    *(b"!!int ''", b"!!bool x", b"!!timestamp x", b"!!python/name:os.system", b"&a [*a]", b"*a"),
    *(b"0x" + b"f" * 9000, b"1" + b":59" * 3000, b"2001-99-99", b"<<: {a: b}", b"? ", b"- " * 500),
    *(b"{{" * 50, b"{% x %}", b"!!binary x", b"!!set {a}", b"%YAML 9.9", b"---\n", b"|+\n", b"\t"),
    *(
        b"[" + b"1," * 99 + b"]",
        b"~",
        b".inf",
        b"0o7",
        b"1_0",
        b"!x y",
        b"!!float ''",
        b"!!omap [a]",
    ),
)


# How they are damaged.


def damaged_yaml(content: bytes, rng: random.Random) -> bytes:
    """Put what YAML has in store in the place of a value, or anywhere."""
    values = [word for word in content.split() if word.strip(b"{}[],:-")]
    if rng.random() < 0.7:
        return content.replace(rng.choice(values), rng.choice(YAML), 1)
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.choice(YAML) + content[at:]


def hostile(expectation: Any, rng: random.Random) -> Any:
    """Return an expectation that asks for much, or that is damaged."""
    match rng.randrange(4):
        case 0:
            return {"expect": "regex", "values": [rng.choice(PATTERNS)], "ignore_case": True}
        case 1:
            return {"expect": "json", "schema": rng.choice(SCHEMAS)}
        case 2:
            return {"expect": "all", "of": [hostile(expectation, rng), expectation]}
        case _:
            return damaged_value(expectation, rng)


def damaged_expectation(content: bytes, rng: random.Random) -> bytes:
    """Damage what a test of a suite expects."""
    rows = [json.loads(line) for line in content.splitlines()]
    one = rng.choice([row for row in rows if "test" in row])
    one["expectation"] = hostile(one["expectation"], rng)
    return "\n".join(map(json.dumps, rows)).encode("ascii")


def damaged_judging(content: bytes, rng: random.Random) -> bytes:
    """Damage what a run expects of answers, what was answered, or how it was asked."""

    def damage(members: dict[str, bytes]) -> str:
        name = rng.choice(("suites.json", "suites.json", "answers.json", "header.json"))
        value = json.loads(members[name])
        if name == "suites.json":
            test = rng.choice(next(iter(value.values()))["tests"])
            test["expectation"] = hostile(test["expectation"], rng)
        elif name == "answers.json":
            value = [rng.choice(ANSWERS) for _ in value]
            value = value if rng.random() < 0.8 else damaged_value(value, rng)
        else:
            value["prompting"] = damaged_value(value["prompting"], rng)
        members[name] = json.dumps(value).encode("ascii")
        return name

    return with_members(content, damage, rng)


def damaged_criteria(content: bytes, rng: random.Random) -> bytes:
    """Damage what a data file says of its criteria."""

    def damage(members: dict[str, bytes]) -> str:
        value = json.loads(members["header.json"])
        part = rng.choice(("criteria", "criteria", "criteria", "settings", "layout"))
        if rng.random() < 0.3:
            names = ("../x", "", "a" * 5000, "tknc:", "tknc:" + "9" * 400, "\x1b[2J", "Cover", "é")
            rng.choice(value["criteria"])["name"] = rng.choice(names)
        else:
            value[part] = damaged_value(value[part], rng)
        members["header.json"] = json.dumps(value).encode("ascii")
        return "header.json"

    return with_members(content, damage, rng)


# How sound ones are made.


def write_promptfoo(path: Path) -> None:
    path.write_text(PROMPTFOO)


def write_samples(path: Path) -> None:
    """Write what the lm-evaluation-harness logs: answers, choices, several filters."""
    until = {"until": ["\n"], "max_gen_toks": 32}
    rows: list[dict[str, Any]] = [
        {"arguments": {"gen_args_0": {"arg_0": "2 + 2?", "arg_1": until}}, "target": "#### 1,004"},
        {"arguments": [["Capital of Italy?", until]], "target": ["Rome", "Roma"]},
        {"arguments": [["Is it?", " yes"], ["Is it?", " no"]], "target": 1},
        {"arguments": [["Was it?", " yes"], ["Was it?", " no"]], "target": "0"},
        {"arguments": [["Which?", " yes"], ["Which?", " no"]], "target": "no"},
    ]
    about = {"filter": "none", "doc": {"q": "x"}, "resps": [["4"]], "metrics": ["acc"]}
    lines = [json.dumps({"doc_id": n, **about, **row}) for n, row in enumerate(rows)]
    path.write_text("\n".join(lines))


def write_prompts(path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "Capital of Italy?", "answer": "Rome"},
        {"input": [{"role": "user", "content": "2 + 2?"}], "ideal": ["4", "four"]},
        {"question": "How many?", "target": 12.5},
        {"instruction": "Sum it up.", "output": "Well. #### -3.5"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))


def write_expectations(path: Path) -> None:
    """Write a suite with every expectation of answers."""
    lines: list[dict[str, Any]] = [{"suite": 1, "labels": []}]
    texts = iter(tiny.texts(200, seed=5, longest=4))
    for number, expected in enumerate(EXPECTED):
        lines.append({"test": f"t{number}", "type": "MFT", "expectation": expected})
        size = 2 if expected["expect"] == "same" else 1
        lines += [{"case": [next(texts) for _ in range(size)], "label": "good"} for _ in range(3)]
    path.write_text("\n".join(map(json.dumps, lines)))


@cache
def asked() -> Path:
    """Return a folder with a tiny language model and the data files of its answers and choices."""
    made = samples.material()
    folder = made.folder / "asked"
    folder.mkdir()
    model, tokenizer = causal.make("llama")
    with quiet_loading():
        model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    write_expectations(folder / "suite.jsonl")
    run = ["run", str(folder / "model"), str(folder / "suite.jsonl"), "--train", str(made.train)]
    run += ["--max-length", "20", "--template", "{text} ? so", "-q"]
    assert main([*run, "--generate", "5", "-o", str(folder / "answers.mncover")]) == 0
    return folder


def write_answers(path: Path) -> None:
    shutil.copy(asked() / "answers.mncover", path)


def write_criteria(path: Path) -> None:
    """Write a data file of several criteria, whose positions are shared."""
    names = "kmnc,nbc,snac,nc:0.5,tknc:2,pairs"
    more = ["--criteria", names, "--positions", "any", "-q", "-o", str(path)]
    assert main(samples.material().run(*more)) == 0


def as_format_3(path: Path) -> None:
    """Write a data file of format 3: one of format 4 without layouts and positions."""
    shutil.copy(samples.material().folder / "run.mncover", path)

    def older(members: dict[str, bytes]) -> str:
        header = json.loads(members["header.json"])
        for name in ("positions", "sites"):
            del header["settings"][name]
        for criterion in header["criteria"]:
            del criterion["layout"]
        members["header.json"] = json.dumps(header | {"version": 3}).encode("ascii")
        return "header.json"

    path.write_bytes(with_members(path.read_bytes(), older, random.Random(0)))


# What reads them.

Command = Callable[..., None]


def foreign(path: Path, command: Command) -> None:
    """Convert a file of another tool."""
    found, _ = converted(path)
    Console(file=io.StringIO()).print(suite_table(found))
    if zlib.crc32(path.read_bytes()) % 20 == 0:
        again = path.parent / "converted.jsonl"
        command("suite", "convert", str(path), "-o", str(again))
        load_suite(again)


def prompting(path: Path) -> None:
    """Ask as a project says, with texts that look like fields."""
    from mncover.cli.options import load_config

    asked = load_config(path.parent).prompting
    for text in ("{text}", "{0} {text.__class__} %s \\n", "\ud800", ("{text_b}", "{text_a}")):
        with contextlib.suppress(MnCoverError):
            asked.filled(text)


def damaged_settings(content: bytes, rng: random.Random) -> bytes:
    """Put fields that a template does not have into one, or damage bytes."""
    fields = (b"{text.__class__}", b"{text!r}", b"{text:>999999999}", b"{}", b"{0}", b"{{text}}")
    if rng.random() < 0.5:
        return content.replace(b"{text}", rng.choice(fields) * rng.choice((1, 2, 99)))
    return damaged_bytes(content, rng)


ASKING = """
[tool.mncover]
choices = "very good,bad, neither"
template = "Review: {text}\\\\nSentiment:"
chat = true
normalise = "length"
max_length = 64
"""
