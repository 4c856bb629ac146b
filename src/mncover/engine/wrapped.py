"""Find the Hugging Face model inside what people hold: pipelines, sentence encoders, adapters.

The packages are not imported: an object of theirs can only exist if they already were.
"""

from __future__ import annotations

import sys
from typing import Any

from mncover.errors import ModelError

SENTENCE_MODELS = ("SentenceTransformer", "CrossEncoder", "SparseEncoder")


def unwrapped(model: Any, tokenizer: Any = None) -> tuple[Any, Any]:
    """Return the Hugging Face model inside a wrapper, and its tokenizer unless one is given."""
    if _is_one(model, "transformers", "Pipeline"):
        model, tokenizer = model.model, _own_tokenizer(model, tokenizer)
    if _is_one(model, "sentence_transformers", *SENTENCE_MODELS):
        model, tokenizer = _encoder(model), _own_tokenizer(model, tokenizer)
    if _is_one(model, "peft", "PeftModel", "PeftMixedModel"):
        model = _with_adapters(model)
    return model, tokenizer


def adapters_of(model: Any) -> list[Any]:
    """Return what decides how the adapters in a model are used, which its weights do not say."""
    names = ("active_adapters", "disable_adapters", "merged_adapters", "scaling")
    return [
        [name, *(repr(getattr(module, one, None)) for one in names)]
        for name, module in model.named_modules()
        if hasattr(module, "merged_adapters")
    ]


def _is_one(model: Any, package: str, *names: str) -> bool:
    module = sys.modules.get(package)
    return any(isinstance(model, getattr(module, name, ())) for name in names)


def _own_tokenizer(model: Any, tokenizer: Any) -> Any:
    return getattr(model, "tokenizer", None) if tokenizer is None else tokenizer


def _encoder(model: Any) -> Any:
    """Return the transformer of a sentence encoder; older versions call it otherwise."""
    found = getattr(model, "transformers_model", None)
    if found is None and hasattr(model, "__getitem__"):
        found = getattr(model[0], "auto_model", None)
    if found is None:
        found = getattr(model, "model", None)
    if found is None:
        raise ModelError(f"the {type(model).__name__} has no transformer inside to be measured.")
    return found


def _with_adapters(model: Any) -> Any:
    """Return the model that adapters were put into; refuse those that only lengthen the text."""
    configs = getattr(model, "peft_config", {}).values()
    if any(getattr(config, "is_prompt_learning", False) for config in configs):
        what = "adapters that put learnt tokens before a text (prompt, prefix or p-tuning)"
        raise ModelError(f"{what} cannot be measured; LoRA and the like can.")
    return model.get_base_model() if hasattr(model, "get_base_model") else model.base_model.model
