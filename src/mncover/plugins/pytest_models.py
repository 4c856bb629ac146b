"""What the fixture `mncover_model` takes: pipelines, models with tokenizers, folders and names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from mncover.errors import ModelError
from mncover.types import Text

# The pipeline that goes with a model, by how the name of its class ends.
TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
}


def unmeasured(
    model: Any, tokenizer: Any = None, *, calibrate: Iterable[Text] | None = None
) -> Any:
    """Return what a test is given when nothing is measured."""
    return opened(model, tokenizer)[0]


def opened(model: Any, tokenizer: Any = None) -> tuple[Any, Any, Any]:
    """Return what a test is given, and the model and tokenizer that it runs.

    A folder or name becomes a pipeline, always the same one; other things remain what they are.
    """
    if isinstance(model, str | Path):
        pipeline = _pipeline(str(model), None if tokenizer is None else str(tokenizer))
        return pipeline, pipeline.model, pipeline.tokenizer
    from mncover.engine.wrapped import unwrapped

    inner, its = unwrapped(model, tokenizer)
    if its is None:
        raise ModelError("mncover_model takes a pipeline, a folder, or a model and its tokenizer.")
    return model, inner, its


@cache
def _pipeline(name: str, tokenizer: str | None) -> Any:
    from transformers import pipeline

    from mncover.engine.loading import load_subject

    subject = load_subject(name, tokenizer)
    kind = type(subject.model).__name__
    task = next((task for end, task in TASKS.items() if kind.endswith(end)), "feature-extraction")
    return pipeline(task, model=subject.model, tokenizer=subject.tokenizer)
