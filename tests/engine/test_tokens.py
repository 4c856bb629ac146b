"""Tokens in columns against what the tokenizer gives text by text, and batches against lists."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from mncover import Coverage
from mncover.engine import measure as measuring
from mncover.engine.batches import (
    GPU_TOKENS,
    TEXTS,
    Tokens,
    ahead,
    batch_limits,
    batches_by_length,
    distinct,
    staged,
)
from mncover.engine.measure import in_pieces
from mncover.engine.signatures import PoolReader
from mncover.engine.subject import Subject
from mncover.errors import ModelError
from mncover.types import Text
from tests import tiny

CPU = torch.device("cpu")
MAX_LENGTH = 9


def byte_level() -> Any:
    """Return a tokenizer like RoBERTa's, which has four special tokens around a pair."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    backend.train_from_iterator(tiny.texts(50), trainer)
    backend.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=backend, cls_token="<s>", sep_token="</s>", pad_token="<pad>"
    )


def cutting_and_padding() -> Any:
    """Return a tokenizer that was saved while it cut texts and padded them, on the left."""
    made = tiny.tokenizer()
    made.truncation_side = "left"
    made.backend_tokenizer.enable_truncation(5)
    made.backend_tokenizer.enable_padding(length=20)
    return made


class Called(hf.PreTrainedTokenizerFast):  # type: ignore[misc]
    """A tokenizer that does something of its own when it is called."""

    def __call__(self, *args: Any, **options: Any) -> Any:
        return super().__call__(*args, **options)


def called() -> Any:
    made = Called(tokenizer_object=tiny.tokenizer().backend_tokenizer, unk_token="[UNK]")
    made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return made


TOKENIZERS: dict[str, Callable[[], Any]] = {
    "words": tiny.tokenizer,
    "no special tokens": lambda: tiny.tokenizer(special_tokens=False),
    "byte level": byte_level,
    "cutting and padding": cutting_and_padding,
    "called": called,
}


def subject_with(tokenizer: Any) -> Subject:
    torch.manual_seed(0)
    return Subject(tiny.bert(vocab_size=500), tokenizer)


def one_by_one(tokenizer: Any, texts: Sequence[Text], names: list[str]) -> list[Any]:
    """Return each text's inputs, and whether it was cut, by a call for this text alone."""
    found = []
    for text in texts:
        sides = [[text]] if isinstance(text, str) else [[side] for side in text]
        whole = tokenizer(*sides, truncation=False, padding=False)
        cut = tokenizer(*sides, truncation=True, max_length=MAX_LENGTH, padding=False)
        long = len(whole["input_ids"][0]) > MAX_LENGTH
        found.append(({name: cut[name][0] for name in names if name in cut}, long))
    return found


def lists(tokens: Tokens) -> list[Any]:
    return [
        ({name: values.tolist() for name, values in one.inputs.items()}, bool(one.truncated[0]))
        for one in (tokens.take([row]) for row in range(len(tokens)))
    ]


LONG = " ".join(tiny.WORDS)
SINGLES: list[Text] = [
    "",
    "good",
    LONG,
    "the plot was slow .",
    "caf\u00e9 \U0001f600",
    "a \ud800 b",
]
PAIRS: list[Text] = [("good", ""), ("the plot", "a film was not bad"), (LONG, LONG), ("", LONG)]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("texts", [SINGLES, PAIRS, [*PAIRS, *SINGLES, *PAIRS[::-1]]])
def test_tokens_are_what_the_tokenizer_gives_for_each_text(name: str, texts: list[Text]) -> None:
    subject = subject_with(TOKENIZERS[name]())
    tokens = subject.encode(texts, MAX_LENGTH)
    readable = [one.replace("\ud800", "\ufffd") if isinstance(one, str) else one for one in texts]
    expected = one_by_one(TOKENIZERS[name](), readable, subject.input_names)
    assert lists(tokens) == expected
    assert any(cut for _, cut in expected)
    assert [ids.tolist() for ids in tokens.ids()] == [one["input_ids"] for one, _ in expected]


def test_texts_in_many_chunks_are_what_they_are_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_with(tiny.tokenizer())
    texts = [*tiny.texts(20), *tiny.texts(10, pairs=True), LONG]
    whole = subject.encode(texts, MAX_LENGTH)
    monkeypatch.setattr("mncover.engine.subject.CHUNK", 3)
    assert lists(subject.encode(texts, MAX_LENGTH)) == lists(whole)
    assert len(subject.encode([], MAX_LENGTH)) == 0


def test_a_tokenizer_is_left_as_it_was() -> None:
    tokenizer = cutting_and_padding()
    backend = tokenizer.backend_tokenizer
    before = backend.truncation, backend.padding, backend.encode_special_tokens
    tokens = subject_with(tokenizer).encode([LONG, "good"], MAX_LENGTH)
    assert tokens.lengths.tolist() == [MAX_LENGTH, 3]
    assert (backend.truncation, backend.padding, backend.encode_special_tokens) == before


@pytest.mark.parametrize("make", [tiny.tokenizer, called])
@pytest.mark.parametrize("text", ["a film was not bad", ("good", "bad")])
def test_too_few_tokens_for_special_ones_are_refused(make: Callable[[], Any], text: Text) -> None:
    subject = subject_with(make())
    with pytest.raises(ModelError, match="`max_length` is 1, too short"):
        subject.encode(["", text], 1)


some_tokens = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), max_size=3))


def made_of(texts: Sequence[Sequence[tuple[int, int]]]) -> Tokens:
    names = ("input_ids", "token_type_ids")
    columns = {name: [[token[i] for token in one] for one in texts] for i, name in enumerate(names)}
    return Tokens.of(columns, map(len, texts), [False] * len(texts))


@given(some_tokens)
def test_distinct_texts_are_those_that_differ_anywhere(texts: list[Any]) -> None:
    first, which = distinct(made_of(texts))
    known: list[Any] = []
    for text in texts:
        known += [] if text in known else [text]
    assert [texts[i] for i in first] == known
    assert first.tolist() == [texts.index(text) for text in known]
    assert which.tolist() == [known.index(text) for text in texts]
    assert first.dtype == which.dtype == np.int64


@given(some_tokens, st.data())
def test_some_texts_are_taken_replaced_and_emptied_in_place(texts: list[Any], data: Any) -> None:
    tokens = made_of(texts)
    rows = st.lists(st.sampled_from(range(len(texts)))) if texts else st.just([])
    some = data.draw(rows)
    assert lists(tokens.take(some)) == lists(made_of([texts[row] for row in some]))
    assert lists(tokens.with_tokens()) == lists(made_of([text for text in texts if text]))
    once = np.unique(np.array(some, dtype=np.int64))
    other = [(2, 1)] * 4
    expected = [other if row in once else text for row, text in enumerate(texts)]
    assert lists(tokens.replaced(once, made_of([other] * len(once)))) == lists(made_of(expected))
    where = np.isin(np.arange(len(texts)), once)
    expected = [[] if row in once else text for row, text in enumerate(texts)]
    assert lists(tokens.emptied(where)) == lists(made_of(expected))


def batches_slowly(lengths: Sequence[int], most_texts: int, most_tokens: int) -> list[list[int]]:
    found = []
    for length in sorted({n for n in lengths if n}, reverse=True):
        rows = [row for row, n in enumerate(lengths) if n == length]
        n = -(-len(rows) // max(1, min(most_texts, most_tokens // length)))
        found += [rows[k * len(rows) // n : (k + 1) * len(rows) // n] for k in range(n)]
    return found


@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 9), st.integers(1, 30))
def test_batches_are_cut_as_by_hand(lengths: list[int], texts: int, tokens: int) -> None:
    found = batches_by_length(lengths, texts, tokens)
    assert [rows.tolist() for rows in found] == batches_slowly(lengths, texts, tokens)


def test_without_a_batch_size_a_cpu_has_32_texts_and_a_gpu_as_many_as_there_are_tokens() -> None:
    gpu = torch.device("cuda")
    assert batch_limits(CPU, 1, None) == batch_limits(CPU, 1, 32) == (TEXTS, 2048)
    assert batch_limits(CPU, 4, None) == batch_limits(CPU, 4, 32) == (TEXTS, 352)
    assert batch_limits(gpu, 1, None) == (GPU_TOKENS, GPU_TOKENS)
    assert batch_limits(gpu, 1, 7) == (7, GPU_TOKENS)
    lengths = [10] * 5000
    sizes = [len(rows) for rows in batches_by_length(lengths, *batch_limits(gpu, 1, None))]
    assert sum(sizes) == 5000
    assert min(sizes) > 1000


@given(some_tokens, st.integers(1, 4))
def test_a_staged_batch_is_what_tensors_of_lists_are(texts: list[Any], size: int) -> None:
    tokens = made_of(texts)
    batches = batches_by_length(tokens.lengths, size)
    found = list(staged(tokens, batches, CPU))
    assert len(found) == len(batches)
    for (batch, inputs), rows in zip(found, batches, strict=True):
        for i, name in enumerate(tokens.inputs):
            expected = torch.tensor([[token[i] for token in texts[row]] for row in rows])
            assert torch.equal(inputs[name], expected)
            assert inputs[name].dtype == torch.int64
        assert torch.equal(batch.ids, inputs["input_ids"])
        assert batch.rows.tolist() == batch.places.tolist() == rows.tolist()
        assert batch.places.dtype == torch.int32


def test_few_tokens_get_copies_behind_them_on_the_cpu() -> None:
    subject = subject_with(tiny.tokenizer())
    tokens = subject.encode(["good film", "bad plot"], 16)
    alone, filled = subject.tensors(tokens), subject.inputs(tokens)
    assert alone["input_ids"].shape == (2, 4)
    assert filled.keys() == alone.keys() == {"input_ids", "token_type_ids"}
    for name, values in filled.items():
        assert torch.equal(values, alone[name].repeat(4, 1))


def ours() -> list[str]:
    return [thread.name for thread in threading.enumerate() if "mncover" in thread.name]


def test_the_next_piece_is_tokenised_while_one_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_with(tiny.tokenizer())
    done: list[str] = []
    both = threading.Event()
    encode = subject.encode

    def watched(texts: Sequence[Text], max_length: int) -> Tokens:
        done.append(threading.current_thread().name)
        if len(done) == 2:
            both.set()
        return encode(texts, max_length)

    monkeypatch.setattr(subject, "encode", watched)
    texts = tiny.texts(10)
    cuts = [slice(start, start + 4) for start in range(0, 10, 4)]
    with in_pieces(subject, texts, 16, cuts) as pieces:
        seen = list(next(pieces).texts)
        assert both.wait(30)
        seen += [text for piece in pieces for text in piece.texts]
    assert seen == texts
    assert len(done) == 3
    assert all("mncover" in name for name in done)
    assert not ours()
    done.clear()
    with in_pieces(subject, texts, 16, [slice(0, 10)]) as pieces:
        assert len(list(pieces)) == 1
    assert done == [threading.current_thread().name]  # one piece is no reason for a thread


def test_an_error_in_the_thread_is_raised_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=16, progress=False)
    cov.calibrate(tiny.texts(5), cache=False)
    encode = Subject.encode

    def failing(self: Subject, texts: Sequence[Text], max_length: int) -> Tokens:
        if "nothing like this" in texts:
            raise ValueError("cannot be tokenised")
        return encode(self, texts, max_length)

    monkeypatch.setattr(Subject, "encode", failing)
    monkeypatch.setattr(measuring, "PIECE", 4)
    monkeypatch.setattr("mncover.engine.windows.WINDOW_TEXTS", 4)
    texts = [*tiny.texts(6), "nothing like this", *tiny.texts(6, seed=2)]
    for gains, kept in ((False, 0), (True, 4)):  # in order, whole windows are kept
        with pytest.raises(ValueError, match="cannot be tokenised"):
            cov.update(texts, context="a", gains=gains)
        assert not ours()
        assert len(cov.data.table) == kept


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_nothing_is_left_running_after_an_interruption(error: type[BaseException]) -> None:
    working, stopped = threading.Event(), threading.Event()

    def work(item: int) -> int:
        if item:
            working.set()
            time.sleep(0.05)
            stopped.set()
        return item

    def interrupted() -> None:
        with ahead(100) as each:
            for _ in each(work, range(100)):
                working.wait(30)
                raise error

    with pytest.raises(error):
        interrupted()
    assert stopped.is_set()
    assert not ours()


def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=16, progress=False)
    cov.calibrate(tiny.texts(9), cache=False)
    texts = [*tiny.texts(20, seed=4), *tiny.texts(20, seed=4), ""]

    def everything() -> tuple[list[bytes], Any]:
        maps = cov.engine.new_maps()
        parts = zip(*cov.engine.hit(texts, maps), strict=True)
        lengths, truncated, found, signatures = (np.concatenate(part) for part in list(parts)[:4])
        exact = [*maps.values(), signatures, lengths, truncated]
        return [one.tobytes() for one in exact], found

    whole, found = everything()
    monkeypatch.setattr(measuring, "PIECE", 3)
    in_many, found_in_many = everything()
    assert in_many == whole
    assert np.allclose(found, found_in_many, atol=1e-6)  # a head's last digit goes by the batch


def test_states_that_wait_on_a_gpu_are_kept_like_those_of_the_cpu() -> None:
    engine = Coverage(*tiny.make("bert"), max_length=16, progress=False).engine
    states = [torch.randn(4, 5, 16) for _ in range(engine.taps.n_hidden)]
    found = []
    for waiting in (False, True):
        reader = PoolReader.raw(None, engine.layout, 4, np.arange(4))
        for rows in (np.array([2, 0]), np.array([3])):
            for part, pool in enumerate(reader.pools):
                pooled = pool.of(states[pool.layer][rows])
                if waiting:
                    reader._waiting[part].append((rows, pooled))
                else:
                    reader._put(part, rows, pooled)
        found.append(reader.signatures)
    assert np.array_equal(found[0], found[1], equal_nan=True)
    assert np.isnan(found[0][1]).all()
    assert not np.isnan(found[0][[0, 2, 3]]).any()


def test_of_the_pooled_states_only_those_that_are_wanted_are_kept() -> None:
    engine = Coverage(*tiny.make("bert"), max_length=16, progress=False).engine
    states = torch.randn(4, 16)
    for rows in ([0, 1, 2, 3], [3, 1, 0, 2]):
        reader = PoolReader.raw(None, engine.layout, 4, np.array([3, 1, 3]))
        reader._put(0, np.array(rows), states[rows])
        assert np.array_equal(reader.found[0], states[[1, 3]].half().numpy())
