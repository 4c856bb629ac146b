"""Ask a masked language model for a word in the place of one."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mncover.augment.transforms.inflection import same_word
from mncover.augment.transforms.kinds import Transform
from mncover.augment.transforms.words import Word, common_words, is_stop_word, replaced
from mncover.engine.batches import Encoding, batches_with_padding
from mncover.engine.loading import load_subject
from mncover.engine.parallel import side_by_side
from mncover.engine.subject import Subject
from mncover.errors import ModelError, SettingsError
from mncover.types import BETWEEN

# How many of the model's words are chosen from, and how many tokens it sees at most.
BEST, LONGEST = 10, 128
_BATCH = 32


class Masked(NamedTuple):
    """A word to be masked, with the text before and behind it."""

    before: str
    word: Word
    after: str


class _Places(threading.local):
    """Where the masks of the batch are that a thread runs."""

    rows: Tensor
    columns: Tensor


class MaskedLM:
    """WordSwapMaskedLM: masks a word and takes one of the model's best guesses."""

    name = "WordSwapMaskedLM"
    needs_model = True

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        tokenizer, head = subject.tokenizer, subject.model.get_output_embeddings()
        if getattr(tokenizer, "mask_token", None) is None or head is None:
            raise ModelError(f"{subject.name}: it is no fill-mask model; name one that is.")
        self.head: Any = head
        self.mask: str = tokenizer.mask_token
        self._places = _Places()
        self.longest = _longest(subject)
        self.words = _whole_words(tokenizer)
        self.numbers = torch.tensor(list(self.words), device=subject.device)

    def __call__(self, text: str, rng: random.Random) -> str | None:
        """Return the text with another word in the place of one, or None."""
        return self.many([text], [rng])[0]

    def many(self, texts: Sequence[str], rngs: Sequence[random.Random]) -> list[str | None]:
        """Return what the calls one by one would; the model sees the texts in batches."""
        chosen = [_one_word(text, rng) for text, rng in zip(texts, rngs, strict=True)]
        places = [i for i, word in enumerate(chosen) if word is not None]
        masked = [_masked(texts[i], word) for i in places if (word := chosen[i]) is not None]
        found: list[str | None] = [None] * len(texts)
        for i, (_, word, _), best in zip(places, masked, self._guesses(masked), strict=True):
            guesses = [g for g in best if not same_word(g, word.text.lower())][:BEST]
            # By the alphabet: near ties must not be decided by which texts were run together.
            guesses.sort()
            if guesses:
                found[i] = replaced(texts[i], word, rngs[i].choice(guesses))
        return found

    def _guesses(self, masked: Sequence[Masked]) -> list[list[str]]:
        """Return the model's best whole words for each mask, the best first."""
        encodings = self._encoded(masked)
        mask = self.subject.tokenizer.mask_token_id
        masks = [encoding.inputs["input_ids"].index(mask) for encoding in encodings]
        found: list[list[str]] = [[] for _ in masked]

        def run(rows: list[int]) -> tuple[list[int], list[list[int]]]:
            return rows, self._best([encodings[i] for i in rows], [masks[i] for i in rows])

        n = self.subject.lanes
        batches = batches_with_padding([one.length for one in encodings], _BATCH, n)
        with (
            self.subject.evaluating(),
            self._head_on_masks(),
            side_by_side(min(n, len(batches))) as run_all,
        ):
            for rows, best in run_all(run, batches):
                for i, numbers in zip(rows, best, strict=True):
                    found[i] = [self.words[number] for number in numbers]
        return found

    @contextmanager
    def _head_on_masks(self) -> Iterator[None]:
        """Let the head, the largest matrix of a small model, work on the masks' states only."""

        def only_masks(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            return (inputs[0][self._places.rows, self._places.columns][:, None],)

        handle = self.head.register_forward_pre_hook(only_masks)
        try:
            yield
        finally:
            handle.remove()

    @torch.inference_mode()
    def _best(self, encodings: Sequence[Encoding], masks: Sequence[int]) -> list[list[int]]:
        """Return the numbers of the best words for each mask of a batch."""
        wanted = self._logits(encodings, masks)[:, self.numbers]
        # A few more than needed: some may be forms of the masked word itself.
        best = wanted.topk(min(BEST + 4, len(self.words)), dim=1).indices
        found: list[list[int]] = self.numbers[best].tolist()
        return found

    def _logits(self, encodings: Sequence[Encoding], masks: Sequence[int]) -> Tensor:
        """Return the logits [texts, vocabulary] at the masks."""
        rows = self._places.rows = torch.arange(len(masks), device=self.subject.device)
        columns = self._places.columns = torch.tensor(masks, device=self.subject.device)
        inputs = self.subject.padded(encodings)
        logits: Tensor = self.subject.call(self.subject.model, inputs).logits
        if logits.shape[1] > 1:  # a model that uses its head's weights without calling it
            return logits[rows, columns].float()
        return logits[:, 0].float()

    def _encoded(self, masked: Sequence[Masked]) -> list[Encoding]:
        """Tokenise the texts; one that is too long is cut on both sides of its mask."""
        width = 8 * self.longest
        encodings = self.subject.encode([self._window(m, width) for m in masked], 10**9)
        long = [i for i, encoding in enumerate(encodings) if encoding.length > self.longest]
        while long and width:
            width //= 2
            again = self.subject.encode([self._window(masked[i], width) for i in long], 10**9)
            for i, encoding in zip(long, again, strict=True):
                encodings[i] = encoding
            long = [i for i in long if encodings[i].length > self.longest]
        return encodings

    def _window(self, masked: Masked, width: int) -> str:
        """Return so many characters on both sides; the text's own masks before it are dropped."""
        before = masked.before[-width:] if width else ""
        return f"{before.replace(self.mask, ' ')}{self.mask}{masked.after[:width]}"


def _one_word(text: str, rng: random.Random) -> Word | None:
    found = [word for word in common_words(text) if not is_stop_word(word.text)]
    return rng.choice(found) if found else None


def _masked(text: str, word: Word) -> Masked:
    """Return the side of a pair that has the word, cut at the word."""
    before = text[: word.start].rpartition(BETWEEN)[2]
    return Masked(before, word, text[word.end :].partition(BETWEEN)[0])


def _longest(subject: Subject) -> int:
    """Return how many tokens a text may have; some models keep two positions for padding."""
    positions = getattr(subject.model.config, "max_position_embeddings", None) or LONGEST + 2
    limit = getattr(subject.tokenizer, "model_max_length", None) or LONGEST
    return int(min(LONGEST, limit, positions - 2))


def _whole_words(tokenizer: Any) -> dict[int, str]:
    """Return the tokens that are words of their own, by number: no pieces, names or stop words.

    A piece begins with "##" in a WordPiece vocabulary; elsewhere what begins with the sign for a
    space is none.
    """
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    pieces = any(token.startswith("##") for token in vocabulary)
    signs = [] if pieces else [s for s in "\u0120\u2581" if any(t[0] == s for t in vocabulary if t)]
    found = {}
    for token, number in sorted(vocabulary.items(), key=lambda item: item[1]):
        word = token[1:] if signs and token[:1] in signs else "" if signs else token
        if word.isascii() and word.isalpha() and word.islower() and not is_stop_word(word):
            found[number] = word
    for number in tokenizer.all_special_ids:
        found.pop(number, None)
    return found


def masked_lm_transform(model: str | None, device: str | None) -> Transform:
    """Return WordSwapMaskedLM with a fill-mask model, a folder or a name on the hub."""
    if model is None:
        raise SettingsError(
            "WordSwapMaskedLM needs a fill-mask model: name its folder or hub name (--masked-lm)."
        )
    return _loaded(model, device)


@cache
def _loaded(model: str, device: str | None) -> MaskedLM:
    return MaskedLM(load_subject(model, device=device))
