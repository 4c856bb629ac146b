"""Real models and data beside the project: the same laws hold there."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mncover.augment.judge import embedded
from mncover.augment.packing import find_packing
from mncover.coverage import Coverage
from mncover.engine.loading import fingerprint_model, load_subject
from mncover.masks.masks import Masks
from mncover.masks.settings import LearningSettings
from mncover.masks.wimask import fidelity_on
from tests.folders import assemble
from tests.slow import states


def lines(path: Path, n: int) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for _, line in zip(range(n), file, strict=False)]


@pytest.fixture(scope="session", params=["minilm-sst2", "granite-sst2", "minilm-nli"])
def model(
    request: pytest.FixtureRequest, shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("models") / str(request.param)
    assemble(shared, str(request.param), folder)
    return folder


def texts_for(model: Path, shared: Path) -> tuple[list[Any], list[Any], list[Any]]:
    """Return training texts, test texts and the tests' labels."""
    if model.name == "minilm-nli":
        rows = lines(shared / "data" / "nli" / "snli_test.jsonl.gz", 400)
        pairs: list[Any] = [(row["premise"], row["hypothesis"]) for row in rows]
        return pairs[:80], pairs[150:230], [row["label"] for row in rows[150:230]]
    train = lines(shared / "data" / "sst2" / "train.jsonl.gz", 120)
    dev = lines(shared / "data" / "sst2" / "dev.jsonl.gz", 80)
    texts: list[Any] = [row["text"] for row in dev]
    return [row["text"] for row in train], texts, [row["label"] for row in dev]


def test_laws_hold_on_a_real_model(model: Path, shared: Path) -> None:
    train, texts, labels = texts_for(model, shared)
    cov = Coverage(str(model)).calibrate([*train, *texts[:20]], cache=False)
    cov.update(texts, context="dev", labels=labels, gains=True)
    result = cov.result()
    assert 0 < result.cover < 1
    # Another order and other batches: nothing is new, nothing is missing.
    other = Coverage(str(model), batch_size=7).calibrate([*train, *texts[:20]], cache=False)
    other.update(texts[::-1], context="dev")
    np.testing.assert_array_equal(cov.data.total(), other.data.total())
    assert cov.gain(texts[50:90]).max() == 0
    # The sequential filter's gains are the recorded ones, and add up.
    found = cov.filter(texts)
    assert found.gains.sum() == pytest.approx(result.cover)
    # Calibration texts fall inside their own ranges: every neuron they touch hits a bin.
    again = Coverage._of(type(cov.data)(cov.data.identity), cov._engine).update(texts[:20])
    lengths = again.data.table["length"]
    layout = cov.data.identity.layout
    first = int(np.argmax(lengths))
    alone = Coverage._of(type(cov.data)(cov.data.identity), cov._engine).update([texts[first]])
    touched = layout.touched(int(lengths[first]))
    assert alone.result().word.covered + alone.result().attention.covered == touched
    # The model answers as it does without mncover: most labels right.
    assert result.contexts[0].accuracy is not None
    assert result.contexts[0].accuracy > 0.75


def test_sites_of_a_real_model_are_hugging_faces_own(model: Path, shared: Path) -> None:
    cov = Coverage(str(model))
    engine = cov._engine
    assert engine is not None
    assert engine.taps.way == "hooks"
    text = texts_for(model, shared)[1][0]
    seen: dict[tuple[str, int], torch.Tensor] = {}
    inputs = engine.subject.inputs(engine.subject.encode([text], 128))
    with engine.taps.open() as forward:
        forward(inputs, lambda k, n, v: seen.update({(k, n): v[0]}))
    hidden, attention, _ = states(engine.subject.model, engine.subject.tokenizer, text, 128)
    for layer, values in enumerate(hidden):
        torch.testing.assert_close(seen["hidden", layer], values, rtol=0, atol=1e-5)
    for layer, values in attention.items():
        torch.testing.assert_close(seen["attention", layer], values, rtol=0, atol=1e-5)


def test_packed_texts_of_a_real_model_have_the_bins_of_unpacked_ones(
    model: Path, shared: Path
) -> None:
    train, texts, _ = texts_for(model, shared)
    cov = Coverage(str(model)).calibrate(train[:40], cache=False)
    engine = cov.engine
    packing = find_packing(engine.taps, 128)
    assert packing is not None
    assert packing.reach == 128
    texts = [*texts[:40], train[0]]
    rows = range(len(texts))
    for packed, _ in embedded(engine, packing, texts):
        in_packs = [engine.codes(packed, row, "cover").tobytes() for row in rows]
    for apart in engine.windows([[text] for text in texts], lambda n: None):
        assert in_packs == [engine.codes(apart, row, "cover").tobytes() for row in rows]


def test_masks_of_a_real_model_are_faithful_and_leave_it_alone(model: Path, shared: Path) -> None:
    train, texts, _ = texts_for(model, shared)
    subject = load_subject(str(model))
    before = fingerprint_model(subject.model)
    # Few texts to learn from: most words and pairs have to stay.
    kept: dict[str, Any] = {"words_kept": 0.9, "pairs_kept": 0.7}
    settings = LearningSettings(epochs=2, held_out=10, min_count=1, **kept)
    masks = Masks.learn(subject.model, train, subject.tokenizer, settings, progress=False)
    assert fingerprint_model(subject.model) == before
    assert len(masks.pair_keys) > 1000
    assert fidelity_on(subject, masks, texts) > 0.85
    cov = Coverage(subject.model, subject.tokenizer, masks=masks).calibrate(train[:40], cache=False)
    result = cov.update(texts[:30]).result()
    assert result.mncover is not None
    assert 0 < result.mncover < result.cover
    everything = masks.with_thresholds(words=0.0, pairs=0.0)
    cov = Coverage(subject.model, subject.tokenizer, masks=everything)
    result = cov.calibrate(train[:40], cache=False).update(texts[:30]).result()
    assert result.mncover == result.cover
