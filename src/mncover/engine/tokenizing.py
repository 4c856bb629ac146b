"""Calls a tokenizer, or the Rust one behind it, so that texts come back as tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import numpy as np

from mncover.engine.batches import Tokens
from mncover.types import Text, well_formed


def well_formed_text(text: Text) -> Text:
    """Return a text that UTF-8 can carry, or such a pair."""
    if isinstance(text, str):
        return well_formed(text)
    return well_formed(text[0]), well_formed(text[1])


def columns(found: Sequence[Any], names: Sequence[str]) -> Tokens:
    """Return what a Rust tokenizer found."""
    fields = {"input_ids": "ids", "token_type_ids": "type_ids"}
    lists = {name: map(attrgetter(fields[name]), found) for name in names if name in fields}
    return Tokens.of(lists, map(len, found), (bool(one.overflowing) for one in found))


@contextmanager
def set_to_cut(backend: Any, tokenizer: Any, max_length: int) -> Iterator[None]:
    """Make a Rust tokenizer cut texts, and not pad them, as a call would; put it back after."""
    truncation, padding = backend.truncation, backend.padding
    special = backend.encode_special_tokens
    backend.enable_truncation(max_length, direction=tokenizer.truncation_side)
    backend.no_padding()
    backend.encode_special_tokens = tokenizer.split_special_tokens
    try:
        yield
    finally:
        backend.encode_special_tokens = special
        backend.no_truncation() if truncation is None else backend.enable_truncation(**truncation)
        backend.no_padding() if padding is None else backend.enable_padding(**padding)


def called(tokenizer: Any, names: Sequence[str], texts: Sequence[Text], max_length: int) -> Tokens:
    """Tokenise by calling a tokenizer, which takes either single texts or pairs at a time."""
    pairs = np.array([isinstance(text, tuple) for text in texts])
    if pairs.any() and not pairs.all():
        kinds = np.flatnonzero(~pairs), np.flatnonzero(pairs)
        parts = [
            called(tokenizer, names, [texts[i] for i in rows.tolist()], max_length)
            for rows in kinds
        ]
        return Tokens.joined(parts).take(np.argsort(np.concatenate(kinds)))

    def call(some: Sequence[Text], cut: bool, **options: Any) -> Tokens:
        sides = zip(*some, strict=True) if pairs[0] else [some]
        found = tokenizer(*map(list, sides), verbose=False, **options)
        lists = {name: found[name] for name in names if name in found}
        return Tokens.of(lists, map(len, found["input_ids"]), [cut] * len(some))

    tokens = call(texts, cut=False)
    long = np.flatnonzero(tokens.lengths > max_length)
    if not len(long):
        return tokens
    some = [texts[i] for i in long.tolist()]
    return tokens.replaced(long, call(some, cut=True, truncation=True, max_length=max_length))
