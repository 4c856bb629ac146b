"""Masks: pairs counted sparsely, cut, saved, refused; made from words or scores."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from mncover.data.layout import Layout, Site
from mncover.data.tensors import CHECKSUM
from mncover.engine.kernels import KERNELS, kernels_for
from mncover.engine.masking import ALWAYS, UNSEEN, MaskTable, PairTable
from mncover.errors import MaskError
from mncover.masks.masks import Masks, no_pairs
from mncover.masks.vocabulary import count_pairs
from tests import tiny
from tests.masks.test_mncover import V, random_masks, slow_masks

SPECIAL = np.array([0, 1])


@given(
    texts=st.lists(st.lists(st.integers(0, 9), max_size=8), max_size=8),
    min_count=st.integers(1, 3),
    chunk=st.sampled_from([1, 5, 4_000_000]),
)
def test_pairs_are_counted_as_a_plain_double_loop_counts_them(
    texts: list[list[int]], min_count: int, chunk: int
) -> None:
    expected: Counter[int] = Counter()
    for text in texts:
        for i, a in enumerate(text):
            for b in text[i + 1 :]:
                if a != b and not {a, b} & {0, 1}:
                    expected[min(a, b) * 10 + max(a, b)] += 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mncover.masks.vocabulary.CHUNK_KEYS", chunk)
        keys, counts = count_pairs(texts, 10, SPECIAL, min_count)
    often = {key: n for key, n in expected.items() if n >= min_count}
    assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == often
    assert keys.tolist() == sorted(often)


@given(
    ids=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    pairs=st.sets(st.tuples(st.integers(2, 9), st.integers(2, 9)), max_size=9),
)
def test_places_of_pairs_are_those_of_a_dictionary(
    ids: list[int], pairs: set[tuple[int, int]]
) -> None:
    keys = sorted({min(p) * 10 + max(p) for p in pairs if p[0] != p[1]})
    table = PairTable(torch.tensor(keys, dtype=torch.int64), torch.tensor([0, 1]), 10)
    found = table.places(torch.tensor([ids, ids[::-1]]))
    for row, text in enumerate((ids, ids[::-1])):
        for i, a in enumerate(text):
            for j, b in enumerate(text):
                key = min(a, b) * 10 + max(a, b)
                expected = keys.index(key) if key in keys else UNSEEN
                if a == b or a < 2 or b < 2:
                    expected = ALWAYS
                assert found[row, i, j] == expected


@pytest.mark.parametrize("unseen", ["keep", "drop", "words"])
def test_the_table_of_masks_says_what_the_definition_says(unseen: Any) -> None:
    _, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 2, unseen)
    rule, table = slow_masks(masks), MaskTable(masks, torch.device("cpu"))
    ids = torch.stack([torch.arange(V), torch.arange(V).flip(0)])
    layout = Layout((Site("hidden", 0, 1, V, 2),))
    for name in KERNELS:
        tokens, pairs = kernels_for(layout, torch.device("cpu"), name).look_up(table, ids)
        for row, text in enumerate(ids.tolist()):
            assert tokens[row].tolist() == [rule.word(a) for a in text], name
            assert pairs[row].tolist() == [[rule.pair(a, b) for b in text] for a in text], name


def test_without_any_pair_that_was_seen_the_rule_for_unseen_ones_decides() -> None:
    _, tokenizer = tiny.make("bert")
    masks = random_masks(tokenizer, 2, "drop")
    numbers, scores = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
    masks = replace(masks, pair_keys=numbers, pair_scores=scores, pair_counts=numbers)
    table, special = MaskTable(masks, torch.device("cpu")), set(masks.special.tolist())
    a, b = [word for word in range(V) if word not in special][:2]
    for name in KERNELS:
        layout = Layout((Site("hidden", 0, 1, 2, 2),))
        look_up = kernels_for(layout, torch.device("cpu"), name).look_up
        assert look_up(table, torch.tensor([[a, b]]))[1].tolist() == [[[1, 0], [0, 1]]], name


def masks_of(seed: int = 0) -> Masks:
    _, tokenizer = tiny.make("bert")
    message = np.eye(3, dtype=np.float32)
    facts = {"held-out fidelity": 0.5, "texts": 3}
    return replace(random_masks(tokenizer, seed), message=message, facts=facts)


def test_saved_masks_come_back_whole(tmp_path: Path) -> None:
    masks = replace(
        masks_of(),
        unseen="drop",
        word_threshold=0.25,
        pairs="attention",
        normalisation="symmetric",
    )
    masks.save(tmp_path / "m.safetensors")
    again = Masks.load(tmp_path / "m.safetensors")
    for name, value in vars(masks).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, name), value)
            assert getattr(again, name).dtype == value.dtype
        else:
            assert getattr(again, name) == value
    assert again.fingerprint == masks.fingerprint
    assert again.summary().to_json() == masks.summary().to_json()


def test_masks_of_the_first_format_decide_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    masks_of().save(path)
    with safe_open(path, framework="np") as file:
        metadata = json.loads(file.metadata()["mncover_masks"])
    del metadata[CHECKSUM], metadata["pairs"]
    text = json.dumps(metadata | {"format": 1})
    save_file(load_file(path), path, {"mncover_masks": text})
    assert Masks.load(path).pairs == "messages"


def test_masks_that_are_cut_elsewhere_have_no_measured_fidelity() -> None:
    assert masks_of().summary().fidelity == 0.5
    assert masks_of().with_thresholds(words=0.9).summary().fidelity is None


def test_masks_without_a_layer_or_pairs_come_back(tmp_path: Path) -> None:
    keys, scores, counts = no_pairs()
    masks = replace(
        masks_of(), message=None, pair_keys=keys, pair_scores=scores, pair_counts=counts
    )
    masks.save(tmp_path / "m.safetensors")
    again = Masks.load(tmp_path / "m.safetensors")
    assert again.message is None
    assert len(again.pair_keys) == 0
    assert again.summary().pairs == 0


def header(**changes: Any) -> Any:
    def change(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        metadata.update(changes)

    return change


def tensor(name: str, value: Any) -> Any:
    def change(tensors: dict[str, Any], metadata: dict[str, Any]) -> None:
        tensors[name] = value

    return change


BAD = {
    "a newer version": (header(format=3), "newer mncover.*upgrade"),
    "an unknown policy": (header(unseen="perhaps"), "unseen must be one of keep, drop, words"),
    "a threshold of nonsense": (header(word_threshold=7), "word_threshold must be a number"),
    "another way": (header(pairs="x"), "pairs must be one of attention, messages"),
    "another normalisation": (header(normalisation="x"), "normalisation must be one of mean"),
    "words of another number": (tensor("words", np.frombuffer(b'["a"]', np.uint8)), "wrong type"),
    "words that are no JSON": (tensor("words", np.frombuffer(b"[", np.uint8)), "damaged"),
    "scores of another type": (tensor("word_scores", np.zeros(V)), "'word_scores' has the wrong"),
    "pairs out of order": (tensor("pair_keys", None), "pairs are not in order"),
    "special tokens outside": (tensor("special", np.array([V])), "outside the vocabulary"),
    "a matrix that is none": (tensor("message", np.zeros((2, 3), np.float32)), "'message'"),
    "scores that are no numbers": (
        tensor("word_scores", np.full(V, np.nan, np.float32)),
        "not from 0 to 1",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_of_masks_is_refused_in_one_line(what: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    masks_of().save(path)
    tensors = load_file(path)
    with safe_open(path, framework="np") as file:
        metadata = json.loads(file.metadata()["mncover_masks"])
    del metadata[CHECKSUM]  # a stranger's file need not have one
    change, message = BAD[what]
    change(tensors, metadata)
    if tensors["pair_keys"] is None:
        tensors["pair_keys"] = np.ascontiguousarray(masks_of().pair_keys[::-1])
    save_file(tensors, path, {"mncover_masks": json.dumps(metadata)})
    with pytest.raises(MaskError, match=message) as caught:
        Masks.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_foreign_and_cut_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MaskError, match="no such file of masks"):
        Masks.load(tmp_path / "none.safetensors")
    save_file({"x": np.zeros(3)}, tmp_path / "foreign.safetensors")
    with pytest.raises(MaskError, match="not a file of masks"):
        Masks.load(tmp_path / "foreign.safetensors")
    masks_of().save(tmp_path / "m.safetensors")
    whole = (tmp_path / "m.safetensors").read_bytes()
    for size in (0, 5, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.safetensors").write_bytes(whole[:size])
        with pytest.raises(MaskError, match="cannot be read as masks"):
            Masks.load(tmp_path / "cut.safetensors")


def test_the_fingerprint_tells_what_counts_and_nothing_else() -> None:
    masks = masks_of()
    same = replace(masks, facts={}, pair_scores=np.where(masks.keep_pairs, 0.9, 0.1))
    assert same.fingerprint == masks.fingerprint
    assert masks.with_thresholds(words=0.9).fingerprint != masks.fingerprint
    assert masks.with_thresholds(pairs=0.9).fingerprint != masks.fingerprint
    assert masks.with_thresholds(unseen="drop").fingerprint != masks.fingerprint


def test_masks_from_words_keep_these_words_their_pairs_and_special_tokens() -> None:
    _, tokenizer = tiny.make("bert")
    masks = Masks.from_words(tokenizer, ["good", "bad", "nosuchword"])
    kept = {masks.words[i] for i in np.flatnonzero(masks.keep_words)}
    assert kept == {"good", "bad", *tiny.SPECIAL}
    table = MaskTable(masks, torch.device("cpu"))
    ids = torch.tensor([[tiny.VOCABULARY[w] for w in ("[CLS]", "good", "bad", "film")]])
    assert table.pairs_of(ids)[0].int().tolist() == [
        [1, 1, 1, 1],
        [1, 1, 1, 0],
        [1, 1, 1, 0],
        [1, 0, 0, 1],
    ]


def test_masks_from_scores_are_cut_at_the_threshold() -> None:
    _, tokenizer = tiny.make("bert")
    scores = {"good": 0.9, "bad": 0.6, "film": 0.3}
    masks = Masks.from_scores(tokenizer, scores, threshold=0.6)
    kept = {masks.words[i] for i in np.flatnonzero(masks.keep_words)} - set(tiny.SPECIAL)
    assert kept == {"good", "bad"}
    with pytest.raises(MaskError, match="'good' must be from 0 to 1"):
        Masks.from_scores(tokenizer, {"good": 1.5})


def test_a_word_of_several_tokens_gives_its_score_to_each() -> None:
    _, tokenizer = tiny.make("bert")
    masks = Masks.from_words(tokenizer, ["good film"])
    kept = {masks.words[i] for i in np.flatnonzero(masks.keep_words)} - set(tiny.SPECIAL)
    assert kept == {"good", "film"}


def test_the_summary_counts_what_training_saw_and_lists_extremes() -> None:
    masks = masks_of()
    summary = masks.summary(shown=3)
    rule = slow_masks(masks)
    seen = [i for i in range(V) if masks.word_counts[i] and i not in rule.special]
    assert summary.words == len(seen)
    assert summary.words_kept == sum(rule.word(i) for i in seen)
    assert summary.pairs_kept == sum(score >= 0.5 for score in rule.pairs.values())
    ordered = sorted(seen, key=lambda i: -masks.word_scores[i])
    assert [w for w, _ in summary.top_words] == [masks.words[i] for i in ordered[:3]]
    assert [w for w, _ in summary.low_words] == [masks.words[i] for i in ordered[:-4:-1]]
    assert summary.fidelity == 0.5


def test_masks_are_read_without_torch() -> None:
    code = "import sys, mncover.masks.masks; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
