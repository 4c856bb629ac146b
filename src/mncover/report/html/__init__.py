"""The report as web pages that open from disk, without a network."""

from __future__ import annotations
