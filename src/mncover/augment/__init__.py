"""New texts out of old ones: transformations, templates, and the search guided by coverage."""

from __future__ import annotations
