"""The WIMask layer: which words, and which pairs of words, does a classifier's answer need?

It stands between a frozen model's word embeddings and the rest of the model. Words pass
messages along a graph of pairs, then each word is let through or not. Both the pairs and the
words are random while they are learnt, and cut at a threshold afterwards. docs/masks.md has the
formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from mncover.engine.masking import PairTable
from mncover.engine.subject import Subject
from mncover.masks.settings import Normalisation

Change = Callable[[Tensor, Tensor], Tensor]


# Of a word or pair that always counts: so large that its probability is exactly 1.
CERTAIN = 60.0


@dataclass(frozen=True, slots=True)
class Logits:
    """How strongly each word [n, T] and each pair [n, T, T] of a batch counts.

    `word_learnt` and `pair_learnt` say where that is a parameter's doing: not for special
    tokens, a word with itself, and pairs that training did not see. A pair is in `pairs` twice,
    in `pair_learnt` once, above the diagonal.
    """

    words: Tensor
    pairs: Tensor
    word_learnt: Tensor
    pair_learnt: Tensor

    def draw(self, temperature: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw which words and pairs count; both places of a pair get the same draw."""
        words = draw_bernoulli(self.words, _uniform(self.words, generator), temperature)
        upper = _uniform(self.pairs, generator).triu()
        both = upper + upper.triu(1).mT
        return words, draw_bernoulli(self.pairs, both, temperature)


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    """Return random numbers strictly between 0 and 1, so that their logarithms are finite."""
    numbers = torch.rand(like.shape, generator=generator, device=generator.device)
    return numbers.clamp(1e-7, 1 - 1e-7).to(like.device)


class WIMask(nn.Module):
    """A logit per pair seen, a matrix for messages, and a one-layer network for words.

    `scale` is what word embeddings are multiplied by before the network sees them, so that
    their size, which differs between models, does not set the speed of learning.
    """

    def __init__(
        self,
        table: PairTable,
        width: int,
        scale: float,
        hidden: int,
        normalisation: Normalisation = "mean",
    ) -> None:
        super().__init__()
        device = table.keys.device
        self.table = table
        self.scale = scale
        self.normalisation: Normalisation = normalisation
        self.pair_logits = nn.Parameter(torch.zeros(len(table.keys), device=device))
        self.message = nn.Parameter(torch.zeros(width, width, device=device))
        self.word_hidden = nn.Parameter(torch.zeros(width, hidden, device=device))
        self.word_weight = nn.Parameter(torch.zeros(hidden or width, device=device))
        self.word_bias = nn.Parameter(torch.zeros((), device=device))

    def start(self, seed: int, pair_logit: float, word_logit: float, message: float) -> None:
        """Set what learning starts from: equal logits, and a random matrix of a given size."""
        generator = torch.Generator().manual_seed(seed)
        width = len(self.message)
        with torch.no_grad():
            noise = torch.randn(width, width, generator=generator)
            self.message.copy_(noise * (message * width**-0.5))
            noise = torch.randn(self.word_hidden.shape, generator=generator)
            self.word_hidden.copy_(noise * width**-0.5)
            self.pair_logits.fill_(pair_logit)
            self.word_bias.fill_(word_logit)

    def word_logits(self, embeddings: Tensor) -> Tensor:
        """Return the logits [..., T] of words from their embeddings [..., T, width]."""
        features = embeddings * self.scale
        if self.word_hidden.shape[1]:
            features = torch.relu(features @ self.word_hidden)
        return features @ self.word_weight + self.word_bias

    def word_parameters(self) -> list[nn.Parameter]:
        """Return the parameters of the network for words."""
        return [self.word_hidden, self.word_weight, self.word_bias]

    def logits(self, ids: Tensor, embeddings: Tensor) -> Logits:
        """Return how strongly each word and each pair of a batch counts."""
        places = self.table.places(ids)
        seen = places >= 0
        pairs = torch.full_like(places, CERTAIN, dtype=torch.float32)
        if len(self.pair_logits):
            pairs = torch.where(seen, self.pair_logits[places.clamp(min=0)], pairs)
        special = self.table.always(ids)
        words = self.word_logits(embeddings).masked_fill(special, CERTAIN)
        return Logits(words, pairs, ~special, seen.triu(1))

    def forward(self, embeddings: Tensor, words: Tensor, pairs: Tensor) -> Tensor:
        """Mix the embeddings [n, T, width] along pairs and let the chosen words through."""
        return pass_through(embeddings, words, pairs, self.message, self.normalisation)


def pass_through(
    embeddings: Tensor,
    words: Tensor,
    pairs: Tensor,
    message: Tensor | None,
    normalisation: Normalisation,
) -> Tensor:
    """Return words * (x + ReLU(normalised pairs @ x @ message)); no message: words * x."""
    mixed = embeddings
    if message is not None:
        mixed = embeddings + torch.relu(normalised(pairs, normalisation) @ embeddings @ message)
    return words[..., None] * mixed


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
    soft = ((logits + noise) / temperature).sigmoid()
    return _hardened(soft)


def straight_through(logits: Tensor) -> Tensor:
    """Cut probabilities at a half, with the gradient that they have uncut."""
    return _hardened(logits.sigmoid())


def _hardened(soft: Tensor) -> Tensor:
    """Return 0 or 1 with the gradient of `soft`."""
    return (soft >= 0.5).to(soft.dtype) + (soft - soft.detach())  # brackets: exactly 0 or 1


def kl_to_half(logits: Tensor) -> Tensor:
    """Return KL(Bernoulli(p) || Bernoulli(1/2)) for p = sigmoid(logits).

    It is 0 at a half and log 2 at 0 and 1; written in logits, it and its gradient stay finite.
    """
    p = logits.sigmoid()
    entropy = p * softplus(-logits) + (1 - p) * softplus(logits)
    return math.log(2) - entropy


@contextmanager
def inserted(subject: Subject, change: Change) -> Iterator[None]:
    """Let `change(ids, embeddings)` replace the word embeddings while the block runs."""
    module: Any = subject.traced.get_input_embeddings()

    def hook(module: Any, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return change(arguments[0], output.float()).to(output.dtype)

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
