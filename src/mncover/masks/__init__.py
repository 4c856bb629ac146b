"""Which words and pairs of words count: apply masks, learn them, and how faithful they are."""

from __future__ import annotations
