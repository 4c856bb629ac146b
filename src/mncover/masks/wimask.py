"""The WIMask layer: which words, and which pairs of words, does a classifier's answer need?

It sits in a frozen model. Each word's embedding is let through or not, and so is each pair of
words: in the model's attention or, as in the paper, where words pass messages along a graph of
pairs before the first layer. Both are random while they are learnt, and cut at a threshold
afterwards. Fidelity is how often the model then answers as without masks. docs/masks.md has the
formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from mncover.engine.batches import Tokens, batches_by_length, staged
from mncover.engine.gating import check_gating, gating
from mncover.engine.loading import fingerprint_tokenizer
from mncover.engine.masking import MaskTable, PairTable
from mncover.engine.subject import Subject
from mncover.errors import MaskError, TextError
from mncover.masks.cut import ZERO, Cut
from mncover.masks.settings import LearningSettings, Normalisation
from mncover.masks.vocabulary import Integers
from mncover.types import Text

if TYPE_CHECKING:
    from mncover.masks.masks import Masks

CERTAIN = 60.0  # the logit of what always counts: its probability rounds to exactly 1


@dataclass(frozen=True, slots=True)
class Logits:
    """How strongly each word [n, T] and each pair [n, T, T] of a batch counts.

    `word_learnt` and `pair_learnt` say where a parameter decides: not for special tokens, a word
    with itself, or pairs that training did not see. A pair appears twice in `pairs`, but once in
    `pair_learnt`, above the diagonal.
    """

    words: Tensor
    pairs: Tensor
    word_learnt: Tensor
    pair_learnt: Tensor

    def draw(self, temperature: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw which words and pairs count; both entries of a pair get the same draw."""
        words = draw_bernoulli(self.words, _uniform(self.words, generator), temperature)
        upper = _uniform(self.pairs, generator).triu()
        both = upper + upper.triu(1).mT
        return words, draw_bernoulli(self.pairs, both, temperature)

    def of_words(self) -> Logits:
        """Return them as if no parameter decided on pairs."""
        return replace(self, pair_learnt=torch.zeros_like(self.pair_learnt))

    def of_pairs(self) -> Logits:
        """Return them as if no parameter decided on words."""
        return replace(self, word_learnt=torch.zeros_like(self.word_learnt))

    def penalty(self, settings: LearningSettings) -> Tensor:
        """Return the terms of the loss that reward undecided words, and few, undecided pairs."""
        words, pairs = self.words[self.word_learnt], self.pairs[self.pair_learnt]
        total = torch.zeros((), device=words.device)
        if len(words):
            total = total + settings.kl_words * kl_to_half(words).mean()
        if len(pairs):
            total = total + settings.kl_pairs * kl_to_half(pairs).mean()
            total = total + settings.sparse_pairs * pairs.sigmoid().mean()
        return total


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return random numbers strictly between 0 and 1, so that their logarithms are finite."""
    numbers = torch.rand(like.shape, generator=generator, device=generator.device)
    return numbers.clamp(1e-7, 1 - 1e-7).to(like.device)


class WIMask(nn.Module):
    """A logit for each pair seen, a matrix for messages, and a small network for words.

    Word embeddings are multiplied by `scale` before the network sees them, because their size
    differs between models and would set the speed of learning. Logits start equal, the matrix
    and the network's hidden layer at random. In attention there are no messages; instead, a
    pair's logit is its own number plus one for each of its words, so that rare pairs learn from
    others.
    """

    def __init__(self, table: PairTable, width: int, scale: float, how: LearningSettings) -> None:
        super().__init__()
        device, random = table.keys.device, torch.Generator().manual_seed(how.seed)

        def noise(columns: int, size: float) -> nn.Parameter:
            drawn = torch.randn(width, columns, generator=random)
            return nn.Parameter((drawn * (size * width**-0.5)).to(device))

        def filled(value: float, *shape: int) -> nn.Parameter:
            return nn.Parameter(torch.full(shape, float(value), device=device))

        self.table, self.scale = table, scale
        self.pair_logits = filled(how.start_pairs, len(table.keys))
        messages = how.pairs == "messages"
        self.message = noise(width, how.start_message) if messages else None
        self.pair_words = None if messages else filled(0.0, table.vocabulary)
        self.word_hidden = noise(how.word_hidden, 1.0)
        self.word_weight = filled(0.0, how.word_hidden or width)
        self.word_bias = filled(how.start_words)

    def word_logits(self, embeddings: Tensor) -> Tensor:
        """Return the logits [..., T] of words from their embeddings [..., T, width]."""
        features = embeddings * self.scale
        if self.word_hidden.shape[1]:
            features = torch.relu(features @ self.word_hidden)
        return features @ self.word_weight + self.word_bias

    def every_pair(self) -> Tensor:
        """Return the logits of all pairs seen."""
        if self.pair_words is None:
            return self.pair_logits
        ends = (self.table.keys // self.table.vocabulary, self.table.keys % self.table.vocabulary)
        return self.pair_logits + self.pair_words[ends[0]] + self.pair_words[ends[1]]

    def logits(self, ids: Tensor, embeddings: Tensor, cut: Cut = ZERO) -> Logits:
        """Return how strongly each word and each pair of a batch counts."""
        places, special = self.table.places(ids), self.table.always(ids)
        seen = places >= 0
        pairs = torch.full_like(places, CERTAIN, dtype=torch.float32)
        if len(self.pair_logits):
            learnt = self.pair_logits[places.clamp(min=0)]
            if self.pair_words is not None:
                words = self.pair_words[ids]
                learnt = learnt + words[:, :, None] + words[:, None, :]
            pairs = torch.where(seen, (learnt - cut.at) / cut.noise, pairs)
        words = self.word_logits(embeddings).masked_fill(special, CERTAIN)
        return Logits(words, pairs, ~special, seen.triu(1))


def pass_through(
    x: Tensor, words: Tensor, pairs: Tensor, message: Tensor | None, how: Normalisation
) -> Tensor:
    """Return words * (x + ReLU(normalised pairs @ x @ message)); no message: words * x."""
    if message is not None:
        x = x + torch.relu(normalised(pairs, how) @ x @ message)
    return words[..., None] * x


def normalised(pairs: Tensor, how: Normalisation) -> Tensor:
    """Return a graph [n, T, T] with every row a mean, or scaled by both ends' degrees."""
    degree = pairs.sum(-1).clamp(min=1.0)  # a word is its own neighbour
    if how == "mean":
        return pairs / degree[..., None]
    root = degree.rsqrt()
    return root[..., None] * pairs * root[..., None, :]


def draw_bernoulli(logits: Tensor, uniform: Tensor, temperature: float) -> Tensor:
    """Draw 0 or 1 with probability sigmoid(logits); the gradient is that of a soft draw.

    `uniform` holds random numbers in (0, 1). This is the Gumbel-softmax of two classes: the
    difference of their two Gumbel noises is logistic.
    """
    noise = uniform.log() - (-uniform).log1p()
    return straight_through((logits + noise) / temperature)


def straight_through(logits: Tensor) -> Tensor:
    """Cut probabilities at a half, with the gradient that they have uncut."""
    soft = logits.sigmoid()
    return (soft >= 0.5).to(soft.dtype) + (soft - soft.detach())  # brackets: exactly 0 or 1


def kl_to_half(logits: Tensor) -> Tensor:
    """Return KL(Bernoulli(p) || Bernoulli(1/2)) for p = sigmoid(logits).

    It is 0 at a half and log 2 at 0 and 1; written in logits, it and its gradient stay finite.
    """
    p = logits.sigmoid()
    return math.log(2) - (p * softplus(-logits) + (1 - p) * softplus(logits))


@contextmanager
def inserted(subject: Subject, change: Callable[[Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Let `change(ids, embeddings)` replace the word embeddings while the block runs."""
    module: Any = subject.traced.get_input_embeddings()

    def hook(module: Any, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return change(arguments[0], output.float()).to(output.dtype)

    with module.register_forward_hook(hook):
        yield


BATCH_SIZE = 128


def predict(subject: Subject, tokens: Tokens) -> Integers:
    """Return the class that the model predicts for each text."""
    found = np.full(len(tokens), -1, dtype=np.int64)
    size = 1 if subject.single_rows else BATCH_SIZE
    batches = batches_by_length(tokens.lengths, size)
    with torch.inference_mode():
        for batch, inputs in staged(tokens, batches, subject.device):
            found[batch.rows] = subject.model(**inputs).logits.argmax(-1).cpu().numpy()
    return found


def fidelity_on(
    subject: Subject, masks: Masks, texts: Sequence[Text], max_length: int = 128
) -> float:
    """Return the fidelity of masks: the share of texts that keep their prediction."""
    if subject.n_labels < 2:
        raise MaskError(f"{subject.name} has no classes, so there is no fidelity to measure.")
    masks.require_tokenizer(fingerprint_tokenizer(subject.tokenizer))
    if masks.pairs == "attention":
        check_gating(subject)
    tokens = subject.encode(texts, max_length).with_tokens()
    if not len(tokens):
        raise TextError("there is no text to measure fidelity on.")
    with subject.measuring():
        return agreement(subject, masks, tokens, predict(subject, tokens))


def agreement(subject: Subject, masks: Masks, tokens: Tokens, plain: Integers) -> float:
    """Return the share of texts whose prediction through the masks equals the plain one."""
    return float(agreeing(subject, masks, tokens, plain).mean())


def agreeing(subject: Subject, masks: Masks, tokens: Tokens, plain: Integers) -> NDArray[np.bool_]:
    """Return for each text whether its prediction through the masks equals the plain one."""
    with through(subject, masks):
        kept: NDArray[np.bool_] = predict(subject, tokens) == plain
        return kept


@contextmanager
def through(subject: Subject, masks: Masks) -> Iterator[None]:
    """Let a model see only what masks keep while the block runs."""
    table, message = MaskTable(masks, subject.device), None
    if masks.message is not None:
        message = torch.from_numpy(masks.message).to(subject.device)

    with ExitStack() as stack:
        attention = masks.pairs == "attention"
        gate = stack.enter_context(gating(subject)) if attention else None

        def change(ids: Tensor, embeddings: Tensor) -> Tensor:
            words, pairs = table.tokens_of(ids).float(), table.pairs_of(ids).float()
            if gate is None:
                return pass_through(embeddings, words, pairs, message, masks.normalisation)
            gate.pairs = pairs
            return words[..., None] * embeddings

        stack.enter_context(inserted(subject, change))
        yield
