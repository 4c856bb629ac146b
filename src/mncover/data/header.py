"""What the header and the outlines of a data file must look like, whoever wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mncover.data.identity import COUNTS, LISTS, MAX_CELLS
from mncover.data.schema import Each, Maybe, Number, Whole, check_shape
from mncover.errors import DataFileError
from mncover.types import POSITIONS, SITES, Settings

NAMES = ("model", "model_fingerprint", "tokenizer_fingerprint", "ranges_fingerprint")
_SCORED = [(str, float)]
_MASKS = {
    **dict.fromkeys(COUNTS, Whole()),
    **dict.fromkeys(LISTS, _SCORED),
    "fingerprint": str,
    "unseen": str,
    "fidelity": Maybe(Number(0, 1)),
}
_REACHABLE = [[Whole()]]
_CRITERION = {"name": str, "title": str, "cells": Whole(1, MAX_CELLS), "reachable": _REACHABLE}
_LAYOUT = {"causal": bool, "sites": [(str, Whole(), Whole(1), Whole(1), Whole(1))]}
_SETTINGS = {"bins": int, "max_length": int, "attention_weight": float}
_PROMPTING = {
    "choices": Maybe([str]),
    "template": Maybe(str),
    "chat": Maybe(bool),
    "normalise": Maybe(str),
    "generate": Maybe(Whole()),
    "stop": Maybe([str]),
    "read": Maybe(str),
    "chat_digest": Maybe(str),
}
_RUN = (str, str, str, str, Whole())
_PART = (*_RUN, str, Whole())  # of a run of a part of its suite
_HEADER = {
    **dict.fromkeys(NAMES, str),
    "layout": _LAYOUT,
    "labels": [str],
    "calibration_texts": Whole(),
    "masks": Maybe(_MASKS),
    "prompting": Maybe(_PROMPTING),
    "runs": [list],
    "contexts": [str],
    "checksums": Each(str),
}
# What the first two formats had besides, the third, and all later ones.
_BEFORE_3 = {"settings": _SETTINGS, "reachable": _REACHABLE}
_IN_3 = {"settings": _SETTINGS, "criteria": [_CRITERION]}
_SINCE_4 = {
    "settings": {**_SETTINGS, "positions": str, "sites": str},
    "criteria": [{**_CRITERION, "layout": _LAYOUT}],
}
# Of a test, what is needed to count its cases; `suites.model.Outline` knows the rest.
_OUTLINES = Each({"tests": [{"sizes": [Whole(1)]}]})


def check_header(header: dict[str, Any]) -> None:
    """Refuse a header whose parts are not what they should be."""
    version = header["version"]
    added = _SINCE_4 if version > 3 else _IN_3 if version == 3 else _BEFORE_3
    check_shape(header, {**_HEADER, **added}, "header")
    for number, run in enumerate(header["runs"]):
        check_shape(run, _PART if len(run) == len(_PART) else _RUN, f"header.runs[{number}]")
    _require_different(header["contexts"], "contexts")
    _require_different([run[0] for run in header["runs"]], "runs")


def _require_different(names: Sequence[str], what: str) -> None:
    if len(set(names)) != len(names):
        raise DataFileError(f"two of its {what} have the same name")


def check_outlines(outlines: Any) -> dict[str, dict[str, Any]]:
    """Return the outlines of a file's suites by run; refuse what is none."""
    check_shape(outlines, _OUTLINES, "suites")
    found: dict[str, dict[str, Any]] = outlines
    return found


def settings_of(header: dict[str, Any]) -> Settings:
    """Return the settings of a file; before format 4 there was a neuron for each position."""
    before = {"positions": POSITIONS[0], "sites": SITES[0]} if header["version"] < 4 else {}
    return Settings.from_json({**header["settings"], **before})


def criteria_of(header: dict[str, Any], settings: Settings) -> list[dict[str, Any]]:
    """Return the criteria of a file; formats 1 and 2 had Cover, and with masks mnCover."""
    if header["version"] > 3:
        return list(header["criteria"])
    if header["version"] == 3:
        return [{**one, "layout": header["layout"]} for one in header["criteria"]]
    known = {"cover": "Cover", **({"mncover": "mnCover"} if header.get("masks") else {})}
    common = {key: header[key] for key in ("reachable", "layout")} | {"cells": settings.bins}
    return [{"name": name, "title": title, **common} for name, title in known.items()]
