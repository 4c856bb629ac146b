"""A model is measured in another state than its own, and gets its own back."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mncover import Coverage
from mncover.engine.loading import load_subject
from mncover.engine.switching import attending, evaluating
from tests import tiny

WAYS = st.sampled_from(["eager", "sdpa", None])


def used(model: Any) -> str:
    return str(model.config._attn_implementation)


@given(ways=st.lists(WAYS, max_size=6), seed=st.integers(0, 999))
def test_blocks_that_end_in_any_order_leave_what_the_youngest_open_one_wants(
    ways: list[str | None], seed: int
) -> None:
    model = tiny.make("bert")[0]
    own, rng, opened = used(model), random.Random(seed), []
    for way in ways:
        block = attending(model, way)
        block.__enter__()
        opened.append((way, block))
        while opened and rng.random() < 0.4:
            opened.pop(rng.randrange(len(opened)))[1].__exit__(None, None, None)
            wanted = [one for one, _ in opened if one is not None]
            assert used(model) == (wanted[-1] if wanted else own)
    for _, block in opened:
        block.__exit__(None, None, None)
    assert used(model) == own
    model.set_attn_implementation("eager")  # what its user now wants is its own
    with attending(model, "sdpa"):
        assert used(model) == "sdpa"
    assert used(model) == "eager"


def test_a_generator_that_nobody_goes_on_with_does_not_disturb_the_next_measurement() -> None:
    model, tokenizer = tiny.make("bert")
    model.set_attn_implementation("sdpa")
    subject, texts = load_subject(model, tokenizer), tiny.texts(6)

    def left() -> Any:
        with subject.measuring():
            yield

    old = left()
    next(old)
    cov = Coverage(model, tokenizer, max_length=12).calibrate(texts, cache=False)
    expected = Coverage(*tiny.make("bert"), max_length=12).calibrate(texts, cache=False)
    with subject.measuring():
        old.close()  # as when it is cleared away
        assert used(model) == "eager"
        cov.update(texts)
    assert used(model) == "sdpa"
    assert (cov.data.total() == expected.update(texts).data.total()).all()


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_every_module_is_put_back(training: bool) -> None:
    model = tiny.make("bert")[0].train(training)
    model.classifier.train(not training)
    before = [module.training for module in model.modules()]
    with ExitStack() as blocks:
        blocks.enter_context(evaluating(model))
        assert not any(module.training for module in model.modules())
    assert [module.training for module in model.modules()] == before
