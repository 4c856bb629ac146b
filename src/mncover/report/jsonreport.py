"""The results as JSON; docs/commands/json.md explains every field."""

from __future__ import annotations

from typing import Any

import numpy as np

from mncover.data import CoverageData
from mncover.results import ContextResult, Count, Result, Tally, gain_share, novelty
from mncover.table import UNKNOWN
from mncover.version import __version__

# 1: the first.
FORMAT_VERSION = 1


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
        "totals": _tally(result.tally),
        "contexts": [_context(context) for context in result.contexts],
        "sites": [
            {
                "site": site.name,
                "kind": site.kind,
                "layer": site.layer,
                **_count(site.count),
                "heads": [_count(head) for head in site.heads],
            }
            for site in result.sites
        ],
    }


def rows_to_json(data: CoverageData) -> list[dict[str, Any]]:
    """Return one dictionary per text that was run; what is not known is None."""
    table, identity = data.table, data.identity
    gains = gain_share(
        identity.layout, identity.settings, table["new_hidden"], table["new_attention"]
    )
    new = novelty(data)
    rows = []
    for i, text in enumerate(table.texts):
        known = table["new_hidden"][i] != UNKNOWN
        probabilities = table.probabilities[i]
        rows.append(
            {
                "run": data.runs[table["run"][i]].id,
                "context": data.contexts[table["context"][i]],
                "index": int(table["index"][i]),
                "text": text,
                "length": int(table["length"][i]),
                "truncated": bool(table["truncated"][i]),
                "label": _class(table["label"][i], identity.labels),
                "prediction": _class(table["prediction"][i], identity.labels),
                "probabilities": None
                if np.isnan(probabilities).any() or not len(probabilities)
                else [float(p) for p in probabilities],
                "gain": float(gains[i]) if known else None,
                "novelty": float(new[i]) if known else None,
            }
        )
    return rows


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


def _context(context: ContextResult) -> dict[str, Any]:
    return {
        "context": context.name,
        "texts": context.texts,
        "truncated": context.truncated,
        "empty": context.empty,
        **_tally(context.tally),
        "adds": context.adds,
        "only_here": context.only_here,
        "redundant": context.redundant,
        "labelled": context.labelled,
        "wrong": context.wrong,
        "accuracy": context.accuracy,
    }
