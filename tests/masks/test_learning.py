"""Learning masks: on tiny models, on one with planted words, interrupted and resumed."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mncover.data import files as resume
from mncover.data.files import Unfinished
from mncover.engine import gating as gating_module
from mncover.engine.batches import batches_by_length
from mncover.engine.loading import fingerprint_model
from mncover.engine.subject import Subject
from mncover.errors import MaskError, SettingsError, TextError
from mncover.masks.draws import PAIRS_FIRST, Stage
from mncover.masks.learning import Learner, frozen, learn_masks
from mncover.masks.masks import Masks
from mncover.masks.settings import LearningSettings, chosen_settings
from mncover.masks.wimask import Logits, agreement, fidelity_on, inserted, predict
from tests import tiny

SMALL: Any = {"epochs": 2, "batch_size": 16, "held_out": 20, "max_length": 20, "word_hidden": 8}
QUICK = replace(LearningSettings(), **SMALL)
MESSAGES = replace(LearningSettings.messages(), **SMALL)
WAYS = pytest.mark.parametrize("settings", [QUICK, MESSAGES], ids=["attention", "messages"])
CLASSIFIERS = ["bert", "roberta", "distilbert", "albert", "electra", "deberta", "modernbert"]
CLASSIFIERS += ["llama_classifier", "bart_classifier"]
WORDS = {"word_hidden", "word_weight", "word_bias"}
GATED = [name for name in CLASSIFIERS if name not in ("deberta", "bart_classifier")]


def subject_of(name: str = "bert") -> Subject:
    return Subject(*tiny.make(name))


def learner_of(settings: LearningSettings = QUICK, n: int = 80) -> Learner:
    return Learner(Masks, subject_of(), tiny.texts(n, 1), settings)


def test_the_terms_of_the_loss_by_hand() -> None:
    settings = replace(
        QUICK, kl_words=2.0, kl_pairs=3.0, sparse_pairs=5.0, sparse_words=7.0, words_kept=0.25
    )
    learner = learner_of(settings)
    third = math.log(3.0)
    logits = Logits(
        words=torch.tensor([[60.0, third, 0.0]]),
        pairs=torch.tensor([[[60.0, third, 60.0], [third, 60.0, -third], [60.0, -third, 60.0]]]),
        word_learnt=torch.tensor([[False, True, True]]),
        pair_learnt=torch.tensor([[[0, 1, 0], [0, 0, 1], [0, 0, 0]]]) > 0,
    )
    quarter = 0.75 * math.log(1.5) + 0.25 * math.log(0.5)
    # Words: KL of 3/4 and 1/2. Pairs: KL of 3/4 and 1/4, mean probability 1/2. All words are
    # kept at the start, three quarters more than asked.
    expected = 2 * (quarter / 2) + 3 * quarter + 5 * 0.5 + 7 * 0.75
    assert float(learner.regulariser(logits).detach()) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "settings"),
    [*((name, MESSAGES) for name in CLASSIFIERS), *((name, QUICK) for name in GATED)],
)
def test_learning_leaves_the_model_bit_for_bit_as_it_was(
    name: str, settings: LearningSettings
) -> None:
    subject = subject_of(name)
    subject.model.train()
    attention = subject.model.config._attn_implementation
    before, state = (
        fingerprint_model(subject.model),
        {n: (p.requires_grad, p.grad) for n, p in subject.model.named_parameters()},
    )
    masks = learn_masks(Masks, subject, tiny.texts(40, 1), replace(settings, epochs=1))
    assert fingerprint_model(subject.model) == before
    assert subject.model.config._attn_implementation == attention
    assert subject.model.training
    for parameter, (wanted, grad) in state.items():
        now = subject.model.get_parameter(parameter)
        assert (now.requires_grad, now.grad) == (wanted, grad)
    assert not any(m._forward_hooks for m in subject.model.modules())
    assert len(masks.pair_keys) > 0
    assert 0 <= masks.facts["held-out fidelity"] <= 1


@pytest.mark.parametrize(
    ("settings", "done", "learnt"),
    [
        (MESSAGES, 0.0, {"pair_logits", "message", *WORDS}),
        (QUICK, 0.0, {"pair_logits", "pair_words"}),
        (QUICK, PAIRS_FIRST, WORDS),
    ],
    ids=["messages", "pairs in attention", "words in attention"],
)
def test_gradients_reach_all_that_a_stage_learns_and_nothing_else(
    settings: LearningSettings, done: float, learnt: set[str]
) -> None:
    learner = learner_of(settings)
    with frozen(learner.subject):
        before = {n: p.detach().clone() for n, p in learner.layer.named_parameters()}
        for number in range(3):  # the first step moves the network's last layer away from zero
            learner.step(learner._steps()[number], number, done)
        for name, parameter in learner.layer.named_parameters():
            assert torch.equal(parameter, before[name]) == (name not in learnt), name
            assert (parameter.grad is not None) == (name in learnt), name
        assert all(p.grad is None for p in learner.subject.model.parameters())


def test_texts_of_pairs_are_learnt_from_too() -> None:
    subject = subject_of()
    masks = learn_masks(
        Masks, subject, tiny.texts(40, 1, pairs=True), replace(QUICK, max_length=30)
    )
    assert masks.word_counts.sum() > 0


@WAYS
def test_the_same_seed_learns_the_same_and_another_seed_something_else(
    settings: LearningSettings,
) -> None:
    texts = tiny.texts(60, 1)
    one, two = (learn_masks(Masks, subject_of(), texts, settings) for _ in range(2))
    other = learn_masks(Masks, subject_of(), texts, replace(settings, seed=1))
    np.testing.assert_array_equal(one.word_scores, two.word_scores)
    np.testing.assert_array_equal(one.pair_scores, two.pair_scores)
    assert not np.array_equal(one.word_scores, other.word_scores)


@pytest.fixture
def saves_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "SECONDS", 0.0)
    monkeypatch.setattr(resume, "SHARE", 0.0)


@WAYS
@pytest.mark.usefixtures("saves_always")
def test_interrupted_learning_resumes_and_ends_with_the_same_masks(
    settings: LearningSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, said = tiny.texts(60, 1), list[str]()
    unfinished = Unfinished(tmp_path / "m.partial", "learning run", said.append)
    whole = learn_masks(Masks, subject_of(), texts, settings)
    step = Learner.step

    def interrupted(self: Learner, rows: list[int], number: int, done: float) -> None:
        if number == 20:
            raise KeyboardInterrupt
        step(self, rows, number, done)

    monkeypatch.setattr(Learner, "step", interrupted)
    with pytest.raises(KeyboardInterrupt), unfinished.announced():
        learn_masks(Masks, subject_of(), texts, settings, unfinished=unfinished)
    calls, advanced = list[int](), list[int]()

    def counting(self: Learner, rows: list[int], number: int, done: float) -> None:
        calls.append(number)
        step(self, rows, number, done)

    monkeypatch.setattr(Learner, "step", counting)
    again = learn_masks(Masks, subject_of(), texts, settings, advanced.append, unfinished)
    assert min(calls) == 20  # nothing that was finished is done twice
    assert len(advanced) == 1 + len(calls)
    np.testing.assert_array_equal(again.word_scores, whole.word_scores)
    np.testing.assert_array_equal(again.pair_scores, whole.pair_scores)
    np.testing.assert_array_equal(again.message, whole.message)  # None, if there are none
    assert unfinished.path.exists()  # until the caller has saved the masks
    assert said == [
        f"Unfinished work is in {unfinished.path}: run the same command to resume.",
        f"Resuming from {unfinished.path}: 20 steps done.",
    ]


@pytest.mark.parametrize(
    ("way", "owner", "name", "call"),
    [
        (QUICK, torch.optim.Adam, "step", 7),
        (QUICK, Learner, "regulariser", 9),
        (QUICK, Learner, "held_out_fidelity", -1),
        (MESSAGES, Learner, "held_out_fidelity", 2),
    ],
)
def test_learning_saves_its_state_wherever_it_is_stopped(
    way: LearningSettings,
    owner: type,
    name: str,
    call: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts, settings = tiny.texts(60, 1), replace(way, words_kept=1.0)
    unfinished = Unfinished(tmp_path / "m.partial", "learning run")
    plain, calls, stop_at = getattr(owner, name), list[None](), 10**6

    def stopped(*given: Any, **named: Any) -> Any:
        calls.append(None)
        if len(calls) == stop_at:
            os.kill(os.getpid(), signal.SIGTERM)
        return plain(*given, **named)

    monkeypatch.setattr(owner, name, stopped)
    whole = learn_masks(Masks, subject_of(), texts, settings)
    stop_at, calls = call if call > 0 else len(calls), []
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            learn_masks(Masks, subject_of(), texts, settings, unfinished=unfinished)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert unfinished.path.exists()
    again = learn_masks(Masks, subject_of(), texts, settings, unfinished=unfinished)
    assert again.facts == whole.facts
    for part in ("word_scores", "pair_scores", "message"):
        np.testing.assert_array_equal(getattr(again, part), getattr(whole, part))


@pytest.mark.usefixtures("saves_always")
def test_the_state_of_other_learning_or_a_damaged_one_is_refused_with_a_line(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    unfinished = Unfinished(tmp_path / "m.partial", "learning run", said.append)
    texts = tiny.texts(60, 1)
    expected = learn_masks(Masks, subject_of(), texts, QUICK)
    learn_masks(Masks, subject_of(), texts, replace(QUICK, seed=5), unfinished=unfinished)
    found = learn_masks(Masks, subject_of(), texts, QUICK, unfinished=unfinished)
    np.testing.assert_array_equal(found.word_scores, expected.word_scores)
    unfinished.path.write_bytes(unfinished.path.read_bytes()[:100])
    learn_masks(Masks, subject_of(), texts, QUICK, unfinished=unfinished)
    refused = f"{unfinished.path} belongs to another learning run: starting over."
    damaged = f"{unfinished.path} is damaged or no unfinished learning run: starting over."
    assert said == [refused, damaged]


def test_the_state_of_learning_comes_back_whole(tmp_path: Path) -> None:
    one, two, path = learner_of(), learner_of(), tmp_path / "state"
    with frozen(one.subject):
        for number, done in enumerate((0.0, 0.0, PAIRS_FIRST)):  # so that all has been moved
            one.step(one._steps()[number], number, done)
    assert one.progress.step == 3
    best = {name: value + 1 for name, value in one.layer.state_dict().items()}
    one.progress = replace(one.progress, looked=2, best=0.5, kept=best)
    one.write(path)
    assert two.read(path) is two.progress
    assert two.progress == replace(one.progress, kept=two.progress.kept)
    assert two.progress.kept is not None
    for name, value in one.layer.state_dict().items():
        assert torch.equal(two.layer.state_dict()[name], value)
        assert torch.equal(two.progress.kept[name], value + 1)
    for kind, optimizer in one.optimizers.items():
        moments = [each.state_dict()["state"] for each in (optimizer, two.optimizers[kind])]
        assert moments[0].keys() == moments[1].keys()
        for number, state in moments[0].items():
            assert all(torch.equal(moments[1][number][n], value) for n, value in state.items())
    assert learner_of(replace(QUICK, seed=5)).read(path) is None


def test_learning_stops_when_held_out_fidelity_no_longer_rises() -> None:
    steps: list[int] = []
    settings = replace(MESSAGES, epochs=50, patience=2, words_kept=1.0)
    learner = learner_of(settings)
    learner.held_out_fidelity = lambda: 0.5  # type: ignore[method-assign]
    with frozen(learner.subject):
        learner.fit(lambda n: steps.append(n))
    total = len(learner._steps())
    interval = total // (50 * 4)
    assert len(steps) - 1 == 3 * interval  # the first look is the best, two more are patient


def test_in_attention_pairs_come_first_with_all_words_in_place_and_then_words() -> None:
    learner, words, pairs = learner_of(), list[bool](), list[bool]()
    plain, step = learner.draws.answer, learner.step

    def answer(inputs: Any, number: int, stage: Stage) -> Any:
        found = plain(inputs, number, stage)
        words.append(bool(found[1].word_learnt.any()))
        pairs.append(bool(found[1].pair_learnt.any()))
        return found

    rates = list[float]()

    def stepping(rows: list[int], number: int, done: float) -> None:
        step(rows, number, done)
        rates.append(learner.optimizers["adam"].param_groups[0]["lr"])

    learner.draws.answer = answer  # type: ignore[method-assign]
    learner.step = stepping  # type: ignore[method-assign]
    with frozen(learner.subject):
        learner.fit(lambda n: None)
    first = math.ceil(PAIRS_FIRST * len(words))
    assert len(words) == len(learner._steps())  # it never stops early
    assert not any(words[:first])
    assert all(words[first:])
    assert any(pairs[:first])
    assert not any(pairs[first:])
    assert rates[:first] == sorted(rates[:first], reverse=True)
    assert rates[first] == pytest.approx(QUICK.word_rate, rel=0.1)  # they begin anew for words
    assert rates[-1] < 0.2 * QUICK.word_rate


def test_while_words_are_learnt_every_second_text_has_all_pairs_and_the_others_those_kept() -> None:
    learner = learner_of(replace(QUICK, pairs_kept=0.4))
    with frozen(learner.subject):
        for number in range(4):
            learner.step(learner._steps()[number], number, 0.3)
        kept = learner.masks().keep_pairs
        seen = list[torch.Tensor]()
        plain = gating_module._gated

        def gated(weights: torch.Tensor) -> torch.Tensor:
            gate = gating_module._gate.get()
            assert gate is not None
            assert gate.pairs is not None
            seen.append(gate.pairs)
            return plain(weights)

        gating_module._gated = gated
        try:
            rows = max(learner._steps(), key=len)
            ids = learner.subject.tensors(learner.train.tokens.take(rows))["input_ids"]
            learner.step(rows, 4, PAIRS_FIRST)
        finally:
            gating_module._gated = plain
    vocabulary, keys = len(learner.vocabulary.words), learner.pair_keys.tolist()
    known = dict(zip(keys, kept.tolist(), strict=True))
    dropped = 0
    for row, text in enumerate(ids.tolist()):
        for i, one in enumerate(text):
            for j, two in enumerate(text):
                key = min(one, two) * vocabulary + max(one, two)
                counts = row % 2 == 0 or known.get(key, True)
                assert float(seen[0][row, i, j]) == float(counts)
                dropped += not counts
    assert dropped


def planted_texts(n: int, seed: int) -> list[str]:
    """Return texts of words that say nothing, and one that does: `good` or `bad`."""
    rng = np.random.default_rng(seed)
    idle = [word for word in tiny.WORDS if word not in ("good", "bad")]
    found = []
    for _ in range(n):
        words = list(rng.choice(idle, rng.integers(2, 10)))
        words.insert(rng.integers(len(words) + 1), ("good", "bad")[rng.integers(2)])
        found.append(" ".join(words))
    return found


@pytest.fixture(scope="module")
def planted() -> Subject:
    """A tiny BERT trained to tell texts with `good` from those with `bad`."""
    model, tokenizer = tiny.make("bert")
    model.config.num_labels = 2
    torch.manual_seed(0)
    subject = Subject(type(model)(model.config).eval(), tokenizer)
    texts = planted_texts(600, 3)
    tokens = subject.encode(texts, 20)
    goal = np.array([int("good" in text.split()) for text in texts])
    optimizer = torch.optim.Adam(subject.model.parameters(), lr=5e-3)
    batches = batches_by_length(tokens.lengths, 16)
    for place in np.random.default_rng(0).integers(len(batches), size=400):
        rows = batches[place]
        answer = subject.model(**subject.tensors(tokens.take(rows))).logits
        loss = torch.nn.functional.cross_entropy(answer, torch.from_numpy(goal[rows]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert np.mean(predict(subject, tokens) == goal) > 0.98
    return subject


def test_the_words_that_decide_are_found(planted: Subject) -> None:
    settings = replace(
        MESSAGES, epochs=12, words_kept=0.3, sparse_words=0.3, word_rate=0.01, held_out=60
    )
    masks = learn_masks(Masks, planted, planted_texts(600, 4), settings)
    score = dict(zip(masks.words, masks.word_scores, strict=True))
    idle = [float(score[w]) for w in tiny.WORDS if w not in ("good", "bad")]
    # One of the two is enough to tell the classes apart.
    assert max(score["good"], score["bad"]) > np.quantile(idle, 0.9)
    kept = masks.summary()
    assert kept.words_kept / kept.words < 0.5
    tests = planted_texts(300, 5)
    fidelity = fidelity_on(planted, masks, tests, 20)
    rolled = replace(masks, word_scores=np.roll(masks.word_scores, 7))
    assert fidelity > 0.95
    assert fidelity > fidelity_on(planted, rolled, tests, 20) + 0.1


@WAYS
def test_masks_that_keep_everything_and_send_no_message_have_full_fidelity(
    settings: LearningSettings,
) -> None:
    subject, texts = subject_of(), tiny.texts(50, 1)
    masks = learn_masks(Masks, subject, texts, settings)
    everything = replace(masks.with_thresholds(0.0, 0.0), message=None)
    assert fidelity_on(subject, everything, texts, 20) == 1.0


def test_fidelity_is_the_share_of_equal_predictions() -> None:
    subject = subject_of()
    tokens = subject.encode(tiny.texts(40, 6), 20)
    masks = replace(Masks.from_words(subject.tokenizer, ["good"]), message=None)
    plain = predict(subject, tokens)
    with inserted(
        subject,
        lambda ids, x: x * torch.from_numpy(masks.keep_words)[ids][..., None],
    ):
        masked = predict(subject, tokens)
    expected = float(np.mean(plain == masked))
    assert 0 < expected < 1
    assert agreement(subject, masks, tokens, plain) == expected


@WAYS
def test_masks_are_learnt_where_no_pair_is_frequent_enough(settings: LearningSettings) -> None:
    masks = learn_masks(Masks, subject_of(), tiny.texts(30, 1), replace(settings, min_count=10**6))
    assert len(masks.pair_keys) == 0
    assert masks.summary().pairs == 0
    assert fidelity_on(subject_of(), masks, tiny.texts(10, 2), 20) >= 0


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(MaskError, match="has no classes"):
        learn_masks(Masks, subject_of("gpt2"), tiny.texts(5), QUICK)
    half = subject_of()
    half.model.half()
    with pytest.raises(MaskError, match="float16"):
        learn_masks(Masks, half, tiny.texts(5), QUICK)
    for name, why in (("deberta", "does not take another"), ("bart_classifier", "its decoder")):
        with pytest.raises(MaskError, match=rf"gated \(.*{why}.*\): .* --pairs messages\.$"):
            learn_masks(Masks, subject_of(name), tiny.texts(5), QUICK)
    with pytest.raises(TextError, match="at least two texts"):
        learn_masks(Masks, subject_of(), ["good"], QUICK)
    broken = subject_of()
    torch.nn.init.constant_(broken.model.classifier.bias, math.nan)
    with pytest.raises(MaskError, match="diverged in step 1"):
        learn_masks(Masks, broken, tiny.texts(60, 1), QUICK)


def test_settings_are_checked_and_read_from_text() -> None:
    assert chosen_settings(False, ["epochs=3", "pair-rate=0.1", "texts=all"]) == replace(
        LearningSettings(), epochs=3, pair_rate=0.1, texts=None
    )
    assert chosen_settings(False, ["pairs=messages"]) == LearningSettings.messages()
    paper = chosen_settings(True, [])
    assert paper.pairs == "messages"
    assert {paper.word_rate, paper.pair_rate, paper.message_rate} == {1e-5}
    assert {paper.kl_pairs, paper.kl_words, paper.sparse_pairs} == {0.001}
    assert paper.sparse_words == 0
    for text, message in (
        ("epoch=3", "no setting 'epoch'; known are pairs, texts"),
        ("epochs=x", "`epochs` cannot be 'x'"),
        ("epochs=0", "`epochs` must be a whole number from 1"),
        ("words_kept=1.5", "`words_kept` must be a number from 0 to 1"),
        ("word_rate=nan", "`word_rate` must be a number"),
        ("pairs=both", "`pairs` must be attention or messages"),
        ("normalisation=symmetric", "`normalisation` is for --pairs messages, not attention"),
    ):
        with pytest.raises(SettingsError, match=message):
            chosen_settings(False, [text])
    with pytest.raises(SettingsError, match="`normalisation` must be mean or symmetric"):
        chosen_settings(False, ["pairs=messages", "normalisation=sum"])
    with pytest.raises(SettingsError, match="`pairs_kept` is for --pairs attention"):
        chosen_settings(True, ["pairs_kept=0.5"])
    with pytest.raises(SettingsError, match="the paper's settings pass messages"):
        chosen_settings(True, ["pairs=attention"])
