"""A demonstration that needs no network: a small sentiment model, a suite, calibration texts."""

from __future__ import annotations
