"""What the model answers through masks that are drawn, while they are learnt.

In attention pairs are learnt first, with all words in place, then words: pairs that are learnt
beside words that come and go are less faithful.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from mncover.engine.gating import gating
from mncover.engine.subject import Subject
from mncover.masks.cut import Cut, cut_at, exact_cut
from mncover.masks.settings import LearningSettings
from mncover.masks.wimask import Logits, WIMask, inserted, pass_through

PAIRS_FIRST = 1 / 2  # of the steps; the rest is for words


class Stage(NamedTuple):
    """What is learnt now, and which share of that is done."""

    learnt: Literal["pairs", "words", "both"]
    done: float


def stage_at(done: float, settings: LearningSettings) -> Stage:
    """Return the stage of learning when a share `done` of all steps is done."""
    if settings.pairs == "messages":
        return Stage("both", done)
    if done < PAIRS_FIRST:
        return Stage("pairs", done / PAIRS_FIRST)
    return Stage("words", (done - PAIRS_FIRST) / (1 - PAIRS_FIRST))


class Draws:
    """Draws masks from a layer and lets the model answer through them."""

    def __init__(self, subject: Subject, layer: WIMask, settings: LearningSettings) -> None:
        self.subject, self.layer, self.settings = subject, layer, settings

    def answer(self, inputs: dict[str, Tensor], number: int, stage: Stage) -> tuple[Tensor, Logits]:
        """Return the model's logits for a batch in a step, and those of what is learnt in it."""
        seed = self.settings.seed * 1_000_003 + number
        random = torch.Generator(self.subject.device).manual_seed(seed)
        if stage.learnt == "both":
            return self._through_messages(inputs, random)
        if stage.learnt == "pairs":
            return self._with_every_word(inputs, random, stage.done)
        return self._with_fixed_pairs(inputs, random, number)

    def _through_messages(
        self, inputs: dict[str, Tensor], random: torch.Generator
    ) -> tuple[Tensor, Logits]:
        seen = list[Logits]()

        def change(ids: Tensor, embeddings: Tensor) -> Tensor:
            seen.append(self.layer.logits(ids, embeddings))
            drawn = seen[0].draw(self.settings.temperature, random)
            return pass_through(embeddings, *drawn, self.layer.message, self.settings.normalisation)

        with inserted(self.subject, change):
            return self.subject.model(**inputs).logits.float(), seen[0]

    def _with_every_word(
        self, inputs: dict[str, Tensor], random: torch.Generator, done: float
    ) -> tuple[Tensor, Logits]:
        seen, cut = list[Logits](), cut_at(self.layer.every_pair().detach(), done, self.settings)
        with gating(self.subject) as gate:

            def change(ids: Tensor, embeddings: Tensor) -> Tensor:
                logits = self.layer.logits(ids, embeddings, cut)
                _, gate.pairs = logits.draw(self.settings.temperature, random)
                seen.append(logits.of_pairs())
                return embeddings

            with inserted(self.subject, change):
                return self.subject.model(**inputs).logits.float(), seen[0]

    def _with_fixed_pairs(
        self, inputs: dict[str, Tensor], random: torch.Generator, number: int
    ) -> tuple[Tensor, Logits]:
        seen = list[Logits]()
        with gating(self.subject) as gate:

            def change(ids: Tensor, embeddings: Tensor) -> Tensor:
                logits = self.layer.logits(ids, embeddings, self._last_cut)
                words, _ = logits.draw(self.settings.temperature, random)
                # All pairs of every second text count, so that words are right without pairs too.
                whole = (torch.arange(len(ids), device=ids.device) + number) % 2 == 0
                kept = (logits.pairs >= 0).to(words.dtype)
                gate.pairs = torch.where(whole[:, None, None], 1.0, kept).detach()
                seen.append(logits.of_words())
                return words[..., None] * embeddings

            with inserted(self.subject, change):
                return self.subject.model(**inputs).logits.float(), seen[0]

    @cached_property
    def _last_cut(self) -> Cut:
        """Where pairs are cut once they are learnt."""
        return Cut(exact_cut(self.layer.every_pair().detach(), self.settings.pairs_kept), 1.0)
