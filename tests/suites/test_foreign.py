"""Suites of other tools: what maps, what is named, and what strangers may not do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mncover.cli import main
from mncover.errors import LimitError, TextError
from mncover.suites.answers import AnswerExpectation
from mncover.suites.expectations import Expectation
from mncover.suites.formats import converted, load_suite
from tests.cli.test_commands import error_of

PROMPTFOO = """
description: Capitals
prompts:
  - "What is the capital of {{country}}?"
  - "{{ country }}: capital?"
  - file://prompt.txt
  - "{% if country %}x{% endif %}"
providers: [openai:gpt-4o]
defaultTest:
  assert:
    - type: not-icontains
      value: sorry
tests:
  - description: France
    vars: {country: France}
    assert:
      - {type: equals, value: "Paris"}
  - vars: {country: [Italy, Spain]}
    assert:
      - {type: icontains-any, value: [rome, madrid]}
      - {type: llm-rubric, value: is polite}
      - {type: javascript, value: "output.length < 3"}
  - vars: {country: Peru}
    assert:
      - {type: is-json, value: {type: object}}
      - {type: regex, value: "^\\\\{.*{{country}}"}
      - {type: starts-with, value: "{"}
      - {type: word-count, value: {max: 5}}
  - file://more.yaml
scenarios: []
"""


def write(path: Path, content: str) -> Path:
    path.write_text(content)
    return path


def test_promptfoo_maps_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, output = write(tmp_path / "promptfooconfig.yaml", PROMPTFOO), tmp_path / "suite.jsonl"
    assert main(["suite", "convert", str(path), "-o", str(output)]) == 0
    shown = capsys.readouterr().out
    for what in (
        "assertions of type 'llm-rubric' (2)",
        "assertions of type 'javascript' (2)",
        "prompts in other files (1)",
        "prompts of several messages, or with logic (1)",
        "tests in other files (1)",
        "'scenarios' (1)",
    ):
        assert what in shown
    suite = load_suite(output)
    assert [(test.name, len(test.cases)) for test in suite.tests] == [
        ("not contains and equals", 2),
        ("not contains and contains", 4),
        ("not contains and json and regex and shorter", 2),
    ]
    assert suite.tests[0].description == "France"
    texts = [case.texts[0] for case in suite.tests[1].cases]
    assert texts == [
        *("What is the capital of Italy?", "Italy: capital?"),
        *("What is the capital of Spain?", "Spain: capital?"),
    ]
    last = suite.tests[2].expectation
    assert isinstance(last, AnswerExpectation)
    assert [one.expect for one in last.of] == ["contains", "json", "regex", "regex", "shorter"]
    assert last.of[2].values == (r"^\{.*Peru",)
    assert last.of[4].words == 6


def test_values_of_single_assertions_become_labels(tmp_path: Path) -> None:
    tests = [
        {"vars": {"q": f"2 + {i}?"}, "assert": [{"type": "contains", "value": i + 2}]}
        for i in range(3)
    ]
    suite, left_out = converted(write(tmp_path / "a.yml", json.dumps({"tests": tests})))
    assert not left_out
    [test] = suite.tests
    assert [case.label for case in test.cases] == ["2", "3", "4"]
    assert test.expectation == AnswerExpectation("contains")


ONE = "tests: [{vars: {a: b}, assert: [{type: TYPE, value: VALUE}]}]"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("a: &x [1]\nb: *x", "aliases"),
        ("tests: 3", "must be a list"),
        ("just text", "no promptfoo file"),
        ("tests: [", "not YAML"),
        ("!!python/object/apply:os.system ['true']", "not YAML"),
        ("tests: [{vars: {a: b}}]", "nothing in it maps"),
        ("tests: [!!int '']", "not YAML"),
        ("tests: [!!bool x]", "not YAML"),
        ("tests: [!!timestamp x]", "not YAML"),
        ("- " * 101 + "a", "more than 100 levels"),
        ("[" * 10**6, "more than 100 levels"),
        (ONE.replace("VALUE", "'('").replace("TYPE", "regex"), "a.yaml, test 1: the pattern"),
    ],
)
def test_files_that_are_not_read(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(TextError, match=says):
        converted(write(tmp_path / "a.yaml", content))


MANY: list[object] = [*range(20)]
CONTAINS = [{"type": "contains", "value": "a"}]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            {"tests": [{"vars": {f"v{i}": MANY for i in range(9)}}]},
            "combinations .* MNCOVER_MAX_TEXTS",
        ),
        (
            {
                "prompts": ["{{a}}" * 10**4],
                "tests": [{"vars": {"a": "x" * 10**5}, "assert": CONTAINS}],
            },
            "test 1: characters of texts and expectations: .* MNCOVER_MAX_BYTES",
        ),
        (
            {
                "prompts": ["{{a}}"],
                "tests": [
                    {
                        "vars": {"a": "x" * 10**5},
                        "assert": [{"type": "contains", "value": "{{a}}" * 10**4}],
                    }
                ],
            },
            "MNCOVER_MAX_BYTES",
        ),
        ({"tests": ["a"] * 200_000}, "values: more than 200,000; .* MNCOVER_MAX_VALUES"),
        ({"tests": "x" * 2**24}, "bytes: more than 16,777,216; .* MNCOVER_MAX_LINE"),
    ],
    ids=["combinations", "prompts", "values", "many", "large"],
)
def test_a_file_that_asks_for_much_is_refused_at_once(
    tmp_path: Path, content: object, says: str
) -> None:
    with pytest.raises(LimitError, match=says):
        converted(write(tmp_path / "a.yaml", json.dumps(content)))


def test_numbers_of_yaml_stay_small_and_times_stay_text(tmp_path: Path) -> None:
    values = {"0x" + "f" * 9000: None, "1" + ":59" * 9000: None, "12:30": "12:30", "0x1F": "31"}
    values |= {"1e3": "1e3", "12": "12", "1.50": "1.5"}
    for given, found in values.items():
        content = ONE.replace("VALUE", given).replace("TYPE", "contains")
        suite, _ = converted(write(tmp_path / "a.yaml", content))
        assert suite.tests[0].cases[0].label == (given if found is None else found)


def lines(path: Path, rows: list[object]) -> Path:
    return write(path, "\n".join(map(json.dumps, rows)))


def sample(number: int, arguments: object, target: object, name: str = "none") -> dict[str, object]:
    return {"doc_id": number, "arguments": arguments, "target": target, "filter": name, "doc": {}}


def test_samples_of_the_harness(tmp_path: Path) -> None:
    until = {"until": ["\n"]}
    rows: list[object] = [
        sample(0, {"gen_args_0": {"arg_0": "2 + 2?", "arg_1": until}}, "Add. #### 4", "strict"),
        sample(0, {"gen_args_0": {"arg_0": "2 + 2?", "arg_1": until}}, "Add. #### 4", "flexible"),
        sample(1, [["Capital of Italy?", until]], ["Rome", "Roma"]),
        sample(2, [["Is it?", " yes"], ["Is it?", " no"]], 1),
        sample(3, [["Was it?", " yes"], ["Was it?", " no"]], "0"),
        sample(4, [["Which?", " a"], ["Which?", " b"]], 0),
        sample(5, [["some text"]], ""),
        sample(6, [["Said?", until]], None),
        sample(7, [[["no text"], " yes"], [["no text"], " no"]], 0),
        sample(8, [["Is it?", " yes"], ["Is it?", " no"]], "\u00b2"),
        sample(9, [["Is it?", " yes"], ["Is it?", " no"]], "9" * 5000),
        sample(10, [["How?", until]], "#### 1.2.3"),
    ]
    suite, left_out = converted(lines(tmp_path / "samples_x.jsonl", rows))
    assert [(test.name, [case.label for case in test.cases]) for test in suite.tests] == [
        ("number", ["4"]),
        ("contains", [("Rome", "Roma"), "#### 1.2.3"]),
        ("label", [1, 0]),
    ]
    assert suite.labels == ("yes", "no")
    assert suite.tests[2].expectation == Expectation("label")
    assert "samples with choices of their own (1)" in left_out
    assert "samples without one prompt (2)" in left_out
    assert "samples whose target is none of their choices (2)" in left_out
    assert "samples without an expected answer (1)" in left_out
    assert "texts to stop at, which `mncover run --stop` takes (4)" in left_out


def test_lines_of_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[object] = [
        {"prompt": "Capital of Italy?", "answer": "Rome"},
        {"input": [{"role": "user", "content": "2 + 2?"}], "ideal": ["4", "four"]},
        {"input": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]},
        {"question": "Why?"},
    ]
    suite, left_out = converted(lines(tmp_path / "a.jsonl", rows))
    assert [case.label for case in suite.tests[0].cases] == ["Rome", ("4", "four")]
    assert left_out.count("(1)") == 2
    path = lines(tmp_path / "b.jsonl", [{"name": "x"}])
    said = error_of(capsys, "suite", "convert", str(path), "-o", str(tmp_path / "c.jsonl"))
    assert "line 1: no prompt in it" in said
