"""Learn the masks of a classifier: train a WIMask layer in front of the frozen model.

`Masks` is passed in as `make`: it imports this module, so this module cannot import it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from mncover.data.files import Unfinished
from mncover.data.interrupts import held_back
from mncover.data.schema import Number, Whole, check_shape
from mncover.data.tensors import read_tensors, write_tensors
from mncover.engine.batches import batches_by_length
from mncover.engine.gating import GATED, check_gating
from mncover.engine.loading import fingerprint_model
from mncover.engine.masking import PairTable
from mncover.engine.subject import Subject
from mncover.errors import MaskError
from mncover.masks.cut import exact_cut
from mncover.masks.draws import Draws, stage_at
from mncover.masks.paid import attention_paid
from mncover.masks.proportional import Proportional
from mncover.masks.sample import draw_sample
from mncover.masks.settings import FIDELITY, LearningSettings
from mncover.masks.vocabulary import count_pairs, vocabulary
from mncover.masks.wimask import (
    Logits,
    WIMask,
    agreement,
    straight_through,
)
from mncover.types import Text, fingerprint_texts

if TYPE_CHECKING:
    from mncover.masks.masks import Masks

LOOKS_PER_EPOCH = 4  # how often the layer is judged on the held-out texts
STAGES = 4  # changes when the same settings learn in another way, so that no old state is taken up
NEARLY = 0.005  # by this much the share of words kept may exceed the one asked for

NUMBERS = ("step", "looked", "best", "stale")  # of `Progress`, in a file
_HEADER = {"key": {}, "best": Number(-1, 1)}
_HEADER |= dict.fromkeys(("step", "looked", "stale"), Whole())

Advance = Callable[[int], None]
State = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far learning is, and the state that was best `stale` looks ago.

    `looked` is the step after which the layer was last judged. A new object takes the place of
    the old in one step, so that an interrupt never finds half of one.
    """

    step: int = 0
    looked: int = 0
    best: float = -1.0
    stale: int = 0
    kept: State | None = None


def learn_masks(
    make: type[Masks],
    subject: Subject,
    texts: Sequence[Text],
    settings: LearningSettings,
    advance: Advance = lambda n: None,
    unfinished: Unfinished | None = None,
) -> Masks:
    """Learn which words and pairs a classifier's predictions on the texts need.

    The model is left as it was found. `advance` is told how many texts each step had. Learning
    that was interrupted resumes from `unfinished` and ends with the same masks; remove that once
    the masks are saved.
    """
    if subject.n_labels < 2:
        why = "masks are learnt from a classifier's predictions, and this model has no classes."
        raise MaskError(f"{subject.name}: {why}")
    if subject.dtype == torch.float16:
        raise MaskError("gradients vanish in float16: learn masks with --dtype float32.")
    subject.check_length(settings.max_length)
    attention = settings.pairs == "attention"
    if attention:
        check_gating(subject)
    with frozen(subject, GATED if attention else "eager"):
        learner = Learner(make, subject, texts, settings)
        with learner.saving(unfinished):
            learner.fit(advance, unfinished)
            fidelity = learner.held_out_fidelity()
        facts = {
            "model": subject.name,
            "texts": len(learner.train.tokens),
            "held out": len(learner.held.tokens),
            FIDELITY: fidelity,
            "settings": asdict(settings),
        }
        return replace(learner.masks(), facts=facts)


@contextmanager
def frozen(subject: Subject, attention: str = "eager") -> Iterator[None]:
    """Put a model into evaluation mode, without gradients for its weights, and back."""
    with subject.measuring(attention), ExitStack() as undo:
        for weight in [p for p in subject.model.parameters() if p.requires_grad]:
            undo.callback(weight.requires_grad_, True)
            weight.requires_grad_(False)
        yield


class Learner:
    """One layer, its optimizer, and the texts it learns from and is judged on."""

    def __init__(
        self, make: type[Masks], subject: Subject, texts: Sequence[Text], settings: LearningSettings
    ) -> None:
        self.make, self.subject, self.texts, self.settings = make, subject, texts, settings
        sample = draw_sample(subject, texts, settings)
        held = max(1, min(settings.held_out, len(sample.tokens) // 10))
        self.held, self.train = sample.part(0, held), sample.part(held)
        self.embeddings: Tensor = subject.traced.get_input_embeddings().weight.detach()
        self.vocabulary = vocabulary(subject.tokenizer, len(self.embeddings))
        ids = self.train.tokens.ids()
        n_words, special = len(self.vocabulary.words), self.vocabulary.special
        self.word_counts = np.bincount(np.concatenate(ids), minlength=n_words).astype(np.int64)
        self.pair_keys, self.pair_counts = count_pairs(ids, n_words, special, settings.min_count)
        self.seen = np.setdiff1d(np.flatnonzero(self.word_counts), special)
        keys, always = (torch.from_numpy(a).to(subject.device) for a in (self.pair_keys, special))
        table, width = PairTable(keys, always, n_words), self.embeddings.shape[1]
        scale = 1.0 / float(self.embeddings.float().std())
        self.layer = layer = WIMask(table, width, scale, settings)
        self.draws = Draws(subject, layer, settings)
        self.optimizers = _optimizers(layer, settings)
        self.progress = Progress()

    @cached_property
    def key(self) -> dict[str, Any]:
        """What must be the same for learning to resume."""
        return {
            "model": fingerprint_model(self.subject.model),
            "tokenizer": self.vocabulary.fingerprint,
            "texts": fingerprint_texts(self.texts),
            "stages": STAGES,
            "settings": asdict(self.settings),
            "device": self.subject.device.type,
        }

    def fit(self, advance: Advance, unfinished: Unfinished | None = None) -> None:
        """Train until the epochs are over or, in messages, held-out fidelity no longer rises."""
        steps = self._steps()
        if unfinished is not None:
            unfinished.load(self.read, lambda progress: f"{progress.step:,} steps")
            self._look(len(steps))  # an interrupt may have come in between
        if not self.progress.step:
            self._start()
        advance(sum(len(rows) for rows in steps[: self.progress.step]))
        while self.progress.step < len(steps) and self.progress.stale < self.settings.patience:
            number = self.progress.step
            self.step(steps[number], number, number / len(steps))
            advance(len(steps[number]))
            self._look(len(steps))
            if unfinished is not None and unfinished.is_time:
                unfinished.save(self.write)
        if self.progress.kept is not None:
            self.layer.load_state_dict(self.progress.kept)

    @contextmanager
    def saving(self, unfinished: Unfinished | None) -> Iterator[None]:
        """Save the state on Ctrl-C: it is whole between any two lines outside of `step`."""
        try:
            yield
        except KeyboardInterrupt:
            if unfinished is not None and self.progress.step:
                unfinished.save(self.write)
            raise

    def _start(self) -> None:
        """Let pairs start from the attention that the model pays them."""
        if self.settings.pairs == "attention" and self.settings.start_attention:
            paid = attention_paid(self.subject, self.train.tokens, self.layer.table)
            with torch.no_grad():
                self.layer.pair_logits.add_(self.settings.start_attention * paid)

    def _look(self, steps: int) -> None:
        """Judge the layer on held-out texts now and then, once it masks out as many as asked.

        In attention every stage runs to its end: words are not learnt before.
        """
        if self.settings.pairs == "attention":
            return
        progress, interval = self.progress, steps // (self.settings.epochs * LOOKS_PER_EPOCH)
        if progress.step % max(1, interval) or progress.looked == progress.step:
            return
        now = replace(progress, looked=progress.step)
        if self.words_kept() <= self.settings.words_kept + NEARLY:
            fidelity = self.held_out_fidelity()
            now = replace(now, stale=now.stale + 1)
            if fidelity > now.best:
                state = {name: value.clone() for name, value in self.layer.state_dict().items()}
                now = replace(now, best=fidelity, stale=0, kept=state)
        self.progress = now

    def write(self, path: Path) -> None:
        """Write everything that learning needs to resume: tensors, never a pickle."""
        progress = self.progress
        states = {"now.": self.layer.state_dict(), "kept.": progress.kept or {}}
        for name, one in self.optimizers.items():
            found = one.state_dict()["state"].items()
            states |= {f"{name}.{number}.": state for number, state in found}
        tensors = {part + n: t.cpu().numpy() for part, s in states.items() for n, t in s.items()}
        numbers = {name: getattr(progress, name) for name in NUMBERS}
        write_tensors(path, "mncover_learning", {"key": self.key, **numbers}, tensors)

    def read(self, path: Path) -> Progress | None:
        """Restore what `write` wrote; None if the file is damaged or belongs to other work."""
        header, arrays = read_tensors(path, "mncover_learning", checksum=True)
        check_shape(header, _HEADER, "header")
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        now, layer = _group(tensors, "now."), self.layer.state_dict()
        kept = _group(tensors, "kept.") or None
        alike = _same_shapes(now, layer) and (kept is None or _same_shapes(kept, layer))
        if header["key"] != json.loads(json.dumps(self.key)) or not alike:
            return None
        states = dict[str, dict[int, State]]()
        for name, one in self.optimizers.items():
            learnt = [each for group in one.param_groups for each in group["params"]]
            states[name] = {n: _group(tensors, f"{name}.{n}.") for n in range(len(learnt))}
            if not all(map(_STATES[name], states[name].values(), learnt)):
                return None
        self.layer.load_state_dict(now)
        for name, one in self.optimizers.items():
            one.load_state_dict({**one.state_dict(), "state": states[name]})
        numbers = {name: header[name] for name in NUMBERS}
        self.progress = Progress(**numbers, kept=kept)
        return self.progress

    def _steps(self) -> list[list[int]]:
        """Return the texts of each step: batches of equal length, in random order."""
        steps: list[list[int]] = []
        size = 1 if self.subject.single_rows else self.settings.batch_size
        for epoch in range(self.settings.epochs):
            random = np.random.default_rng([self.settings.seed, epoch])
            order = random.permutation(len(self.train.tokens))
            batches = batches_by_length(self.train.tokens.lengths[order], size)
            steps += [order[batches[place]].tolist() for place in random.permutation(len(batches))]
        return steps

    def step(self, rows: list[int], number: int, done: float) -> None:
        """Learn from one batch, when a share `done` of the steps is done.

        Rates fall to 0 in every stage. What is not learnt in a stage has no gradient in it.
        """
        stage = stage_at(done, self.settings)
        for one in self.optimizers.values():
            for group in one.param_groups:
                group["lr"] = group["rate"] * (1 - stage.done)
        inputs = self.subject.tensors(self.train.tokens.take(rows))
        answer, logits = self.draws.answer(inputs, number, stage)
        target = torch.from_numpy(self.train.targets[rows]).to(self.subject.device)
        loss = cross_entropy(answer, target) + self.regulariser(logits, stage.learnt)
        if not torch.isfinite(loss):
            raise MaskError(f"learning diverged in step {number + 1}: try smaller rates.")
        self.layer.zero_grad(set_to_none=True)
        if loss.requires_grad:  # not where no pair is frequent enough
            loss.backward()  # type: ignore[no-untyped-call]
        with held_back():
            for one in self.optimizers.values():
                one.step()
            self.progress = replace(self.progress, step=number + 1)

    def regulariser(self, logits: Logits, learnt: str = "both") -> Tensor:
        """Return the terms of the loss that reward few, and undecided, words and pairs."""
        settings, total = self.settings, logits.penalty(self.settings)
        if settings.sparse_words and len(self.seen) and learnt != "pairs":
            surplus = straight_through(self._seen_logits()).mean() - settings.words_kept
            total = total + settings.sparse_words * surplus.clamp(min=0)
        return total

    def _seen_logits(self) -> Tensor:
        return self.layer.word_logits(self.embeddings[self.seen].float())

    def words_kept(self) -> float:
        """Return the share of the training texts' words that currently count."""
        with torch.no_grad():
            return float((self._seen_logits() >= 0).float().mean()) if len(self.seen) else 1.0

    def held_out_fidelity(self) -> float:
        """Return the share of held-out texts that keep their prediction."""
        return agreement(self.subject, self.masks(), self.held.tokens, self.held.targets)

    def masks(self) -> Masks:
        """Return what has been learnt, cut at a half."""
        with torch.no_grad():
            words = self.layer.word_logits(self.embeddings.float()).sigmoid().cpu().numpy()
            logits, message, how = self.layer.every_pair(), self.layer.message, self.settings
            if how.pairs == "attention":
                logits = logits - exact_cut(logits, how.pairs_kept)
            pairs = logits.sigmoid().cpu().numpy()
        parts = (*self.vocabulary, words, self.word_counts, self.pair_keys, pairs, self.pair_counts)
        matrix = None if message is None else message.detach().cpu().numpy()
        return self.make(*parts, pairs=how.pairs, message=matrix, normalisation=how.normalisation)


def _optimizers(layer: WIMask, settings: LearningSettings) -> dict[str, Optimizer]:
    """Return what moves the parts of a layer, each with its learning rate."""
    pairs = {"params": [layer.pair_logits], "rate": settings.pair_rate}
    words = {
        "params": [layer.word_hidden, layer.word_weight, layer.word_bias],
        "rate": settings.word_rate,
    }
    if layer.pair_words is None:
        message = {"params": [layer.message], "rate": settings.message_rate}
        return {"adam": torch.optim.Adam([pairs, words, message])}
    shared = {"params": [layer.pair_words], "rate": settings.pair_word_rate}
    return {"adam": torch.optim.Adam([words]), "proportional": Proportional([pairs, shared])}


def _same_shapes(found: State, wanted: State) -> bool:
    """Return whether two states have the same names, types and shapes."""
    shapes = [{name: (t.shape, t.dtype) for name, t in s.items()} for s in (found, wanted)]
    return shapes[0] == shapes[1]


def _is_adam(state: State, parameter: Tensor) -> bool:
    """Return whether a state is one that Adam keeps of a parameter; none if it has no gradient."""
    return _is_state(state, dict.fromkeys(("exp_avg", "exp_avg_sq"), parameter))


def _is_proportional(state: State, parameter: Tensor) -> bool:
    """Return whether a state is one that `Proportional` keeps of a parameter."""
    return _is_state(state, {"square": parameter.new_zeros(())})


def _is_state(state: State, like: State) -> bool:
    fits = _same_shapes(state, {"step": torch.tensor(0.0), **like})
    return not state or (fits and 0 <= float(state["step"]) < 2**31)  # not so for NaN


_STATES = {"adam": _is_adam, "proportional": _is_proportional}


def _group(tensors: State, prefix: str) -> State:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
