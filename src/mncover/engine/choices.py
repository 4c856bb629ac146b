"""A causal language model as a classifier: the log-probabilities of whole choices.

A choice's score is the sum of the log-probabilities of all of its tokens behind the prompt. The
prompt is run once. Its last position gives the first token of every choice; what follows is run on
top of the prompt's cache, or, where a trial shows that the cache is not exact, behind the prompt
in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from mncover.engine.prompts import Prompter
from mncover.errors import SettingsError
from mncover.types import brief

# By how much a log-probability may differ between the cache and a run in full.
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-3}
ROUNDED = 0.1  # in half precision

Call = Callable[..., Any]  # runs the model on inputs


class Choices:
    """The choices of a model as tokens, and their probabilities behind a prompt."""

    def __init__(self, prompter: Prompter, prompt: str) -> None:
        self.names = prompter.prompting.choices
        self.by_length = prompter.prompting.normalise == "length"
        self.ids = [choice_ids(prompter, prompt, name) for name in self.names]
        each = zip(self.names, self.ids, strict=True)
        if twice := [name for name, ids in each if self.ids.count(ids) > 1]:
            same = " and ".join(map(repr, twice[:2]))
            raise SettingsError(f"the choices {same} are the same tokens to this model.")
        self.cached = False

    @property
    def longest(self) -> int:
        """How many tokens the longest choice has."""
        return max(map(len, self.ids))

    def try_cache(self, call: Call, inputs: dict[str, Tensor], kind: torch.dtype) -> None:
        """Score a prompt both ways, and use the cache from now on if that changes nothing."""
        if self.longest == 1:
            return
        plain = self.scores(call(inputs), inputs, call)
        self.cached = True
        try:
            found = self.scores(call(inputs), inputs, call)
        # Caches of many kinds raise almost anything if they cannot be repeated.
        except Exception:
            self.cached = False
            return
        worst = float((found - plain).abs().max())
        self.cached = worst <= TOLERANCE.get(kind, ROUNDED)

    def probabilities(self, output: Any, inputs: dict[str, Tensor], call: Call) -> Tensor:
        """Return the probability of every choice [texts, choices], given a run of the prompts."""
        return self.scores(output, inputs, call).softmax(-1)

    def scores(self, output: Any, inputs: dict[str, Tensor], call: Call) -> Tensor:
        """Return the log-probability of every choice [texts, choices]."""
        n = len(inputs["input_ids"])
        first = output.logits[:n, -1].float().log_softmax(-1)
        found = torch.stack([first[:, ids[0]] for ids in self.ids], dim=1)
        for length in sorted({len(ids) for ids in self.ids} - {1}):
            mine = [i for i, ids in enumerate(self.ids) if len(ids) == length]
            ids = torch.tensor([self.ids[i] for i in mine], device=first.device)
            logits = self._behind(output, inputs, ids[:, :-1], call)
            chances = logits.float().log_softmax(-1).view(n, len(mine), length - 1, -1)
            rest = chances.gather(-1, ids[None, :, 1:, None].expand(n, -1, -1, 1))
            found[:, mine] += rest.sum((2, 3))
        sizes = torch.tensor([len(ids) for ids in self.ids], device=first.device)
        return found / sizes if self.by_length else found

    def _behind(self, output: Any, inputs: dict[str, Tensor], ids: Tensor, call: Call) -> Tensor:
        """Return the logits at tokens [k, T] that follow each of n prompts, [n * k, T, words]."""
        n, (k, length) = len(inputs["input_ids"]), ids.shape
        tokens, options = ids.repeat(n, 1), {"logits_to_keep": length}
        if not self.cached:
            whole = torch.cat([inputs["input_ids"].repeat_interleave(k, 0), tokens], dim=1)
            logits: Tensor = call({"input_ids": whole}, **options).logits
            return logits[:, -length:]
        cache = deepcopy(output.past_key_values)  # running on top of it changes it
        if len(output.logits) > n:  # copies filled the batch up
            cache.batch_select_indices(torch.arange(n, device=ids.device))
        cache.batch_repeat_interleave(k)
        logits = call({"input_ids": tokens}, past_key_values=cache, **options).logits
        return logits[:, -length:]


def choice_ids(prompter: Prompter, prompt: str, choice: str) -> list[int]:
    """Return the tokens of a choice: what it adds to a prompt, behind a space if there is none."""
    behind = choice if prompt[-1:].isspace() else f" {choice}"
    before, whole = prompter.ids(prompt), prompter.ids(prompt + behind)
    if whole[: len(before)] != before:
        raise SettingsError(
            f"the choice {brief(choice)} melts into the end of the prompt for this tokenizer: "
            "end the template without a space."
        )
    if len(whole) == len(before):
        raise SettingsError(f"the choice {brief(choice)} has no tokens for this model.")
    return whole[len(before) :]


def require_causal(model: Any, labels: Sequence[str]) -> None:
    """Refuse a model that cannot go on with a text."""
    what, causal = type(model).__name__, "`choices` and `generate` are for causal language models"
    if labels:
        has = f"has classes of its own ({', '.join(labels[:5])})"
    elif getattr(model.config, "is_encoder_decoder", False):
        has = "is an encoder-decoder"
    elif not (hasattr(model, "can_generate") and model.can_generate()):
        has = "cannot go on with a text"
    else:
        return
    raise SettingsError(f"{what} {has}: {causal}.")
