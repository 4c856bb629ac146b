"""Guesses of a masked language model."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
import transformers as hf

from mncover.augment.transforms import Resources, transform
from mncover.augment.transforms.masked_lm import BEST, swap
from mncover.augment.transforms.words import is_stop_word
from mncover.engine.loading import quiet_loading
from mncover.errors import ModelError, SettingsError
from tests.augment.material import changed_places


def test_a_guess_is_among_the_models_best_words(resources: Resources) -> None:
    change = swap(resources)
    model, tokenizer = change.subject.model, change.subject.tokenizer
    inputs = tokenizer("the [MASK] was great", return_tensors="pt")
    with torch.inference_mode():
        logits = model(**inputs).logits[0, 2]
    ranked = [tokenizer.convert_ids_to_tokens(i) for i in logits.argsort(descending=True).tolist()]
    forms = {"film", "films"}
    expected = [w for w in ranked if w.isalpha() and not is_stop_word(w) and w not in forms][:BEST]
    texts = ["the film was great"] * 400
    found = change.many(texts, [random.Random(seed) for seed in range(400)])
    assert {f"the {word} was great" for word in expected} == {
        text for text in found if text is not None and text.endswith("great") and "film" not in text
    }


def test_a_mask_of_the_texts_own_and_a_long_text_do_not_confuse_it(resources: Resources) -> None:
    change = transform("WordSwapMaskedLM", resources)
    plain = change("the film", random.Random(0))
    assert plain is not None
    assert change("[MASK] the film", random.Random(0)) == f"[MASK] {plain}"
    long = "the " * 500 + "film" + " of" * 500
    changed = change(long, random.Random(0))
    assert changed is not None
    assert changed_places(long, changed) == [500]


def test_a_head_that_is_never_called_gives_the_same(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = swap(resources)
    texts = ["the film was great", "a bad story", "we liked the slow plot of the film"] * 5
    usual = change.many(texts, [random.Random(seed) for seed in range(15)])
    monkeypatch.setattr(change, "head", torch.nn.Identity())
    assert change.many(texts, [random.Random(seed) for seed in range(15)]) == usual


def test_a_model_that_cannot_fill_masks_is_refused(tmp_path: Path, resources: Resources) -> None:
    with pytest.raises(SettingsError, match="--masked-lm"):
        transform("WordSwapMaskedLM")
    with pytest.raises(ModelError, match="no such folder"):
        transform("WordSwapMaskedLM", Resources(masked_lm=str(tmp_path / "gone")))
    tokenizer = hf.AutoTokenizer.from_pretrained(resources.masked_lm)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    config = hf.BertConfig(vocab_size=len(tokenizer), intermediate_size=8, **sizes)
    with quiet_loading():
        hf.BertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="not a fill-mask model"):
        transform("WordSwapMaskedLM", Resources(masked_lm=str(tmp_path)))
