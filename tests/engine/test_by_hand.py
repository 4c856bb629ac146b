"""A model whose activations a person can compute, and the coverage that follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from mncover.coverage import Coverage
from mncover.errors import ActivationError, ModelError, NotCalibratedError, TextError
from tests import tiny


def one_layer_model() -> Any:
    """Return a BERT of one layer whose embedding of word number w is (w, -w, 0, 0) / norm.

    Every weight but the word embeddings is zero and every norm is the identity on two-sided
    vectors: attention is uniform, and each layer passes its input on.
    """
    model = tiny.bert(hidden_size=2, num_attention_heads=1, num_hidden_layers=1, num_labels=2)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_()
        words = model.bert.embeddings.word_embeddings.weight
        words[:, 0] = torch.arange(len(words)) - 20.0
        words[:, 1] = -(torch.arange(len(words)) - 20.0)
        for name, module in model.named_modules():
            if name.endswith("LayerNorm"):
                module.weight.fill_(1.0)
    return model.eval()


def test_uniform_attention_and_two_sided_words_give_the_counts_worked_out_by_hand() -> None:
    """The layer norm maps a word (w, -w) to (1, -1) if w > 0 and to (-1, 1) if w < 0.

    Token numbers below 20 are "negative". Calibration: "the film" is all negative, "no yes" all
    positive, so positions 1 and 2 have the range [-1, 1] in both dimensions at all sites;
    [CLS] at 0 and [SEP] at 3 are always negative, so their neurons never vary. Attention is 1/4
    everywhere in a text of four tokens.
    """
    model, tokenizer = one_layer_model(), tiny.tokenizer()
    assert tokenizer("the film")["input_ids"] == [2, 4, 6, 3]
    assert min(tokenizer("no yes")["input_ids"][1:3]) > 20
    cov = Coverage(model, tokenizer, bins=4, max_length=5)
    cov.calibrate(["the film", "no yes"], cache=False)
    result = cov.update(["the film"]).result()
    # Sites hidden.0 and hidden.1: 5 positions, 2 dimensions, 4 bins.
    assert result.word.total == 2 * 5 * 2 * 4
    # Positions 0 and 3 reach 1 bin each, positions 1 and 2 all 4, position 4 none.
    assert result.word.reachable == 2 * 2 * (1 + 4 + 4 + 1)
    # A text hits one bin in each of its 4 positions, 2 dimensions, 2 sites.
    assert result.word.covered == 2 * 2 * 4
    # One head, 5 x 5 positions; those below 4 have the one value 1/4: one bin.
    assert result.attention.total == 5 * 5 * 4
    assert result.attention.reachable == 4 * 4
    assert result.attention.covered == 4 * 4
    assert result.cover == (16 + 16) / (80 + 100)
    # "no yes" shares [CLS], [SEP] and attention, and adds the other end at positions 1 and 2.
    assert cov.gain(["no yes"])[0] == pytest.approx(2 * 2 * 2 / 180)
    # "film" has three tokens: attention 1/3 was never seen, and [SEP] at position 2 is negative,
    # which "film" was there before. Nothing is new.
    assert cov.gain(["film"])[0] == 0


def test_attention_weight_counts_attention_bins_as_much_as_asked() -> None:
    for weight, expected in ((0.0, 16 / 80), (2.0, (16 + 2 * 16) / (80 + 2 * 100))):
        cov = Coverage(
            one_layer_model(), tiny.tokenizer(), bins=4, max_length=5, attention_weight=weight
        )
        cov.calibrate(["the film", "no yes"], cache=False).update(["the film"])
        assert cov.result().cover == pytest.approx(expected)


def test_a_causal_model_counts_no_attention_to_the_future() -> None:
    model, tokenizer = tiny.make("gpt2")
    cov = Coverage(model, tokenizer, bins=3, max_length=4).calibrate(["the film is good"], False)
    result = cov.update(["the film is good"]).result()
    assert result.attention.total == 2 * 2 * (4 * 5 // 2) * 3
    assert result.attention.covered == 2 * 2 * (4 * 5 // 2)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("step", ["calibrate", "update", "gain", "filter", "gains"])
def test_nan_or_infinity_names_the_site_and_the_text(value: float, step: str) -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=8)
    cov.calibrate(["good film", "bad film"], cache=False)
    with torch.no_grad():
        word = tiny.VOCABULARY["awful"]
        model.bert.embeddings.word_embeddings.weight[word, 0] = value
    texts = ["the food is good", "the film is awful", "the plot is slow"]
    steps: dict[str, Any] = {
        "calibrate": lambda: cov.calibrate(texts, cache=False),
        "update": lambda: cov.update(texts),
        "gain": lambda: cov.gain(texts),
        "filter": lambda: cov.filter(texts),
        "gains": lambda: cov.update(texts, gains=True),
    }
    with pytest.raises(ActivationError, match=r"attention\.1.*the film is awful"):
        steps[step]()


def test_measuring_before_calibrating_is_refused() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8)
    for step in (cov.update, cov.gain, cov.filter):
        with pytest.raises(NotCalibratedError, match="calibrate"):
            step(["good"])
    with pytest.raises(NotCalibratedError):
        cov.save("nowhere.mncover")


def test_what_is_no_text_is_refused_with_its_place() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8).calibrate(["good", "bad"], cache=False)
    with pytest.raises(TextError, match="single string"):
        cov.update("good")
    with pytest.raises(TextError, match="text 1 must be"):
        cov.update(["good", 5])
    with pytest.raises(TextError, match="text 0 must be"):
        cov.update([["a", "b"]])
    with pytest.raises(TextError, match="case 1 must be"):
        cov.filter([["good"], [["a", "b"]]])
    with pytest.raises(TextError, match="2 texts but 1 label"):
        cov.update(["a", "b"], labels=[1])
    with pytest.raises(TextError, match="none of the model's classes"):
        cov.update(["a"], labels=["sideways"])


def test_empty_and_long_texts_have_a_defined_answer() -> None:
    model, tokenizer = tiny.make("gpt2")
    cov = Coverage(model, tokenizer, max_length=4).calibrate(["the film is good"], cache=False)
    cov.update(["", "the film is very very good", "good"], gains=True)
    table = cov.data.table
    assert table["length"].tolist() == [0, 4, 1]
    assert table["truncated"].tolist() == [False, True, False]
    assert table.new["cover"][0][0] == 0
    context = cov.result().contexts[0]
    assert (context.texts, context.truncated, context.empty) == (3, 1, 1)
    assert cov.filter(["", "good"]).gains[0] == 0
    assert cov.gain([""])[0] == 0
    assert len(cov.gain([])) == 0
    assert cov.filter([]).kept == []


def test_calibrating_on_nothing_is_refused() -> None:
    model, tokenizer = tiny.make("gpt2")
    cov = Coverage(model, tokenizer, max_length=4)
    with pytest.raises(TextError, match="at least one text"):
        cov.calibrate([])
    with pytest.raises(TextError, match="no calibration text has any token"):
        cov.calibrate(["", ""], cache=False)


def test_a_length_that_the_model_cannot_take_is_refused() -> None:
    with pytest.raises(ModelError, match="at most 64 tokens"):
        Coverage(*tiny.make("bert"), max_length=65)


def test_predictions_and_probabilities_are_the_models_own() -> None:
    model, tokenizer = tiny.make("bert")
    texts = tiny.texts(9, seed=4)
    cov = Coverage(model, tokenizer, max_length=16).calibrate(texts, cache=False)
    table = cov.update(texts, labels=[0, 1, 2] * 3).data.table
    for row, text in enumerate(texts):
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=16)
        with torch.no_grad():
            expected = model(**inputs).logits.softmax(-1)[0].numpy()
        np.testing.assert_allclose(table.probabilities[row], expected, atol=1e-5)
        assert table["prediction"][row] == expected.argmax()
    right = table["prediction"] == np.array([0, 1, 2] * 3)
    assert cov.result().contexts[0].wrong == 9 - right.sum()


def test_a_decoder_that_classifies_without_a_padding_token_is_run_text_by_text() -> None:
    model, tokenizer = tiny.make("llama_classifier")
    model.config.pad_token_id = None
    texts = tiny.texts(5, seed=6)
    cov = Coverage(model, tokenizer, max_length=16).calibrate(texts, cache=False).update(texts)
    assert (cov.data.table["prediction"] >= 0).all()
    assert cov.result().cover > 0


def test_regressors_and_multi_label_models_have_probabilities_but_no_prediction() -> None:
    for more in ({"num_labels": 1}, {"problem_type": "multi_label_classification"}):
        torch.manual_seed(0)
        model = tiny.bert(**more).eval()
        cov = Coverage(model, tiny.tokenizer(), max_length=8).calibrate(["good"], cache=False)
        table = cov.update(["good film"]).data.table
        assert table["prediction"].tolist() == [-1]
        assert np.isfinite(table.probabilities).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_half_precision_models_equal_the_slow_implementation(name: str, dtype: torch.dtype) -> None:
    from tests.slow import SlowCover, count

    model, tokenizer = tiny.make(name)
    model.to(dtype)
    train, texts = tiny.texts(6, 1), tiny.texts(6, 2)
    cov = Coverage(model, tokenizer, max_length=12).calibrate(train, cache=False).update(texts)
    slow = SlowCover(model, tokenizer, 10, 12)
    slow.calibrate(train)
    hits = slow.union(texts)
    assert cov.result().word.covered == count(hits, "hidden")
    assert cov.result().attention.covered == count(hits, "attention")


def test_a_length_too_short_for_the_special_tokens_is_refused() -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=2)
    with pytest.raises(ModelError, match="too short for this tokenizer"):
        cov.calibrate([("good film", "bad film")], cache=False)


def test_a_position_table_with_rows_for_padding_holds_fewer_tokens() -> None:
    model, tokenizer = tiny.make("roberta")
    tokenizer.model_max_length = 10**9
    assert Coverage(model, tokenizer, max_length=69)
    with pytest.raises(ModelError, match="at most 69 tokens"):
        Coverage(model, tokenizer, max_length=70)


@pytest.mark.parametrize("gains", [False, True])
def test_an_update_that_fails_changes_nothing(gains: bool) -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=8).calibrate(["good film", "bad film"], False)
    cov.update(["good film"], context="a", gains=gains)
    before, rows = cov.data.total().copy(), len(cov.data.table)
    weight = model.bert.embeddings.word_embeddings.weight.data[tiny.VOCABULARY["awful"]]
    kept = weight[0].item()
    weight[0] = float("nan")
    with pytest.raises(ActivationError):
        cov.update(["awful film", "bad film and more"], context="a", gains=gains)
    weight[0] = kept
    np.testing.assert_array_equal(cov.data.total(), before)
    assert len(cov.data.table) == rows
    assert cov.gain(["good film"])[0] == 0
    assert cov.gain(["bad film"])[0] > 0


def test_an_update_interrupted_while_it_walks_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8).calibrate(["good film", "bad film"], False)
    cov.update(["good film"], context="a", gains=True)
    before = cov.data.total().copy()
    engine: Any = cov._engine
    add, calls = engine.add, []

    def interrupted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return add(*args, **options)

    monkeypatch.setattr(engine, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cov.update(["bad film", "bad"], context=["a", "b"], gains=True)
    np.testing.assert_array_equal(cov.data.total(), before)
    assert cov.data.contexts == ["a"]
    assert len(cov.data.table) == 1


def test_calibrating_again_before_anything_was_measured_widens_the_ranges() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8).calibrate(["good film"], cache=False)
    cov.gain(["bad film"])
    narrow = cov.result().word.reachable
    assert cov.calibrate(["bad plot"], cache=False).result().word.reachable > narrow
    assert cov.data.runs == []


def test_unlabelled_texts_may_say_so_in_the_usual_ways() -> None:
    cov = Coverage(*tiny.make("bert"), max_length=8).calibrate(["good film"], cache=False)
    cov.update(["good"] * 4, labels=[None, -1, "-1", float("nan")])
    assert cov.data.table["label"].tolist() == [-1] * 4


def test_another_configuration_with_the_same_weights_is_another_model() -> None:
    from mncover.engine.loading import fingerprint_model

    model, _ = tiny.make("bert")
    before = fingerprint_model(model)
    model.config.hidden_act = "relu"
    assert fingerprint_model(model) != before
