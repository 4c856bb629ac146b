"""Learn the masks of a classifier: train a WIMask layer in front of the frozen model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from mncover.engine.batches import Encoding, batches_by_length
from mncover.engine.loading import fingerprint_model, fingerprint_tokenizer
from mncover.engine.masking import PairTable
from mncover.engine.measure import Advance
from mncover.engine.subject import Subject
from mncover.errors import MaskError, TextError
from mncover.masks.checkpoint import Checkpoint, Progress, state_of
from mncover.masks.fidelity import agreement, predict
from mncover.masks.masks import FIDELITY, Masks
from mncover.masks.settings import LearningSettings
from mncover.masks.vocabulary import count_pairs, vocabulary
from mncover.masks.wimask import Logits, WIMask, inserted, kl_to_half, straight_through
from mncover.types import Text, fingerprint_texts

# How often an epoch is interrupted to look at the held-out texts and to save a checkpoint.
LOOKS_PER_EPOCH = 4
# Held-out fidelity counts once no more words are kept than asked, or hardly more.
NEARLY = 0.005


@dataclass(frozen=True, slots=True)
class Sample:
    """Texts as tokens, and the class that the plain model predicts for each."""

    encodings: list[Encoding]
    targets: NDArray[np.int64]

    def part(self, start: int, stop: int | None) -> Sample:
        """Return some of the texts."""
        return Sample(self.encodings[start:stop], self.targets[start:stop])

    def __len__(self) -> int:
        return len(self.encodings)


def learn_masks(
    subject: Subject,
    texts: Sequence[Text],
    settings: LearningSettings | None = None,
    advance: Advance = lambda n: None,
    checkpoint: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Masks:
    """Learn which words and pairs a classifier's predictions on the texts need.

    The model is left as it was found. `advance` is told how many texts each step had. With a
    `checkpoint` path, interrupted learning goes on from there, and gives the same masks; `say`
    is told so. The checkpoint stays: remove it once the masks are saved.
    """
    chosen = settings or LearningSettings()
    require_classifier(subject)
    subject.check_length(chosen.max_length)
    with frozen(subject):
        learner = Learner(subject, _sample(subject, texts, chosen), chosen)
        saved = None if checkpoint is None else Checkpoint(checkpoint, _key(subject, texts, chosen))
        learner.fit(advance, saved, say)
        facts = {
            "model": subject.name,
            "texts": len(learner.train),
            "held out": len(learner.held),
            FIDELITY: learner.held_out_fidelity(),
            "settings": asdict(chosen),
        }
        return replace(learner.masks(), facts=facts)


def require_classifier(subject: Subject) -> None:
    """Refuse a model that has no classes, or numbers too coarse for gradients."""
    if subject.n_labels < 2:
        raise MaskError(
            f"{subject.name}: masks are learnt from a classifier's predictions, "
            "and this model has no classes."
        )
    if subject.dtype == torch.float16:
        raise MaskError("gradients vanish in float16: learn masks with --dtype float32.")


@contextmanager
def frozen(subject: Subject) -> Iterator[None]:
    """Put a model into evaluation mode without gradients for its weights, and back."""
    with ExitStack() as undo:
        undo.enter_context(subject.measuring())
        for weight in [p for p in subject.model.parameters() if p.requires_grad]:
            undo.callback(weight.requires_grad_, True)
            weight.requires_grad_(False)
        yield


def _sample(subject: Subject, texts: Sequence[Text], settings: LearningSettings) -> Sample:
    """Draw the texts to learn from, in an order of their own."""
    order = np.random.default_rng(settings.seed).permutation(len(texts))[: settings.texts]
    encodings = subject.encode([texts[i] for i in order], settings.max_length)
    encodings = [encoding for encoding in encodings if encoding.length]
    if len(encodings) < 2:
        raise TextError("learning masks needs at least two texts, one of them to be held out.")
    return Sample(encodings, predict(subject, encodings))


def _key(subject: Subject, texts: Sequence[Text], settings: LearningSettings) -> dict[str, Any]:
    """Return what must be the same for learning to go on where it stopped."""
    return {
        "model": fingerprint_model(subject.model),
        "tokenizer": fingerprint_tokenizer(subject.tokenizer),
        "texts": fingerprint_texts(texts),
        "settings": asdict(settings),
        "device": subject.device.type,
    }


class Learner:
    """One layer, its optimiser, and the texts it learns from and is judged on."""

    def __init__(self, subject: Subject, sample: Sample, settings: LearningSettings) -> None:
        self.subject, self.settings = subject, settings
        held = max(1, min(settings.held_out, len(sample) // 10))
        self.held, self.train = sample.part(0, held), sample.part(held, None)
        self.embeddings: Tensor = subject.traced.get_input_embeddings().weight.detach()
        self.vocabulary = vocabulary(subject.tokenizer, len(self.embeddings))
        ids = [encoding.inputs["input_ids"] for encoding in self.train.encodings]
        n_words, special = len(self.vocabulary.words), self.vocabulary.special
        self.word_counts = np.bincount(np.concatenate(ids), minlength=n_words).astype(np.int64)
        self.pair_keys, self.pair_counts = count_pairs(ids, n_words, special, settings.min_count)
        self.seen = np.setdiff1d(np.flatnonzero(self.word_counts), special)
        self.layer = self._new_layer()
        self.optimizer = torch.optim.Adam(
            [
                {"params": [self.layer.pair_logits], "lr": settings.pair_rate},
                {"params": [self.layer.message], "lr": settings.message_rate},
                {"params": self.layer.word_parameters(), "lr": settings.word_rate},
            ]
        )
        self._rates = [group["lr"] for group in self.optimizer.param_groups]

    def _new_layer(self) -> WIMask:
        settings, device = self.settings, self.subject.device
        table = PairTable(
            torch.from_numpy(self.pair_keys).to(device),
            torch.from_numpy(self.vocabulary.special).to(device),
            len(self.vocabulary.words),
        )
        layer = WIMask(
            table,
            width=self.embeddings.shape[1],
            scale=1.0 / float(self.embeddings.float().std()),
            hidden=settings.word_hidden,
            normalisation=settings.normalisation,
        )
        layer.start(
            settings.seed, settings.start_pairs, settings.start_words, settings.start_message
        )
        return layer

    def fit(
        self,
        advance: Advance,
        checkpoint: Checkpoint | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Train until the epochs are over or held-out fidelity no longer rises."""
        steps = self._steps()
        interval = max(1, len(steps) // (self.settings.epochs * LOOKS_PER_EPOCH))
        progress = self._resumed(checkpoint, say)
        advance(sum(len(rows) for rows in steps[: progress.step]))
        while progress.step < len(steps) and progress.stale < self.settings.patience:
            rows = steps[progress.step]
            self.step(rows, progress.step, 1 - progress.step / len(steps))
            progress.step += 1
            advance(len(rows))
            if progress.step % interval == 0:
                self._look(progress)
                if checkpoint is not None:
                    checkpoint.save(progress, self.layer, self.optimizer)
        if progress.kept is not None:
            self.layer.load_state_dict(progress.kept)

    def _look(self, progress: Progress) -> None:
        """Judge the layer on held-out texts, once it masks out as many words as asked."""
        if self.words_kept() > self.settings.words_kept + NEARLY:
            return
        fidelity = self.held_out_fidelity()
        progress.stale += 1
        if fidelity > progress.best:
            progress.best, progress.stale, progress.kept = fidelity, 0, state_of(self.layer)

    def _resumed(self, checkpoint: Checkpoint | None, say: Callable[[str], None]) -> Progress:
        if checkpoint is None or not checkpoint.path.exists():
            return Progress()
        saved = checkpoint.load(self.layer, self.optimizer)
        if saved is None:
            say(f"{checkpoint.path} belongs to other learning: starting afresh.")
            return Progress()
        say(f"Going on with {checkpoint.path}: {saved.step:,} steps are done.")
        return saved

    def _steps(self) -> list[list[int]]:
        """Return the texts of each step: batches of equal length, in a random order."""
        steps: list[list[int]] = []
        size = 1 if self.subject.single_rows else self.settings.batch_size
        for epoch in range(self.settings.epochs):
            random = np.random.default_rng([self.settings.seed, epoch])
            order = random.permutation(len(self.train))
            lengths = [self.train.encodings[i].length for i in order]
            batches = list(batches_by_length(lengths, size))
            shuffled = (batches[place] for place in random.permutation(len(batches)))
            steps += [[int(order[i]) for i in batch] for batch in shuffled]
        return steps

    def step(self, rows: list[int], number: int, pace: float) -> None:
        """Learn from one batch, with `pace` times the learning rates."""
        for group, rate in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = rate * pace
        device = self.subject.device
        random = torch.Generator(device).manual_seed(self.settings.seed * 1_000_003 + number)
        seen: list[Logits] = []

        def change(ids: Tensor, embeddings: Tensor) -> Tensor:
            seen.append(self.layer.logits(ids, embeddings))
            drawn = seen[-1].draw(self.settings.temperature, random)
            return self.layer.forward(embeddings, *drawn)

        inputs = self.subject.tensors([self.train.encodings[row] for row in rows])
        with inserted(self.subject, change):
            answer = self.subject.model(**inputs).logits.float()
        target = torch.from_numpy(self.train.targets[rows]).to(device)
        loss = cross_entropy(answer, target) + self.regulariser(seen[0])
        if not torch.isfinite(loss):
            raise MaskError(f"learning went astray in step {number + 1}: try smaller rates.")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def regulariser(self, logits: Logits) -> Tensor:
        """Return the terms of the loss that ask for few and undecided words and pairs."""
        settings = self.settings
        words = logits.words[logits.word_learnt]
        pairs = logits.pairs[logits.pair_learnt]
        total = torch.zeros((), device=words.device)
        if len(words):
            total = total + settings.kl_words * kl_to_half(words).mean()
        if len(pairs):
            total = total + settings.kl_pairs * kl_to_half(pairs).mean()
            total = total + settings.sparse_pairs * pairs.sigmoid().mean()
        if settings.sparse_words and len(self.seen):
            surplus = straight_through(self._seen_logits()).mean() - settings.words_kept
            total = total + settings.sparse_words * surplus.clamp(min=0)
        return total

    def _seen_logits(self) -> Tensor:
        logits: Tensor = self.layer.word_logits(self.embeddings[self.seen].float())
        return logits

    def words_kept(self) -> float:
        """Return the share of the words of the training texts that count at present."""
        with torch.no_grad():
            return float((self._seen_logits() >= 0).float().mean()) if len(self.seen) else 1.0

    def held_out_fidelity(self) -> float:
        """Return the share of held-out texts predicted as without masks."""
        return agreement(self.subject, self.masks(), self.held.encodings, self.held.targets)

    def masks(self) -> Masks:
        """Return what was learnt, cut at a half."""
        with torch.no_grad():
            words = self.layer.word_logits(self.embeddings.float()).sigmoid().cpu().numpy()
            pairs = self.layer.pair_logits.sigmoid().cpu().numpy()
        return Masks(
            self.vocabulary.fingerprint,
            self.vocabulary.words,
            self.vocabulary.special,
            words,
            self.word_counts,
            self.pair_keys,
            pairs,
            self.pair_counts,
            message=self.layer.message.detach().cpu().numpy(),
            normalisation=self.settings.normalisation,
        )
