"""Every causal language model of transformers has a causal layout and is read as it runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

from mncover.engine import switching
from mncover.engine.probe import find_taps
from mncover.engine.subject import Subject
from mncover.engine.taps import Taps, hooks_restored
from mncover.errors import ModelError
from tests import tiny
from tests.architectures import LEFT_OUT, NOT_CAUSAL, REFUSED, causal_names, make
from tests.slow import eager

NAMES = [name for name in causal_names() if name not in {*LEFT_OUT, *NOT_CAUSAL, *REFUSED}]
TEXT = torch.arange(4, 16)[None]
Sites = dict[tuple[str, int], Tensor]


def other_end(ids: Tensor) -> Tensor:
    """Return the same tokens but for the last one."""
    return torch.cat([ids[:, :-1], ids[:, -1:] + 4], dim=1)


def read(taps: Taps, ids: Tensor) -> Sites:
    seen: Sites = {}
    with taps.open() as forward:
        forward({"input_ids": ids}, lambda kind, layer, v: seen.update({(kind, layer): v.clone()}))
    return seen


def looks_ahead(taps: Taps) -> bool:
    """Return whether the states of earlier tokens depend on the last one."""
    one, other = read(taps, TEXT), read(taps, other_end(TEXT))
    moved = [(one[key] - other[key]).abs() for key in one if key[0] == "hidden"]
    assert all(float(m[:, -1].max()) > 0 for m in moved)
    return any(float(m[:, :-1].max()) > 1e-4 * float(m[:, -1].max()) for m in moved)


@pytest.mark.parametrize("name", NAMES)
def test_a_causal_model_has_a_causal_layout(name: str) -> None:
    model, tokenizer = make(name)
    taps = find_taps(Subject(model, tokenizer))
    assert taps.causal
    assert not looks_ahead(taps)
    sites = read(taps, TEXT)
    for (kind, _), values in sites.items():
        assert kind == "hidden" or not values.triu(1).any()
    alone = states_alone(taps, TEXT)
    for layer, values in enumerate(alone):
        torch.testing.assert_close(sites["hidden", layer], values, rtol=1e-3, atol=1e-3)


def states_alone(taps: Taps, ids: Tensor) -> Any:
    """Return a model's states when it is neither asked for attention nor told how to compute it."""
    subject = taps.subject
    with torch.no_grad(), hooks_restored(subject.model):
        output = subject.call(subject.runner, {"input_ids": ids}, output_hidden_states=True)
    return output.hidden_states


@pytest.mark.parametrize("name", sorted(NOT_CAUSAL.keys() & set(causal_names())))
def test_a_model_that_looks_ahead_is_not_taken_for_causal(name: str) -> None:
    taps = find_taps(Subject(*make(name)))
    assert not taps.causal
    assert looks_ahead(taps)


@pytest.mark.parametrize("name", sorted(set(REFUSED) & set(causal_names())))
def test_a_model_with_several_states_for_a_token_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match="one hidden state for each token"):
        find_taps(Subject(*make(name)))


@pytest.mark.parametrize("name", sorted(LEFT_OUT.keys() & set(causal_names())))
def test_only_models_that_cannot_be_tried_are_left_out(name: str) -> None:
    with pytest.raises(Exception, match=r"."):
        find_taps(Subject(*make(name)))


def falcon(**more: Any) -> Any:
    config = hf.FalconConfig(
        vocab_size=len(tiny.VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        **more,
    )
    return tiny.wild(hf.FalconForCausalLM(config))


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("alibi", [False, True])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_every_falcon_is_read_as_one_made_with_eager_attention(
    implementation: str, alibi: bool, new: bool
) -> None:
    shape = {"alibi": alibi, "new_decoder_architecture": new}
    model = falcon(**shape, attn_implementation=implementation)
    taps = find_taps(Subject(model, tiny.tokenizer(False)))
    assert taps.causal
    assert model.config._attn_implementation == implementation
    with torch.no_grad():
        asked = {"output_hidden_states": True, "output_attentions": True}
        expected = eager(model)(input_ids=TEXT, **asked)
    sites = read(taps, TEXT)
    for layer, values in enumerate(expected.attentions, start=1):
        torch.testing.assert_close(sites["attention", layer], values)
    for layer, values in enumerate(expected.hidden_states):
        torch.testing.assert_close(sites["hidden", layer], values)


def test_attention_is_not_read_if_asking_for_it_changes_the_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(switching, "_make_eager", lambda model, undo: None)
    taps = find_taps(Subject(falcon(), tiny.tokenizer(False)))
    assert taps.note.endswith("it computes other states when it is asked for its attention.")
    assert taps.causal
    assert not looks_ahead(taps)
    assert {kind for kind, _ in read(taps, TEXT)} == {"hidden"}
