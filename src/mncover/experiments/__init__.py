"""The paper's experiments and our own controls, one file each."""

from __future__ import annotations
