"""Which cases are worth a look: scores, budgets, filters, chance. No torch here."""

from __future__ import annotations
