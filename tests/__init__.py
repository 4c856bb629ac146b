"""The tests; each name says what it proves."""

from __future__ import annotations
