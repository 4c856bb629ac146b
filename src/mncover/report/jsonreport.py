"""The results as JSON; docs/commands/json.md explains every field."""

from __future__ import annotations

from typing import Any

import numpy as np

from mncover.criteria import COVER, METRICS, MNCOVER, Metric
from mncover.data.results import (
    ContextResult,
    Contribution,
    Count,
    Result,
    Tally,
    gain_share,
    novelty,
)
from mncover.data.store import CoverageData
from mncover.data.table import NEW_BINS, UNKNOWN
from mncover.report.describe import outcomes_to_json
from mncover.types import __version__

# 1: the first. 2: mnCover.
FORMAT_VERSION = 2


def to_json(result: Result) -> dict[str, Any]:
    """Return the results as plain dictionaries, lists and numbers."""
    identity = result.identity
    return {
        "format": FORMAT_VERSION,
        "version": __version__,
        "model": identity.model,
        "model_fingerprint": identity.model_fingerprint,
        "settings": identity.settings.to_json(),
        "calibration_texts": identity.calibration_texts,
        "redundant_at": result.redundant_at,
        "interrupted": list(result.interrupted),
        "texts": result.texts,
        "totals": {**_tally(result.tally), "masked": _masked(result.masked)},
        "masks": None if identity.masks is None else identity.masks.to_json(),
        "contexts": [_context(context) for context in result.contexts],
        "tests": outcomes_to_json(result.outcomes),
        "sites": [
            {
                "site": site.name,
                "kind": site.kind,
                "layer": site.layer,
                **_count(site.count),
                "heads": [_count(head) for head in site.heads],
                "masked": None if site.masked is None else _count(site.masked),
                "masked_heads": [_count(head) for head in site.masked_heads],
            }
            for site in result.sites
        ],
    }


def rows_to_json(data: CoverageData) -> list[dict[str, Any]]:
    """Return one dictionary per text that was run; what is not known is None."""
    table, identity = data.table, data.identity
    gains = {metric: _gains(data, metric) for metric in METRICS}
    new = novelty(data)
    rows = []
    for i, text in enumerate(table.texts):
        known = gains[COVER][i] is not None
        probabilities = table.probabilities[i]
        rows.append(
            {
                "run": data.runs[table["run"][i]].id,
                "context": data.contexts[table["context"][i]],
                "index": int(table["index"][i]),
                "case": None if table["case"][i] == UNKNOWN else int(table["case"][i]),
                "text": text,
                "length": int(table["length"][i]),
                "truncated": bool(table["truncated"][i]),
                "label": _class(table["label"][i], identity.labels),
                "prediction": _class(table["prediction"][i], identity.labels),
                "probabilities": None
                if np.isnan(probabilities).any() or not len(probabilities)
                else [float(p) for p in probabilities],
                "gain": gains[COVER][i],
                "mncover_gain": gains[MNCOVER][i],
                "novelty": float(new[i]) if known else None,
            }
        )
    return rows


def _gains(data: CoverageData, metric: Metric) -> list[float | None]:
    """Return what each text added to a metric, or None where it is not known."""
    hidden, attention = (data.table[NEW_BINS[metric, kind]] for kind in (0, 1))
    shares = gain_share(data.identity.layout, data.identity.settings, hidden, attention)
    return [
        None if bins == UNKNOWN else float(share)
        for bins, share in zip(hidden, shares, strict=True)
    ]


def _class(number: int, labels: tuple[str, ...]) -> str | None:
    return None if number == UNKNOWN else labels[number]


def _count(count: Count) -> dict[str, Any]:
    return {
        "covered": count.covered,
        "total": count.total,
        "reachable": count.reachable,
        "share": count.share,
        "share_of_reachable": count.share_of_reachable,
    }


def _tally(tally: Tally) -> dict[str, Any]:
    return {
        "cover": tally.cover,
        "cover_of_reachable": tally.cover_of_reachable,
        "word": _count(tally.word),
        "attention": _count(tally.attention),
    }


def _masked(tally: Tally | None) -> dict[str, Any] | None:
    """Return the bins that masks let count; what is called `cover` above is mnCover here."""
    if tally is None:
        return None
    return {
        "mncover": tally.cover,
        "mncover_of_reachable": tally.cover_of_reachable,
        "word": _count(tally.word),
        "attention": _count(tally.attention),
    }


def _contribution(masked: Contribution | None) -> dict[str, Any] | None:
    if masked is None:
        return None
    tally = _masked(masked.tally) or {}
    return {**tally, "adds": masked.adds, "only_here": masked.only_here}


def _context(context: ContextResult) -> dict[str, Any]:
    return {
        "context": context.name,
        "texts": context.texts,
        "truncated": context.truncated,
        "empty": context.empty,
        **_tally(context.tally),
        "adds": context.adds,
        "only_here": context.only_here,
        "masked": _contribution(context.masked),
        "redundant": context.redundant,
        "labelled": context.labelled,
        "wrong": context.wrong,
        "accuracy": context.accuracy,
        "judged": context.judged,
        "failing": context.failing,
        "failure_rate": context.failure_rate,
    }
