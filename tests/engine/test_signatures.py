"""Signatures against plain numpy over the states that a model returns itself."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mncover import Coverage
from mncover.data.signatures import MAX_DIMENSIONS, learn_space, reference_places
from mncover.errors import NotCalibratedError, TextError
from tests import tiny

MODELS = ("bert", "distilbert", "modernbert", "gpt2", "llama_classifier", "t5_encoder")


def pooled_slowly(model: Any, tokenizer: Any, text: str, causal: bool) -> list[np.ndarray]:
    """Return the pooled states of one text, from the outputs of the model, one text at a time."""
    module = model.get_encoder() if model.config.is_encoder_decoder else model
    given, takes = tokenizer(text), inspect.signature(model.forward).parameters
    inputs = {name: torch.tensor([ids]) for name, ids in given.items() if name in takes}
    with torch.no_grad():
        hidden = module(**inputs, output_hidden_states=True).hidden_states
    layers = [layer[0].double().numpy() for layer in hidden]
    middle, last = layers[(len(layers) - 1) // 2], layers[-1]
    return [middle.mean(axis=0), last.mean(axis=0), last[-1 if causal else 0]]


def principal_slowly(states: np.ndarray) -> np.ndarray:
    """Return the principal components by the singular value decomposition."""
    return np.linalg.svd(states - states.mean(axis=0), full_matrices=False)[2][:MAX_DIMENSIONS]


@pytest.mark.parametrize("name", MODELS)
def test_signatures_are_the_principal_components_of_the_pooled_states(name: str) -> None:
    (model, tokenizer), causal = tiny.make(name), name in tiny.DECODERS
    train, texts = tiny.texts(60, seed=1), tiny.texts(12, seed=2)
    cov = Coverage(model, tokenizer, max_length=32, progress=False).calibrate(train, cache=False)
    found = cov.signatures(texts)

    known = [pooled_slowly(model, tokenizer, text, causal) for text in train]
    asked = [pooled_slowly(model, tokenizer, text, causal) for text in texts]
    for part in range(3):
        states = np.array([one[part] for one in known])
        new = np.array([one[part] for one in asked])
        components = principal_slowly(states)
        slow = (new - states.mean(axis=0)) @ components.T
        size = components.shape[0]
        mine = found[:, part * size : (part + 1) * size]
        # A component's sign is a convention; those of equal variance do not occur here.
        assert np.allclose(np.abs(mine), np.abs(slow), atol=2e-2), f"part {part}"


def test_a_run_keeps_the_signatures_that_the_texts_have_alone(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=32, progress=False)
    texts = [*tiny.texts(20, seed=3), *tiny.texts(5, seed=3)]
    cov.calibrate(tiny.texts(40), cache=False)
    alone = np.concatenate([cov.signatures([text]) for text in texts])
    cov.update(texts)
    cov.update(texts, context="in order", gains=True)
    cov.save(tmp_path / "a.mncover")
    kept = Coverage.load(tmp_path / "a.mncover").data
    assert kept.table.signatures.dtype == np.float16
    for rows in (slice(0, 25), slice(25, 50)):
        assert np.allclose(kept.table.signatures[rows], alone, rtol=2e-3, atol=2e-3)
    assert kept.space is not None
    assert kept.space.size == alone.shape[1]
    assert kept.table.signatures[:1].nbytes <= 200


def test_without_signatures_nothing_is_kept(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), progress=False, max_length=32, signatures=False)
    cov.calibrate(tiny.texts(20), cache=False).update(tiny.texts(5))
    cov.save(tmp_path / "a.mncover")
    data = Coverage.load(tmp_path / "a.mncover").data
    assert data.space is None
    assert data.table.signatures.shape == (5, 0)
    assert cov.signatures(["good"]).shape == (1, 48)  # asked for, they are given all the same


def test_a_union_keeps_the_signatures_of_the_file_that_has_them(tmp_path: Path) -> None:
    parts = []
    for signatures in (True, False):
        cov = Coverage(*tiny.make("bert"), max_length=32, signatures=signatures)
        parts.append(cov.calibrate(tiny.texts(20), cache=False).update(tiny.texts(5), "a"))
    both = (parts[0] | parts[1]).data
    has = np.isfinite(both.table.signatures).all(axis=1)
    assert has.sum() == 5
    assert both.space is parts[0].data.space


def test_a_text_without_tokens_has_no_signature() -> None:
    cov = Coverage(*tiny.make("gpt2"), max_length=32)
    cov.calibrate([*tiny.texts(20), ""], cache=False)
    found = cov.signatures(["good film", ""])
    assert np.isfinite(found[0]).all()
    assert np.isnan(found[1]).all()


def test_signatures_need_a_calibration_or_a_data_file_that_has_one(tmp_path: Path) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=32, progress=False)
    with pytest.raises(NotCalibratedError):
        cov.signatures(["good"])
    cov.calibrate(tiny.texts(20), cache=False).update(["good"])
    cov.save(tmp_path / "a.mncover")
    again = Coverage.load(tmp_path / "a.mncover", *tiny.make("bert"))
    assert np.array_equal(again.signatures(["bad"]), cov.signatures(["bad"]))


def test_a_calibration_that_resumes_learns_the_same_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mncover.engine import ranges

    monkeypatch.setattr(ranges, "CHUNK", 10)  # texts at a time
    texts, calls = tiny.texts(35), []
    cov = Coverage(*tiny.make("bert"), max_length=32, progress=False)
    whole = cov.engine.calibrate(texts, cache=False)
    observe = ranges.observe

    def interrupted(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return observe(*args)

    monkeypatch.setattr(ranges, "observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cov.engine.calibrate(texts, cache=True)
    resumed = cov.engine.calibrate(texts, cache=True)
    assert len(calls) == 5  # two, the interrupted one, two more
    assert whole.space is not None
    assert resumed.space is not None
    for name, array in whole.space.arrays().items():
        assert np.allclose(array, resumed.space.arrays()[name], atol=1e-3), name


def test_labels_of_calibration_texts_are_kept_beside_them() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=32, progress=False)
    texts = tiny.texts(9)
    cov.calibrate(texts, cache=False, labels=[0, 1, 2] * 3).update(["good"])
    assert cov.data.space is not None
    assert cov.data.space.labels.tolist() == [0, 1, 2] * 3
    with pytest.raises(TextError, match="none of the model's classes"):
        cov.calibrate(texts, cache=False, labels=["purple"] * 9)


def test_of_many_calibration_texts_a_fixed_choice_is_kept() -> None:
    few, many = reference_places(50, [384] * 3), reference_places(70_000, [384] * 3)
    assert few.tolist() == list(range(50))
    assert len(many) == 10_000
    assert np.array_equal(many, np.unique(many))
    assert np.array_equal(many, reference_places(70_000, [384] * 3))
    assert len(reference_places(70_000, [8192] * 3)) < 2_000  # their states stay small


def test_learning_takes_fewer_texts_than_dimensions() -> None:
    states = [np.random.default_rng(0).normal(size=(3, 40)).astype(np.float16) for _ in range(3)]
    space = learn_space(states, np.arange(3))
    assert space.dimensions == (32, 32, 32)
    assert np.isfinite(space.reference).all()
