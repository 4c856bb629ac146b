"""Batches that run side by side give what they give one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mncover import Coverage
from mncover.engine.batches import (
    MAX_TOKENS,
    WORKER_TOKENS,
    batch_tokens,
    batches_by_length,
    parallel,
    workers_on,
)
from mncover.engine.probe import find_taps
from mncover.engine.subject import Subject
from mncover.errors import ActivationError
from tests import tiny

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def ours() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith(("mncover_", "mncover-a"))]


@given(st.lists(st.integers(), max_size=30), st.integers(1, 5))
def test_what_comes_back_is_in_the_order_of_what_went_in(items: list[int], n: int) -> None:
    def work(item: int) -> int:
        time.sleep(abs(item) % 3 * 1e-4)
        return 2 * item

    with parallel(n) as run_all:
        assert list(run_all(work, items)) == [2 * item for item in items]


def test_calls_really_overlap() -> None:
    meeting = threading.Barrier(3, timeout=30)  # breaks if fewer than three calls are under way
    with parallel(3) as run_all:
        assert sorted(run_all(lambda n: meeting.wait(), range(3))) == [0, 1, 2]


@pytest.mark.parametrize("n", [1, 3])
def test_the_first_error_in_the_order_of_items_is_raised_and_nothing_is_left_running(
    n: int,
) -> None:
    done: list[int] = []

    def work(item: int) -> int:
        if item in (4, 5):
            time.sleep(0.02 * (5 - item))  # the later one fails first
            raise ValueError(f"item {item}")
        return item

    with pytest.raises(ValueError, match="item 4"), parallel(n) as run_all:
        done += run_all(work, range(1000))
    assert not ours()
    assert torch.get_num_threads() == 4


def test_torch_uses_one_thread_in_each_call_and_has_all_of_them_back_afterwards() -> None:
    def threads(item: int) -> int:
        return torch.get_num_threads()

    with parallel(2) as run_all:
        assert set(run_all(threads, range(8))) == {1}
    assert torch.get_num_threads() == 4
    with parallel(1) as run_all:
        assert set(run_all(threads, range(8))) == {4}
    assert torch.get_num_threads() == 4


def test_one_batch_at_a_time_where_threads_would_not_help() -> None:
    assert workers_on(CPU) == 4
    assert workers_on(torch.device("cuda")) == 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert workers_on(CPU) == 1
    torch.set_num_threads(1)
    assert workers_on(CPU) == 1


def test_a_model_that_changes_while_it_runs_runs_one_batch_at_a_time() -> None:
    subject = Subject(*tiny.make("llama"))
    assert subject.workers == 4
    config = subject.model.config
    for kind, expected in (("default", 4), ("linear", 4), ("dynamic", 1), ("longrope", 1)):
        config.rope_parameters = {"rope_type": kind, "rope_theta": 10000.0}
        assert subject.workers == expected
    config.rope_parameters = {"rope_type": "default", "rope_theta": 10000.0}
    subject.model.hf_device_map = {"": "cpu"}
    assert subject.workers == 4
    subject.model.hf_device_map = {"model.layers.0": 0, "model.layers.1": "cpu"}
    assert subject.workers == 1


def test_batches_that_run_parallel_hold_fewer_tokens() -> None:
    assert (batch_tokens(1), batch_tokens(2)) == (MAX_TOKENS, WORKER_TOKENS)
    lengths = [64] * 100
    sizes = [len(rows) for rows in batches_by_length(lengths, 32, batch_tokens(2))]
    assert sum(sizes) == 100
    assert max(sizes) == WORKER_TOKENS // 64
    assert [len(rows) for rows in batches_by_length([1000], 32, batch_tokens(2))] == [1]


def test_long_texts_run_one_at_a_time_on_all_threads_and_short_ones_in_parallel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cov = Coverage(*tiny.make("bert"), max_length=16)
    texts = tiny.texts(60, seed=2)
    short = cov.engine.calibrate(texts, cache=False)
    monkeypatch.setattr("mncover.engine.measure.LONG", 8)
    lengths = cov.engine.subject.encode(texts, 16).lengths
    assert 5 < (lengths > 8).sum() < 55
    model, ran = cov.engine.subject.model, []

    def watch(module: object, args: object, given: dict[str, Any]) -> None:
        ran.append((given["input_ids"].shape[1], torch.get_num_threads(), threading.get_ident()))

    expected = cov.engine.calibrate(texts, cache=False)
    hook = model.register_forward_pre_hook(watch, with_kwargs=True)
    found = cov.engine.calibrate(texts, cache=False)
    hook.remove()
    assert found.fingerprint == expected.fingerprint
    np.testing.assert_allclose(found.low, short.low, rtol=1e-4, atol=1e-6)
    mine = threading.get_ident()
    assert {length for length, *_ in ran} == set(lengths.tolist())
    assert all((threads, who == mine) == (4, True) for length, threads, who in ran if length > 8)
    assert all((threads, who == mine) == (1, False) for length, threads, who in ran if length <= 8)


def everything(architecture: str) -> dict[str, Any]:
    """Return all that is measured, to the last bit."""
    model, tokenizer = tiny.make(architecture)
    train, texts = tiny.texts(40, seed=1), tiny.texts(60, seed=2)
    cov = Coverage(model, tokenizer, bins=20, max_length=16, batch_size=3)
    cov.calibrate(train, cache=False)
    engine = cov.engine
    assert engine.ranges is not None
    gain = cov.gain(texts).tolist()
    kept = cov.filter(texts).kept
    cov.update(texts[:30], context="a").update(texts[30:], context="b", gains=True)
    table = cov.data.table
    return {
        "ranges": engine.ranges.fingerprint,
        "gain": gain,
        "kept": list(kept),
        "maps": [cov.data.map_of(name).tobytes() for name in ("a", "b")],
        "new": table.new["cover"][0].tolist(),
        "predictions": table["prediction"].tolist(),
    }


@pytest.mark.parametrize("architecture", ["bert", "roberta", "gpt2", "llama", "mpnet", "deberta"])
def test_whatever_is_measured_is_the_same_one_by_one_and_parallel(architecture: str) -> None:
    together = everything(architecture)
    torch.set_num_threads(1)
    alone = everything(architecture)
    assert together == alone
    assert any(alone["gain"])
    assert 0 < len(alone["kept"]) <= 60


def test_the_text_with_a_nan_is_named_whichever_batch_meets_one_first() -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=16, batch_size=1)
    texts = tiny.texts(30, seed=3, longest=8)
    bad = next(word for word in texts[7].split() if word in tiny.WORDS)
    number = tokenizer.convert_tokens_to_ids(bad)
    with torch.no_grad():
        model.get_input_embeddings().weight[number] = np.nan
    messages = []
    for threads in (4, 4, 1):
        torch.set_num_threads(threads)
        with pytest.raises(ActivationError) as caught:
            cov.calibrate(texts, cache=False)
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    assert bad in messages[0]


def test_an_interruption_waits_for_batches_under_way_and_takes_all_hooks_away() -> None:
    model, tokenizer = tiny.make("bert")
    cov = Coverage(model, tokenizer, max_length=16, batch_size=1)
    cov.calibrate(tiny.texts(5), cache=False)
    before = [len(module._forward_hooks) for module in model.modules()]

    def interrupt(n: int) -> None:
        raise KeyboardInterrupt

    engine = cov.engine
    with pytest.raises(KeyboardInterrupt):
        next(engine.windows([[text] for text in tiny.texts(40)], interrupt))
    assert not ours()
    assert [len(module._forward_hooks) for module in model.modules()] == before
    assert torch.get_num_threads() == 4


def test_every_thread_counts_the_sites_of_its_own_batch() -> None:
    subject = Subject(*tiny.make("bert"))
    taps = find_taps(subject)
    tokens = subject.encode(tiny.texts(40, seed=5), 16)
    expected = [("hidden", i) for i in range(taps.n_hidden)]
    expected += [("attention", i + 1) for i in range(len(taps.heads))]

    def sites(row: int) -> list[tuple[str, int]]:
        seen: list[tuple[str, int]] = []
        inputs = subject.inputs(tokens.take([row]))
        forward(inputs, lambda kind, layer, values: seen.append((kind, layer)))
        return sorted(seen)

    with taps.open() as forward, parallel(4) as run_all:
        for seen in run_all(sites, range(40)):
            assert seen == sorted(expected)
