"""Measurements of speed and memory; run them with `make bench`."""

from __future__ import annotations
