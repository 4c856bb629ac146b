"""The results as JSON; docs/commands/json.md explains every field. No torch here."""

from __future__ import annotations

import math
from typing import Any

from rich.console import Console

from mncover.data.counts import Count, Tally
from mncover.data.gains import gains, novelty
from mncover.data.results import ContextResult, Result
from mncover.data.store import CoverageData
from mncover.data.table import UNKNOWN
from mncover.report.columns import View
from mncover.report.describe import outcomes_to_json
from mncover.report.failures import changes_to_json
from mncover.report.notes import warnings_of
from mncover.report.plans import estimates_to_json
from mncover.report.screen import in_json, print_verbatim
from mncover.types import __version__

# 1: the first. 2: mnCover. 3: criteria by name, where there were fields of Cover and of mnCover.
FORMAT_VERSION = 3


def show(view: View, console: Console) -> None:
    """Print the results, with a row for each text if asked for."""
    content = to_json(view.result)
    if view.texts:
        content["rows"] = rows_to_json(view.data)
    if view.checks:
        content["gates"] = [check.to_json() for check in view.checks]
    if view.changes is not None:
        content["changes"] = changes_to_json(view.changes)
    print_verbatim(in_json(content, 2 if view.pretty else None), console)


def to_json(result: Result) -> dict[str, Any]:
    """Return the results as plain dictionaries, lists and numbers."""
    identity = result.identity
    return {
        "format": FORMAT_VERSION,
        "version": __version__,
        "model": identity.model,
        "model_fingerprint": identity.model_fingerprint,
        "settings": identity.settings.to_json(),
        "criteria": [
            {"name": one.name, "title": one.title, "cells": one.cells} for one in identity.criteria
        ],
        "calibration_texts": identity.calibration_texts,
        "adds_little_at": result.adds_little_at,
        "redundant_at": result.adds_little_at,
        "interrupted": list(result.interrupted),
        "parts": list(result.parts),
        "texts": result.n_texts,
        "totals": _totals(result),
        "warnings": warnings_of(result),
        "masks": None if identity.masks is None else identity.masks.to_json(),
        "prompting": None if identity.prompting.plain else identity.prompting.to_json(),
        "contexts": [_context(context) for context in result.contexts],
        "tests": outcomes_to_json(result.outcomes),
        "estimates": estimates_to_json(result.estimates),
        "sites": _sites(result),
    }


def rows_to_json(data: CoverageData) -> list[dict[str, Any]]:
    """Return one dictionary per text that was run; what is not known is None."""
    table, labels = data.table, data.identity.labels
    added = {name: _numbers(gains(data, name)) for name in data.identity.names}
    new, outside = _numbers(novelty(data)), _numbers(table["outside"].astype(float))
    return [
        {
            "run": data.runs[table["run"][i]].id,
            "context": data.contexts[table["context"][i]],
            "index": int(table["index"][i]),
            "case": None if table["case"][i] == UNKNOWN else int(table["case"][i]),
            "text": text,
            "length": int(table["length"][i]),
            "truncated": bool(table["truncated"][i]),
            "label": _class(table["label"][i], labels),
            "prediction": _class(table["prediction"][i], labels),
            "probabilities": _shares(table.probabilities[i].tolist()),
            "gains": {name: shares[i] for name, shares in added.items()},
            "novelty": new[i],
            "outside": outside[i],
            **_owner(int(table["owner"][i]), float(table["owned"][i])),
            **({"answer": table.answers[i]} if table.answers else {}),
        }
        for i, text in enumerate(table.texts)
    ]


def _owner(row: int, share: float) -> dict[str, Any]:
    return {"owner": None, "owned": None} if row == UNKNOWN else {"owner": row, "owned": share}


def _numbers(values: Any) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


def _shares(values: list[float]) -> list[float] | None:
    return None if not values or any(map(math.isnan, values)) else values


def _class(number: int, labels: tuple[str, ...]) -> str | None:
    return None if number == UNKNOWN else labels[number]


def _totals(result: Result) -> dict[str, Any]:
    """Return what all texts together cover, with the yardstick, and how many cases fail."""
    criteria = {}
    for name, criterion in result.criteria.items():
        found = result.yardstick(name)
        drawn = None if found is None else _values(found, "texts", "share", "low", "high")
        criteria[name] = {**_tally(criterion.tally), "yardstick": drawn}
    return {"criteria": criteria, **_values(result, "judged", "failing", "outside")}


def _values(of: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def _count(count: Count) -> dict[str, Any]:
    return _values(count, "covered", "total", "reachable", "share", "share_of_reachable")


def _tally(tally: Tally) -> dict[str, Any]:
    kinds = {"word": _count(tally.word), "attention": _count(tally.attention)}
    return _values(tally, "share", "share_of_reachable") | kinds


def _context(context: ContextResult) -> dict[str, Any]:
    criteria = {
        name: {
            **_tally(one.tally),
            **_values(one, "adds", "only_here"),
            "adds_of_reachable": one.new.share_of_reachable,
            "only_here_of_reachable": one.own.share_of_reachable,
        }
        for name, one in context.by.items()
    }
    older = {"redundant": context.adds_little}
    return {
        "test": context.name,
        "context": context.name,
        **_values(context, "texts", "truncated", "empty"),
        "criteria": criteria,
        **_values(context, "outside", "adds_little", "little_failing"),
        **older,
        **_values(context, "judged", "failing", "failure_rate", "labelled", "wrong", "accuracy"),
    }


def _sites(result: Result) -> list[dict[str, Any]]:
    """Return every site with the numbers of those criteria that look at it."""
    found: dict[str, dict[str, Any]] = {}
    for name, criterion in result.criteria.items():
        for one in criterion.sites:
            numbers = {**_count(one.count), "heads": [_count(head) for head in one.heads]}
            about = {"site": one.name, **_values(one, "kind", "layer"), "criteria": {}}
            found.setdefault(one.name, about)["criteria"][name] = numbers
    return list(found.values())
