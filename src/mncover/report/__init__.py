"""Reports on a data file: each takes results and returns or prints them. No torch here."""

from __future__ import annotations
