"""Fixtures that several files of this folder use."""

from __future__ import annotations

from tests.engine.crews import small_windows

__all__ = ["small_windows"]
