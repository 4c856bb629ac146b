"""All that runs a model: subject, batches, taps, kernels, ranges, recorder."""

from __future__ import annotations
