"""Turns texts into the prompts of a language model, as tokens; long texts are cut inside."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mncover.data.prompting import Prompting
from mncover.engine.batches import Tokens
from mncover.errors import ModelError, SettingsError
from mncover.types import Text, well_formed


class Prompter:
    """Makes prompts by a template, and by the tokenizer's chat template if that is asked for."""

    def __init__(self, tokenizer: Any, prompting: Prompting, names: Sequence[str]) -> None:
        self.tokenizer, self.prompting, self.names = tokenizer, prompting, names
        self._lock = Lock()  # a fast tokenizer is not to be used by two threads
        if prompting.chat and not getattr(tokenizer, "chat_template", None):
            raise SettingsError(
                "the tokenizer has no chat template: leave `chat` out, and write what stands "
                "around a text into `template`."
            )

    def example(self, text: str) -> str:
        """Return the prompt of a text, on both sides where the template wants a pair."""
        return self.prompt((text, text) if "{text_a}" in self.prompting.template else text)

    @property
    def digest(self) -> str:
        """A digest of the chat template, if it is used: it is no part of the tokenizer's own."""
        used = str(self.tokenizer.chat_template) if self.prompting.chat else ""
        return hashlib.sha256(used.encode()).hexdigest() if used else ""

    def prompt(self, text: Text) -> str:
        """Return the prompt of a text, as the model gets to read it."""
        filled = well_formed(self.prompting.filled(text))
        if not self.prompting.chat:
            return filled
        message = [{"role": "user", "content": filled}]
        try:
            made = self.tokenizer.apply_chat_template(
                message, tokenize=False, add_generation_prompt=True
            )
        except Exception as error:  # Jinja raises almost anything for what a stranger wrote
            why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
            raise ModelError(f"the chat template cannot be applied ({why}).") from error
        return str(made)

    def encode(self, texts: Sequence[Text], max_length: int) -> Tokens:
        """Return prompts as tokens; of a prompt that is too long, the end of its text is cut."""
        tokens = self._tokens([self.prompt(text) for text in texts])
        long = np.flatnonzero(tokens.lengths > max_length)
        if not len(long):
            return tokens
        cut = self._cut([texts[i] for i in long.tolist()], max_length)
        return tokens.replaced(long, self._tokens(cut, truncated=True))

    def ids(self, text: str) -> list[int]:
        """Return the tokens of what follows a prompt, or of a prompt's own text."""
        return [int(number) for number in self._tokens([text]).inputs["input_ids"]]

    def _tokens(self, prompts: Sequence[str], truncated: bool = False) -> Tokens:
        with self._lock:
            # A chat template brings the special tokens itself.
            special = not self.prompting.chat
            found = self.tokenizer(list(prompts), add_special_tokens=special, verbose=False)
        lists = {name: found[name] for name in self.names if name in found}
        return Tokens.of(lists, map(len, found["input_ids"]), [truncated] * len(prompts))

    def _cut(self, texts: Sequence[Text], max_length: int) -> list[str]:
        """Return the longest prompts that fit, by bisection: of a pair the longer side is cut."""
        low = np.zeros(len(texts), dtype=np.int64)
        high = np.array([max(map(len, _sides(text))) for text in texts], dtype=np.int64)
        least = self._lengths(texts, low)
        if (least > max_length).any():
            raise SettingsError(
                f"`max_length` is {max_length}, but the prompt takes {least.max()} tokens even "
                "without its text: raise it, or shorten the template."
            )
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._lengths(texts, middle) <= max_length
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return [self.prompt(_first(*one)) for one in zip(texts, low.tolist(), strict=True)]

    def _lengths(self, texts: Sequence[Text], characters: NDArray[np.int64]) -> NDArray[np.int64]:
        each = zip(texts, characters.tolist(), strict=True)
        return self._tokens([self.prompt(_first(*one)) for one in each]).lengths


def _sides(text: Text) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else text


def _first(text: Text, characters: int) -> Text:
    """Return the first characters of a text, or of each side of a pair."""
    if isinstance(text, str):
        return text[:characters]
    return text[0][:characters], text[1][:characters]
