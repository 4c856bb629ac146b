"""What was measured: layout, maps, table, data file, results. The lowest room; no torch here."""

from __future__ import annotations
