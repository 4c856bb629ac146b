"""Lets a causal language model answer: greedily, in batches of equal length, with its cache.

The decoding is transformers' own: an answer is what `model.generate(do_sample=False)` gives.
Prompts of one length run together, because padding would change the last digits. What was answered
is remembered: a model that does not sample answers a prompt in one way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mncover.data.prompting import Prompting
from mncover.engine.batches import Tokens, batches_by_length, distinct, parallel, staged
from mncover.errors import SettingsError

Ids = NDArray[np.int32]
_NOTHING = np.empty(0, dtype=np.int32)


class Runner(Protocol):
    """What is needed to run the model: `Subject` has it."""

    @property
    def workers(self) -> int:
        """How many batches may run at a time."""

    @property
    def device(self) -> torch.device:
        """Where the model is."""

    def limits(self, batch_size: int | None) -> tuple[int, int]:
        """Return how many texts and how many tokens a batch may have."""

    def measuring(self, attention: str) -> AbstractContextManager[None]:
        """Put the model into the state it is run in."""


class Stops:
    """Says which rows of a batch have said one of some strings; transformers asks it each time."""

    def __init__(self, tokenizer: Any, stop: Sequence[str], start: int) -> None:
        self.tokenizer, self.stop, self.start = tokenizer, stop, start

    def __call__(self, ids: Tensor, scores: Any, **options: Any) -> Tensor:
        """Return a truth value for each row."""
        said = self.tokenizer.batch_decode(ids[:, self.start :], skip_special_tokens=True)
        found = [any(one in text for one in self.stop) for text in said]
        return torch.tensor(found, device=ids.device)


class Answerer:
    """Answers prompts, and remembers what was answered."""

    def __init__(self, model: Any, tokenizer: Any, prompting: Prompting) -> None:
        self.model, self.tokenizer, self.prompting = model, tokenizer, prompting
        config = model.generation_config
        ends = config.eos_token_id if config.eos_token_id is not None else []
        self.ends = {int(one) for one in (ends if isinstance(ends, list) else [ends])}
        first = next(iter(self.ends), 0)
        self.pad = config.pad_token_id if config.pad_token_id is not None else first
        self._known: dict[bytes, Ids] = {}

    def __len__(self) -> int:
        return len(self._known)

    def known_since(self, n: int) -> dict[bytes, Ids]:
        """Return what was answered after the first `n` answers, by prompt."""
        return dict(islice(self._known.items(), n, None))

    def learn(self, known: Mapping[bytes, Ids]) -> None:
        """Remember what the same model has answered elsewhere."""
        self._known.update(known)

    def beyond(self, max_length: int) -> int:
        """Return how many tokens more than `max_length` are run; refuse one that is too small."""
        most, read = self.prompting.generate, self.prompting.read
        least = {"prompt": 1, "answer": most, "both": most + 1}[read]
        if max_length < least:
            raise SettingsError(
                f"`max_length` is {max_length}, too short to read {read} of up to {most} tokens: "
                f"it must be at least {least}."
            )
        return 0 if read == "both" else most

    def read_of(self, prompts: Tokens, runner: Runner) -> Tokens:
        """Return the tokens that are to be read of prompts and their answers."""
        if self.prompting.read == "prompt":
            return prompts
        answers = self.answers(prompts, runner)
        joined = [np.concatenate(pair) for pair in zip(prompts.ids(), answers, strict=True)]
        spans = np.array([len(ids) for ids in joined], dtype=np.int64)
        flat = np.concatenate(joined).astype(np.int32)
        before = prompts.lengths if self.prompting.read == "answer" else None
        lengths = spans if before is None else spans - before
        return Tokens({"input_ids": flat}, lengths, prompts.truncated, before)

    def answers(self, prompts: Tokens, runner: Runner) -> list[Ids]:
        """Return the tokens of the answer to each prompt; those not known yet are generated."""
        keys = [ids.tobytes() for ids in prompts.ids()]
        new = [i for i in distinct(prompts)[0].tolist() if keys[i] not in self._known]
        left = prompts.take(new)
        batches = batches_by_length(left.lengths, *runner.limits(None))
        kind = "sdpa" if getattr(self.model, "_supports_sdpa", False) else "eager"
        with runner.measuring(kind), parallel(runner.workers) as each:
            inputs = (inputs for _, inputs in staged(left, batches, runner.device))
            for rows, said in zip(batches, each(self._run, inputs), strict=True):
                for row, ids in zip(rows.tolist(), said, strict=True):
                    self._known[keys[new[row]]] = ids
        return [self._known.get(key, _NOTHING) for key in keys]

    @torch.inference_mode()
    def _run(self, inputs: dict[str, Tensor]) -> list[Ids]:
        ids = inputs["input_ids"]
        options: dict[str, Any] = {}
        if self.prompting.stop:
            options["stopping_criteria"] = [
                Stops(self.tokenizer, self.prompting.stop, ids.shape[1])
            ]
        found = self.model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            num_beams=1,
            max_new_tokens=self.prompting.generate,
            pad_token_id=self.pad,
            **options,
        )
        rows = found[:, ids.shape[1] :].cpu().numpy().astype(np.int32)
        return [self._cut(row) for row in rows]

    def _cut(self, ids: Ids) -> Ids:
        """Return an answer without the padding behind its end, or behind a stop string."""
        ends = np.flatnonzero(np.isin(ids, list(self.ends)))
        ids = ids[: ends[0] + 1] if len(ends) else ids
        if not self.prompting.stop:
            return ids
        low, high = 1, len(ids)
        if self.text(ids) == self._decoded(ids):  # nothing stopped it
            return ids
        while low < high:  # the first token with which a stop string is complete
            middle = (low + high) // 2
            stopped = self.text(ids[:middle]) != self._decoded(ids[:middle])
            low, high = (low, middle) if stopped else (middle + 1, high)
        return ids[:low]

    def text(self, ids: Ids) -> str:
        """Return an answer as text, up to the first stop string."""
        said = self._decoded(ids)
        places = [place for one in self.prompting.stop if (place := said.find(one)) >= 0]
        return said[: min(places)] if places else said

    def _decoded(self, ids: Ids) -> str:
        return str(self.tokenizer.decode(ids.tolist(), skip_special_tokens=True))
