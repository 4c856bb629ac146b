"""Notes what runs through a model, by context, and tells the texts from their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any

from mncover.types import Text

Ids = tuple[int, ...]


class Seen:
    """The token ids that run through a module, each once per context, while it is watched.

    `context` is set by whoever knows what is going on. Steps of a generation that continue what
    was seen before, from a cache of keys and values, are not noted.
    """

    def __init__(self, module: Any, tokenizer: Any) -> None:
        self.tokenizer, self.context = tokenizer, ""
        self._rows: dict[tuple[str, Ids], None] = {}
        self._lost: dict[str, int] = {}
        self._hook = module.register_forward_pre_hook(self._note, with_kwargs=True)

    def stop(self) -> None:
        """Leave the module as it was."""
        self._hook.remove()

    @property
    def contexts(self) -> set[str]:
        """The contexts in which something ran."""
        return {context for context, _ in self._rows} | self._lost.keys()

    def _note(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = dict(zip(("input_ids", "attention_mask"), args, strict=False)) | kwargs
        ids, mask = named.get("input_ids"), named.get("attention_mask")
        before = named.get("past_key_values")
        if before is not None and before.get_seq_length():
            return
        if ids is None:  # embeddings, whose tokens nobody knows
            self._lost[self.context] = self._lost.get(self.context, 0) + 1
            return
        real = ids >= 0 if mask is None or mask.shape != ids.shape else mask
        for row, kept in zip(ids, real, strict=True):
            self._rows.setdefault((self.context, tuple(row[kept.bool()].tolist())))

    def texts(self) -> tuple[list[tuple[str, Text]], int]:
        """Return contexts with their texts, in order, and how many inputs are no known text."""
        known = {ids: text_of(self.tokenizer, ids) for _, ids in self._rows}
        found = [(context, text) for context, ids in self._rows if (text := known[ids]) is not None]
        return found, sum(self._lost.values()) + len(self._rows) - len(found)


def text_of(tokenizer: Any, ids: Ids) -> Text | None:
    """Return a text, or a pair, that a tokenizer turns into these ids; None if none is found.

    Special tokens at the ends and between the sides of a pair may differ: mncover adds its own.
    With others inside, as chats have them, the ids must be the same.
    """
    wanted = _runs(tokenizer, ids)
    for text in _candidates(tokenizer, ids, wanted):
        sides = (text,) if isinstance(text, str) else text
        found = tokenizer(*sides, verbose=False)["input_ids"]
        if tuple(found) == ids or (len(wanted) <= 2 and _runs(tokenizer, found) == wanted):
            return text
    return None


def _candidates(tokenizer: Any, ids: Ids, runs: list[list[int]]) -> Iterator[Text]:
    parts = runs if 1 <= len(runs) <= 2 else []
    for clean in (False, True):  # some tokenizers undo what cleaning does, some do not
        decode = partial(tokenizer.decode, clean_up_tokenization_spaces=clean)
        if parts:
            sides = [str(decode(part)) for part in parts]
            yield sides[0] if len(sides) == 1 else (sides[0], sides[1])
        # With the special tokens inside, less those that the tokenizer adds at the ends.
        for some in (ids, ids[1:], ids[1:-1]):
            yield str(decode(list(some)))


def _runs(tokenizer: Any, ids: Any) -> list[list[int]]:
    """Return the ids between special tokens; unknown words and gaps to be filled are no such."""
    words = {tokenizer.unk_token_id, tokenizer.mask_token_id}
    special = set(tokenizer.all_special_ids) - words
    return [list(run) for apart, run in groupby(ids, special.__contains__) if not apart]
