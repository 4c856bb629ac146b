"""A real chat model beside the project: choices and answers are those of transformers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.llm import Plain, sst2
from mncover.coverage import Coverage
from mncover.data.prompting import Prompting
from mncover.engine.loading import load_subject
from tests.folders import assemble

CHOICES = Prompting(["positive", "negative"], "Review: {text}\nSentiment:")
CHAT = Prompting(template="In one word: {text}", chat=True, generate=6)


@pytest.fixture(scope="module")
def model(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    assemble(shared, "smollm2", folder)
    return str(folder)


def test_choices_and_answers_are_those_of_transformers_alone(model: str, shared: Path) -> None:
    texts = sorted(sst2(shared / "data", "dev", 60)[0], key=len)[:6]
    cov = Coverage(model, prompting=CHOICES, max_length=32, progress=False)
    cov.calibrate(texts, cache=False, yardstick=False).update(texts)
    plain = Plain(model, CHOICES)
    expected = np.array([plain.probabilities(text) for text in texts])
    np.testing.assert_allclose(cov.data.table.probabilities, expected, atol=1e-4)
    assert not np.allclose(expected, 0.5, atol=0.05)
    subject = load_subject(model, prompting=CHAT)
    plain.prompting = CHAT
    with torch.inference_mode():
        assert list(subject.answers(texts[:3], 64)) == [plain.answer(text) for text in texts[:3]]
