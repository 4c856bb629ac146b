"""Test suites: how they are read and judged. Nothing in a suite is ever executed."""

from __future__ import annotations
