"""Replace a word with a masked language model's guess."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from mncover.augment.judge import run_padded
from mncover.augment.transforms import words as w
from mncover.engine.batches import Tokens
from mncover.engine.loading import load_subject
from mncover.engine.subject import Subject
from mncover.errors import ModelError, SettingsError
from mncover.types import BETWEEN

if TYPE_CHECKING:
    from mncover.augment.transforms import Resources

# The number of best guesses to choose from, and the most tokens that the model sees.
BEST, LONGEST = 10, 128
_BATCH = 32

Masked = tuple[str, w.Word, str]  # the text before a word to be masked, the word, and what follows


@cache
def swap(resources: Resources) -> MaskedLM:
    """Return a change by the guesses of a fill-mask model, from a folder or the hub."""
    if resources.masked_lm is None:
        raise SettingsError(
            "WordSwapMaskedLM needs a fill-mask model: give its folder or hub name (--masked-lm)."
        )
    return MaskedLM(load_subject(resources.masked_lm, device=resources.device))


class MaskedLM:
    """Masks a word and replaces it with one of the model's best guesses."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        tokenizer, head = subject.tokenizer, subject.model.get_output_embeddings()
        if getattr(tokenizer, "mask_token", None) is None or head is None:
            raise ModelError(f"{subject.name}: not a fill-mask model: give one that is.")
        self.head: Any = head
        self.mask: str = tokenizer.mask_token
        self._masks = threading.local()  # where they are in the batch that a thread is running
        positions = getattr(subject.model.config, "max_position_embeddings", None) or LONGEST + 2
        limit = getattr(tokenizer, "model_max_length", None) or LONGEST
        self.longest = int(min(LONGEST, limit, positions - 2))  # some reserve two for padding
        self.words = _whole_words(tokenizer)
        self.numbers = torch.tensor(list(self.words), device=subject.device)

    def __call__(self, text: str, rng: random.Random) -> str | None:
        """Return the text with a word replaced, or None."""
        return self.many([text], [rng])[0]

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        """Return the results of single calls; the model sees the texts in batches."""
        drawn = [_masked(text, rng) for text, rng in zip(texts, rngs, strict=True)]
        masked = {i: one for i, one in enumerate(drawn) if one is not None}
        found: list[str | None] = [None] * len(texts)
        guesses = self._guesses(list(masked.values()))
        for (i, (_, word, _)), best in zip(masked.items(), guesses, strict=True):
            others = [new for new in best if not w.same_word(new, word.text.lower())][:BEST]
            if others:  # sorted, as the order of near ties may depend on the batch
                found[i] = w.replaced(texts[i], word, rngs[i].choice(sorted(others)))
        return found

    def _guesses(self, masked: Sequence[Masked]) -> list[list[str]]:
        """Return the model's best whole words for each mask, best first."""
        tokens = self._encoded(masked)
        mask = self.subject.tokenizer.mask_token_id
        masks = [ids.tolist().index(mask) for ids in tokens.ids()]
        found: list[list[str]] = [[] for _ in masked]

        def run(rows: list[int]) -> list[list[int]]:
            return self._best(tokens.take(rows), [masks[i] for i in rows])

        # The head, the largest matrix of a small model, is run only on the states of the masks.
        with self.head.register_forward_pre_hook(self._at_masks):
            for rows, best in run_padded(self.subject, tokens, _BATCH, run):
                for i, numbers in zip(rows, best, strict=True):
                    found[i] = [self.words[number] for number in numbers]
        return found

    def _at_masks(self, module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0][self._masks.places][:, None],)

    @torch.inference_mode()
    def _best(self, tokens: Tokens, masks: Sequence[int]) -> list[list[int]]:
        """Return the ids of the best words for each mask of a batch."""
        rows = torch.arange(len(masks), device=self.subject.device)
        places = self._masks.places = rows, torch.tensor(masks, device=self.subject.device)
        logits = self.subject.call(self.subject.model, self.subject.padded(tokens)).logits
        # A model may use its head's weights without calling it: then there are other tokens too.
        logits = logits[places] if logits.shape[1] > 1 else logits[:, 0]
        # A few more, as some may be forms of the masked word itself.
        most = min(BEST + 4, len(self.words))
        best = logits.float()[:, self.numbers].topk(most, dim=1).indices
        found: list[list[int]] = self.numbers[best].tolist()
        return found

    def _encoded(self, masked: Sequence[Masked]) -> Tokens:
        """Tokenise the texts; those that are too long are cut on both sides of the mask."""

        def encode(some: Sequence[Masked]) -> Tokens:
            return self.subject.encode([self._window(*one, width) for one in some], 10**9)

        width = 8 * self.longest
        tokens = encode(masked)
        while width and len(long := np.flatnonzero(tokens.lengths > self.longest)):
            width //= 2
            tokens = tokens.replaced(long, encode([masked[i] for i in long.tolist()]))
        return tokens

    def _window(self, before: str, word: w.Word, after: str, width: int) -> str:
        """Return the mask with `width` characters on both sides; earlier masks are dropped."""
        start = before[-width:] if width else ""
        return f"{start.replace(self.mask, ' ')}{self.mask}{after[:width]}"


def _masked(text: str, rng: random.Random) -> Masked | None:
    """Draw a word, and split its side of a pair there."""
    found = w.content_words(text)
    if not found:
        return None
    word = rng.choice(found)
    before = text[: word.start].rpartition(BETWEEN)[2]
    return before, word, text[word.end :].partition(BETWEEN)[0]


def _whole_words(tokenizer: Any) -> dict[int, str]:
    """Return the tokens that are whole words, by id, without names and stop words.

    In a WordPiece vocabulary, pieces of words start with "##"; in others, words start with the
    sign for a space.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    pieces = any(token.startswith("##") for token in vocabulary)
    signs = [] if pieces else [s for s in "\u0120\u2581" if any(t[0] == s for t in vocabulary if t)]
    special = set(tokenizer.all_special_ids)
    words = {n: t if not signs else t[1:] if t[:1] in signs else "" for t, n in vocabulary.items()}
    return {n: words[n] for n in sorted(words) if w.is_plain(words[n]) and n not in special}
