"""Pipelines, sentence encoders and adapters are measured like the model inside them."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import peft
import pytest
import sentence_transformers
import transformers
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from mncover import Coverage, LearningSettings, Masks, Result
from mncover.engine.loading import fingerprint_model
from mncover.engine.wrapped import unwrapped
from mncover.errors import ModelError
from tests import tiny

TEXTS = tiny.texts(24)
LORA: dict[str, Any] = {"task_type": "SEQ_CLS", "target_modules": ["query", "value"]}


def measured(model: Any, tokenizer: Any = None) -> Result:
    cov = Coverage(model, tokenizer, max_length=16, progress=False)
    return cov.calibrate(TEXTS, cache=False).update(TEXTS[:6]).result()


def counts(result: Result) -> tuple[int, ...]:
    return tuple(site.count.covered for site in result.sites)


def adapted(**options: Any) -> tuple[Any, Any, Any]:
    """Return a model with random adapters, its tokenizer, and a copy of the bare model."""
    model, tokenizer = tiny.make("bert")
    bare = deepcopy(model)
    config = peft.LoraConfig(**LORA, init_lora_weights=False, **options)
    return peft.get_peft_model(model, config), tokenizer, bare


def saved(name: str, folder: Path) -> tuple[Any, Any]:
    model, tokenizer = tiny.make(name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


def test_a_pipeline_brings_model_and_tokenizer() -> None:
    model, tokenizer = tiny.make("bert")
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    assert counts(measured(pipe)) == counts(measured(model, tokenizer))
    other = tiny.tokenizer()
    assert unwrapped(pipe, other) == (model, other)


def test_a_sentence_encoder_is_its_transformer(tmp_path: Path) -> None:
    model, tokenizer = saved("bert_encoder", tmp_path)
    encoder = sentence_transformers.SentenceTransformer(str(tmp_path), device="cpu")
    assert counts(measured(encoder)) == counts(measured(model, tokenizer))


def test_a_cross_encoder_keeps_its_head(tmp_path: Path) -> None:
    model, tokenizer = saved("bert", tmp_path)
    encoder = sentence_transformers.CrossEncoder(str(tmp_path), device="cpu")
    found = measured(encoder)
    assert counts(found) == counts(measured(model, tokenizer))
    assert len(found.identity.labels) == 3


def test_an_older_sentence_encoder_is_found_by_its_first_module() -> None:
    """Before version 5 there was no `transformers_model`."""
    model, tokenizer = tiny.make("bert_encoder")

    class Older(sentence_transformers.SentenceTransformer):  # type: ignore[misc]
        transformers_model = None

        def __init__(self) -> None:
            pass

        def __getitem__(self, place: int) -> Any:
            return type("First", (), {"auto_model": model})()

        tokenizer = property(lambda self: tokenizer)

    assert unwrapped(Older()) == (model, tokenizer)


def test_an_encoder_without_a_transformer_is_refused() -> None:
    bag = StaticEmbedding(tiny.tokenizer(), embedding_dim=8)
    encoder = sentence_transformers.SentenceTransformer(modules=[bag], device="cpu")
    with pytest.raises(ModelError, match="the SentenceTransformer has no transformer inside"):
        Coverage(encoder)


def test_adapters_are_measured_as_if_they_were_merged() -> None:
    model, tokenizer, bare = adapted()
    found = counts(measured(model, tokenizer))
    assert found == counts(measured(deepcopy(model).merge_and_unload(), tokenizer))
    assert found != counts(measured(bare, tokenizer))
    with model.disable_adapter():
        assert counts(measured(model, tokenizer)) == counts(measured(bare, tokenizer))


def test_adapters_in_a_pipeline_are_found() -> None:
    model, tokenizer, _ = adapted()
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    assert unwrapped(pipe) == (model.get_base_model(), tokenizer)


def test_models_that_use_their_adapters_differently_are_different_models() -> None:
    """Nothing of this is in the weights, and cached ranges go by the fingerprint."""
    model, _, bare = adapted()
    model.add_adapter("two", peft.LoraConfig(**LORA, init_lora_weights=False))
    inside, prints = model.get_base_model(), []

    def take() -> None:
        prints.append(fingerprint_model(inside))

    take()
    model.set_adapter("two")
    take()
    with model.disable_adapter():
        take()
    weights = {name: tensor.clone() for name, tensor in inside.state_dict().items()}
    for module in inside.modules():
        if isinstance(module, peft.tuners.lora.LoraLayer):
            module.scaling["two"] *= 2
    take()
    assert all((inside.state_dict()[name] == tensor).all() for name, tensor in weights.items())
    assert len({*prints, fingerprint_model(bare)}) == 5


def test_learnt_prompts_are_refused() -> None:
    model, tokenizer = tiny.make("bert")
    config = peft.PromptTuningConfig(task_type="SEQ_CLS", num_virtual_tokens=3)
    with pytest.raises(ModelError, match="learnt tokens before a text"):
        Coverage(peft.get_peft_model(model, config), tokenizer)


def test_a_model_with_adapters_still_needs_its_tokenizer() -> None:
    with pytest.raises(ModelError, match="give the tokenizer too"):
        Coverage(adapted()[0])


def test_masks_are_learnt_from_a_pipeline_and_a_table() -> None:
    model, tokenizer = tiny.make("bert")
    pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer)
    table = {"tweet": TEXTS, "author": ["me"] * len(TEXTS)}
    settings = LearningSettings(max_length=16, epochs=1)
    by_table = Masks.learn(pipe, table, settings=settings, text="tweet", progress=False)
    by_list = Masks.learn(model, TEXTS, tokenizer, settings, progress=False)
    assert by_table.fingerprint == by_list.fingerprint
