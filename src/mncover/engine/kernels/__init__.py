"""The loops from values to bins, one implementation per kind of device."""

from __future__ import annotations
