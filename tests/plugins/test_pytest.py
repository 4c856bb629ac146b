"""The pytest plugin, in sessions of its own on a tiny model."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import transformers

import mncover.plugins.pytest_session  # noqa: F401 (loaded here, not anew by every session)
from mncover import Coverage
from mncover.plugins.seen import Seen, text_of
from mncover.types import display_percent
from tests import tiny

pytest_plugins = ["pytester"]

TRAIN = tiny.texts(30, seed=5)
TESTS = """
import pytest

@pytest.fixture(scope="session")
def ask(mncover_model):
    return mncover_model("model")

@pytest.mark.parametrize("text", ["the film is good", "the zebra was awful !"])
def test_words(ask, text):
    assert ask(text)[0]["label"] != "nothing"

def test_several(ask):
    ask(["it was slow .", "no"])
    ask({"text": "a film", "text_pair": "was bad"})
    assert not FAILS

def test_other():
    assert not OTHER_FAILS
"""
RUN: dict[str, list[Any]] = {  # what these tests run; the model has no word for "zebra"
    "test_it.py::test_words[the film is good]": ["the film is good"],
    "test_it.py::test_words[the zebra was awful !]": ["the [UNK] was awful !"],
    "test_it.py::test_several": ["it was slow .", "no", ("a film", "was bad")],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny") / "model"
    made, tokenizer = tiny.make("bert")
    made.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    transformers.pipeline("text-classification", model=made, tokenizer=tokenizer)("no")
    return folder


@pytest.fixture(autouse=True)
def modules_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sessions inside this process forget only their test file.

    Otherwise what they are the first to import, of transformers say, would be imported twice.
    """

    def forget(snapshot: object) -> None:
        sys.modules.pop("test_it", None)

    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot.restore", forget)


@pytest.fixture
def project(pytester: pytest.Pytester, model: Path) -> pytest.Pytester:
    pytester.path.joinpath("model").symlink_to(model)
    pytester.path.joinpath("train.txt").write_text("\n".join(TRAIN) + "\n")
    pytester.makepyprojecttoml(
        '[tool.mncover]\nmax_length = 16\n[tool.pytest.ini_options]\nmncover_calibrate="train.txt"'
    )
    write_tests(pytester)
    return pytester


def write_tests(project: pytest.Pytester, fails: bool = False, other_fails: bool = False) -> None:
    text = TESTS.replace("OTHER_FAILS", str(other_fails)).replace("FAILS", str(fails))
    project.makepyfile(test_it=text)


def expected(model: Path) -> Coverage:
    """Measure the same texts without pytest."""
    cov = Coverage(str(model), max_length=16).calibrate(TRAIN, cache=False)
    for context, texts in RUN.items():
        cov.update(texts, context=context, gains=True)
    return cov


def texts_by_context(cov: Coverage) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for number, text in zip(cov.data.table["context"], cov.data.table.texts, strict=True):
        found.setdefault(cov.data.contexts[number], []).append(text)
    return found


def test_what_tests_run_is_measured_under_their_ids(project: pytest.Pytester, model: Path) -> None:
    done = project.runpytest_inprocess("--mncover")
    done.assert_outcomes(passed=4)
    found, wanted = Coverage.load(project.path / "pytest.mncover"), expected(model)
    assert texts_by_context(found) == RUN
    assert found.result().cover == wanted.result().cover > 0
    assert [one.adds for one in found.result().contexts] == [
        one.adds for one in wanted.result().contexts
    ]
    done.stdout.re_match_lines(
        [
            r"-+ mncover -+",
            r"Test +Tests +Failing +Texts +Adds %",
            r"test_it.py::test_words +2 +0 +2 +\d+\.\d\d",
            r"test_it.py::test_several +1 +0 +3 +\d+\.\d\d",
            rf"Total +3 +0 +5 +{display_percent(wanted.result().main.tally.share_of_reachable)}",
            r"The data file is pytest.mncover. .*",
        ]
    )


def test_workers_of_xdist_share_ranges_and_the_controller_combines(
    project: pytest.Pytester, model: Path
) -> None:
    arguments = ("--mncover", "--mncover-data", "both.mncover", "--mncover-max-failing", "40%")
    write_tests(project, fails=True)
    done = project.runpytest_inprocess("-n", "2", "--dist", "each", *arguments)
    assert done.ret == 0  # twice three tests use the model, of which the same one fails twice
    found = Coverage.load(project.path / "both.mncover")
    assert len(found.data.runs) == 2
    assert found.result().cover == expected(model).result().cover
    assert {name: set(texts) for name, texts in texts_by_context(found).items()} == {
        name: set(texts) for name, texts in RUN.items()
    }
    done.stdout.fnmatch_lines(["1 of 3 tests that used the model fail, within *failing 40%."])


def test_the_test_on_the_page_runs_as_it_stands(project: pytest.Pytester) -> None:
    page = Path(__file__).parents[2] / "docs" / "pytest.md"
    block, command = re.findall(r"```(?:python|console)\n(.*?)```", page.read_text(), re.S)
    given = block.replace("path/to/model", "model").replace('"positive"', '"LABEL_1"')
    project.makepyfile(test_it=given)
    done = project.runpytest_inprocess(*shlex.split(command)[2:])
    found = Coverage.load(project.path / "pytest.mncover")
    assert len(found.data.contexts) == 2
    assert all("test_negated_blame_is_praise[" in name for name in found.data.contexts)
    done.stdout.re_match_lines([r"test_it.py::test_negated_blame_is_praise +2 +\d +2 +.*"])


def test_nothing_is_measured_without_the_option(project: pytest.Pytester) -> None:
    project.runpytest_inprocess().assert_outcomes(passed=4)
    assert not list(project.path.glob("*.mncover"))


def test_models_and_pipelines_stay_what_they_are(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        from tests import tiny

        def test_model(mncover_model):
            model, tokenizer = tiny.make("bert")
            assert mncover_model(model, tokenizer, calibrate=["a film"]) is model
            model(**tokenizer(["a film", "no"], padding=True, return_tensors="pt"))
        """
    )
    project.runpytest_inprocess("--mncover").assert_outcomes(passed=1)
    found = Coverage.load(project.path / "pytest.mncover")
    assert texts_by_context(found) == {"test_it.py::test_model": ["a film", "no"]}
    assert found.data.identity.calibration_texts == 1


def test_coverage_gate(project: pytest.Pytester) -> None:
    done = project.runpytest_inprocess("--mncover", "--mncover-fail-under", "90")
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["Cover * % is below --mncover-fail-under 90 %."])
    assert project.runpytest_inprocess("--mncover", "--mncover-fail-under", "0.1").ret == 0


@pytest.mark.parametrize(
    ("limit", "other_fails", "status"),
    [("34%", False, 0), ("1", False, 0), ("33%", False, 1), ("0", False, 1), ("34%", True, 1)],
)
def test_gate_on_failing_tests_forgives_only_those_that_used_the_model(
    project: pytest.Pytester, limit: str, other_fails: bool, status: int
) -> None:
    write_tests(project, fails=True, other_fails=other_fails)
    done = project.runpytest_inprocess("--mncover", "--mncover-max-failing", limit)
    assert done.ret == status
    than = "within" if limit in ("34%", "1") else "more than"
    done.stdout.fnmatch_lines([f"1 of 3 tests that used the model fail, {than} * {limit}."])


def test_gates_that_check_nothing_fail(project: pytest.Pytester) -> None:
    chosen = ("--mncover", "-k", "other")
    assert project.runpytest_inprocess(*chosen).ret == 0
    for gate in (("--mncover-max-failing", "50%"), ("--mncover-fail-under", "1")):
        done = project.runpytest_inprocess(*chosen, *gate)
        assert done.ret == 1
        done.stdout.fnmatch_lines(["No test ran anything through mncover_model."])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mncover-data", "a.mncover"], "--mncover-data needs --mncover."),
        (["--mncover", "--mncover-calibrate", "gone.txt"], "gone.txt: no such file"),
        (["--mncover", "--mncover-data", "gone/a.mncover"], "there is no folder"),
        (["--mncover", "--mncover-fail-under", "much"], "a percentage from 0 to 100, got 'much'"),
        (["--mncover", "--mncover-max-failing", "-3"], "a percentage (5%) or a number"),
    ],
)
def test_options_that_cannot_be_used_are_refused_at_once(
    project: pytest.Pytester, arguments: list[str], message: str
) -> None:
    done = project.runpytest_inprocess(*arguments)
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    assert message in done.stderr.str()


def test_a_test_that_cannot_be_measured_says_why_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it="""
        from tests import tiny

        def test_one(mncover_model):
            mncover_model(*tiny.make("bert"))

        def test_two(mncover_model):
            mncover_model(*tiny.make("bert"))

        def test_three(mncover_model):
            mncover_model(3)
        """
    )
    done = project.runpytest_inprocess("--mncover")
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(
        [
            "mncover: mncover_model was already given another model: *",
            "mncover: mncover_model takes a pipeline, a folder, or a model and its tokenizer.",
        ]
    )


LIGHT = """
import sys
import mncover.plugins.pytest_plugin
heavy = {"torch", "transformers", "numba", "typer", "mncover.coverage"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""


def test_the_plugin_alone_imports_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_texts_are_told_from_their_tokens(name: str) -> None:
    tokenizer = tiny.tokenizer(special_tokens=name == "bert")
    for text in [*tiny.texts(20), "not [UNK] good"]:
        assert text_of(tokenizer, tuple(tokenizer(text)["input_ids"])) == text
    if name == "bert":
        for pair in tiny.texts(20, pairs=True):
            assert text_of(tokenizer, tuple(tokenizer(*pair)["input_ids"])) == pair
        chat = "a [SEP] film [SEP] food"
        assert text_of(tokenizer, tuple(tokenizer(chat)["input_ids"])) == chat
        assert text_of(tokenizer, (5, 2, 6, 2, 7)) is None  # these would begin and end otherwise


def test_of_a_generation_the_prompt_is_seen() -> None:
    model, tokenizer = tiny.make("llama")
    seen = Seen(model.base_model, tokenizer)
    inputs = tokenizer("the film is", return_tensors="pt", return_token_type_ids=False)
    model.generate(**inputs, max_new_tokens=4, do_sample=False, pad_token_id=0)
    model.generate(
        inputs_embeds=model.get_input_embeddings()(inputs["input_ids"]), max_new_tokens=1
    )
    seen.stop()
    model.generate(**inputs, max_new_tokens=1)
    assert seen.texts() == ([("", "the film is")], 1)
