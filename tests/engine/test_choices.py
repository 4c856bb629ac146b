"""A causal language model with choices: the probabilities of a plain script, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.coverage import Coverage
from mncover.data.prompting import Prompting, unescaped
from mncover.engine.loading import load_subject
from mncover.engine.prompts import Prompter
from mncover.errors import MismatchError, MnCoverError, SettingsError
from mncover.suites.judging import in_suite_classes
from tests import causal, tiny

NAMES = ("bad", "very good", "not very slow")
TEMPLATE = "the film : {text} . it was"
ASKED = Prompting(choices=NAMES, template=TEMPLATE)


def plainly(model: Any, tokenizer: Any, prompts: list[str], by_length: bool = False) -> Any:
    """Return the probabilities of the choices, one prompt and one choice at a time."""
    rows = []
    for prompt in prompts:
        ids = [tokenizer(one).input_ids for one in (prompt, *NAMES)]
        found = [causal.log_probability(model, ids[0], one) for one in ids[1:]]
        scores = np.array([score / n if by_length else score for score, n in found])
        rows.append(np.exp(scores) / np.exp(scores).sum())
    return np.array(rows)


@pytest.mark.parametrize("name", causal.BUILDERS)
def test_probabilities_are_those_of_a_plain_script(name: str) -> None:
    model, tokenizer = causal.make(name)
    texts = tiny.texts(25, seed=4)
    cov = Coverage(model, tokenizer, max_length=40, prompting=ASKED)
    cov.calibrate(texts, cache=False).update(texts, labels=["bad"] * 25)
    prompts = [TEMPLATE.replace("{text}", text) for text in texts]
    expected = plainly(model, tokenizer, prompts)
    np.testing.assert_allclose(cov.data.table.probabilities, expected, atol=2e-5)
    assert cov.result().contexts[0].failing == int((expected.argmax(1) != 0).sum())
    choices = cov.engine.subject.choices
    assert choices is not None
    assert choices.cached  # the prompt was not run again for each choice
    choices.cached = False
    again = cov.engine.answers(texts)[0]
    np.testing.assert_allclose(again, expected, atol=2e-5)


def test_coverage_is_that_of_the_prompts_read_once() -> None:
    model, tokenizer = causal.make("llama")
    texts = tiny.texts(20, seed=5)
    prompts = [TEMPLATE.replace("{text}", text) for text in texts]
    asked = Coverage(model, tokenizer, max_length=40, prompting=ASKED)
    plain = Coverage(model, tokenizer, max_length=40)
    asked.calibrate(texts, cache=False).update(texts, gains=True)
    plain.calibrate(prompts, cache=False).update(prompts, gains=True)
    np.testing.assert_array_equal(asked.data.total(), plain.data.total())
    np.testing.assert_array_equal(asked.data.table["length"], plain.data.table["length"])
    assert asked.data.table.texts == tuple(texts)


def test_length_chat_and_pairs() -> None:
    model, tokenizer = causal.make("qwen2")
    pairs = tiny.texts(12, seed=6, pairs=True)
    how = Prompting(NAMES, "{text_a} ? {text_b}", chat=True, normalise="length")
    cov = Coverage(model, tokenizer, max_length=50, prompting=how)
    prompts = [f"you : {a} ? {b} . i : " for a, b in pairs]
    cov.calibrate(pairs, cache=False).update(pairs)
    expected = plainly(model, tokenizer, prompts, by_length=True)
    np.testing.assert_allclose(cov.data.table.probabilities, expected, atol=2e-5)


def test_a_long_text_is_cut_and_the_rest_of_the_prompt_stays() -> None:
    model, tokenizer = causal.make("llama")
    subject = load_subject(model, tokenizer, prompting=ASKED)
    words = tiny.WORDS[:30]
    found = subject.encode([" ".join(words), "good"], 20)
    assert found.lengths.tolist() == [20, 7]
    assert found.truncated.tolist() == [True, False]
    kept = TEMPLATE.replace("{text}", " ".join(words[:14]))
    assert found.ids()[0].tolist() == tokenizer(kept).input_ids
    with pytest.raises(SettingsError, match="takes 6 tokens even without"):
        subject.encode(["good bad"], 4)


def test_a_template_is_filled_in_one_go() -> None:
    asked = Prompting(template=unescaped(r"{text_a}\n{text_b} {x}"))
    assert asked.filled(("{text_b}", "b")) == "{text_b}\nb {x}"
    assert Prompting().filled(("a", "b")) == "a\nb"
    with pytest.raises(SettingsError, match="one text"):
        asked.filled("a")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"choices": ["good", ""]}, "a choice is empty"),
        ({"choices": ["good"]}, "at least two"),
        ({"choices": ["good", "Good "]}, "twice"),
        ({"choices": "good,bad"}, "list of strings"),
        ({"choices": ["a", "b"], "template": "Review:"}, "no {text}"),
        ({"choices": ["a", "b"], "template": "{text_a}"}, "both {text_a} and {text_b}"),
        ({"normalise": "length"}, "there are none"),
        ({"choices": ["a", "b"], "normalise": "log"}, "none, length"),
    ],
)
def test_what_no_model_could_be_asked(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Prompting(**settings)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bert", "classes of its own"),
        ("t5_generator", "encoder-decoder"),
        ("bert_encoder", "cannot go on"),
        ("llama_classifier", "classes of its own"),
    ],
)
def test_other_models_are_refused(name: str, says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        load_subject(*tiny.make(name), prompting=ASKED)


def test_what_a_model_cannot_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = causal.make("llama")

    def refused(says: str, how: Prompting, max_length: int = 40) -> None:
        with pytest.raises(MnCoverError, match=says):
            Coverage(model, tokenizer, max_length=max_length, prompting=how)

    refused("same tokens", replace(ASKED, choices=("xxx", "yyy")))  # both unknown words
    refused("up to 3 more", ASKED, 89)
    with monkeypatch.context() as patched:
        patched.setattr(Prompter, "ids", lambda self, text: [1, 2])
        refused("'bad' has no tokens", ASKED)
    tokenizer.chat_template = None
    refused("no chat template", replace(ASKED, chat=True))


def test_files_of_other_prompts_are_not_united(tmp_path: Path) -> None:
    model, tokenizer = causal.make("llama")
    texts = tiny.texts(10)
    for number, how in enumerate((ASKED, replace(ASKED, template="{text} . so"))):
        cov = Coverage(model, tokenizer, max_length=40, prompting=how).calibrate(texts)
        cov.update(texts).save(tmp_path / f"{number}.mncover")
    one, other = (Coverage.load(tmp_path / f"{number}.mncover") for number in (0, 1))
    assert one.data.identity.prompting == ASKED
    with pytest.raises(MismatchError, match="ranges"):
        one | other
    again = Coverage.load(tmp_path / "0.mncover", model, tokenizer).calibrate(texts)
    np.testing.assert_array_equal(again.engine.answers(texts)[0], one.data.table.probabilities)


def test_the_neutral_band_goes_by_names() -> None:
    chances = np.array([[0.9, 0.1], [0.2, 0.8]])
    suite = ("negative", "neutral", "positive")
    found = in_suite_classes(chances, ("positive", "negative"), suite)
    assert found.classes.tolist() == [2, 0]
    assert in_suite_classes(chances, ("LABEL_0", "LABEL_1"), suite).classes.tolist() == [0, 2]
