"""A causal language model that answers: text for text as `model.generate`, and where it is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from mncover.coverage import Coverage
from mncover.data.prompting import Prompting
from mncover.engine.loading import load_subject
from mncover.errors import MnCoverError, SettingsError
from tests import causal, tiny

TEMPLATE = "{text} ? i"
ASKED = Prompting(template=TEMPLATE, generate=6)


def plainly(model: Any, tokenizer: Any, text: str, most: int = 6) -> tuple[list[int], list[int]]:
    """Return the tokens of a prompt, and those that a plain call generates behind it."""
    ids = torch.tensor([tokenizer(TEMPLATE.replace("{text}", text)).input_ids])
    found = model.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=most
    )
    return ids[0].tolist(), found[0, ids.shape[1] :].tolist()


@pytest.mark.parametrize("name", causal.BUILDERS)
def test_answers_are_those_of_a_plain_call(name: str) -> None:
    model, tokenizer = causal.make(name)
    texts = [*tiny.texts(14, seed=4, longest=5), "good", "good"]
    cov = Coverage(model, tokenizer, max_length=20, prompting=ASKED)
    cov.calibrate(texts, cache=False).update(texts)
    expected = [
        tokenizer.decode(plainly(model, tokenizer, text)[1], skip_special_tokens=True)
        for text in texts
    ]
    assert cov.data.table.answers == tuple(expected)
    assert len({*expected}) > 3 or name == "gemma2"  # which repeats the last word


def test_an_answer_ends_at_a_stop_string() -> None:
    model, tokenizer = causal.make("llama", seed=3)
    texts = tiny.texts(12, seed=4, longest=5)
    whole = load_subject(model, tokenizer, prompting=ASKED).answers(texts, 20)
    words = [word for answer in whole for word in answer.split()[1:4]]
    stop = max(set(words), key=words.count)
    subject = load_subject(model, tokenizer, prompting=replace(ASKED, stop=(stop,)))
    expected = [answer.partition(stop)[0] for answer in whole]
    assert list(subject.answers(texts, 20)) == expected
    assert expected != list(whole)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral", "bloom"])
@pytest.mark.parametrize("read", ["both", "answer"])
def test_the_inside_of_answers_is_that_of_a_plain_pass(name: str, read: Any) -> None:
    model, tokenizer = causal.make(name)
    texts = tiny.texts(15, seed=5, longest=4)
    asked = replace(ASKED, read=read)
    cov = Coverage(model, tokenizer, max_length=14, prompting=asked)
    cov.calibrate(texts, cache=False).update(texts, gains=True)
    layout, ranges = cov.engine.layout, cov.engine.require_ranges()
    seen = {site.name: np.full(site.shape, np.inf) for site in layout.sites}
    model.set_attn_implementation("eager")
    for text, length in zip(texts, cov.data.table["length"], strict=True):
        prompt, answer = plainly(model, tokenizer, text)
        start = len(prompt) if read == "answer" else 0
        assert length == len(prompt) + len(answer) - start
        ids = torch.tensor([[*prompt, *answer]])
        with torch.inference_mode():
            found = model(input_ids=ids, output_hidden_states=True, output_attentions=True)
        for i, states in enumerate(found.hidden_states):
            mine = seen[f"hidden.{i}"][0]
            values = states[0, start:].numpy()
            mine[: len(values)] = np.minimum(mine[: len(values)], values)
        for i, weights in enumerate(found.attentions, start=1):
            mine = seen[f"attention.{i}"]
            values = weights[0, :, start:, start:].numpy()
            n = values.shape[1]
            mine[:, :n, :n] = np.minimum(mine[:, :n, :n], values)
    for site, span in layout.spans():
        mine = ranges.low[span].reshape(site.shape)
        reached = np.isfinite(mine)
        assert reached.any()
        np.testing.assert_allclose(mine[reached], seen[site.name][reached], atol=2e-5)


def test_the_model_is_left_as_it_was_and_prompts_alone_are_read() -> None:
    model, tokenizer = causal.make("llama")
    model.set_attn_implementation("sdpa")
    model.train()
    texts = tiny.texts(10)
    cov = Coverage(model, tokenizer, max_length=20, prompting=ASKED)
    cov.calibrate(texts, cache=False).update(texts, gains=True)
    assert model.config._attn_implementation == "sdpa"
    assert model.training
    plain = Coverage(model, tokenizer, max_length=20, prompting=Prompting(template=TEMPLATE))
    plain.calibrate(texts, cache=False).update(texts)
    np.testing.assert_array_equal(cov.data.total(), plain.data.total())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"generate": -1}, "whole number"),
        ({"stop": ["x"]}, "give `generate`"),
        ({"read": "both"}, "give `generate`"),
        ({"generate": 3, "read": "all"}, "prompt, answer, both"),
        ({"generate": 3, "stop": [""]}, "stop string is empty"),
        ({"generate": 3, "choices": ["a", "b"]}, "exclude each other"),
        ({"judge": print}, "`judge` is for answers"),
    ],
)
def test_what_no_model_could_be_asked(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Prompting(**settings)


def test_lengths_that_do_not_fit_are_refused() -> None:
    model, tokenizer = causal.make("llama")
    for how, length, says in (
        (ASKED, 88, "up to 6 more"),
        (replace(ASKED, read="both"), 6, "at least 7"),
        (replace(ASKED, read="answer"), 5, "at least 6"),
    ):
        with pytest.raises(MnCoverError, match=says):
            Coverage(model, tokenizer, max_length=length, prompting=how)
    with pytest.raises(SettingsError, match="encoder-decoder"):
        load_subject(*tiny.make("t5_generator"), prompting=ASKED)
