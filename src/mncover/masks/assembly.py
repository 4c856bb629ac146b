"""Make an engine from a model, settings, criteria and masks: the one place where one is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mncover.criteria import chosen_criteria
from mncover.data.places import check_model_folder
from mncover.data.prompting import Prompting
from mncover.engine.cluster import Spread, import_ray
from mncover.errors import needs_run
from mncover.masks.masks import Masks
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.engine.engine import Engine

# Model, tokenizer, device, number format, prompting, and how the model is spread over devices.
Loading = tuple[Any, Any, str | None, str, Prompting | None, str | None]
# Batch size, progress, kernels, and whether there are signatures.
Running = tuple[int | None, bool | None, str, bool]


def assembled(
    loading: Loading,
    settings: Settings,
    criteria: Sequence[str] | None,
    masks: Masks | str | Path | None,
    running: Running,
    spread: Spread | None = None,
) -> Engine:
    """Return an engine, given how to load the model and how to run it.

    With `spread`, it asks workers, whose engines are made here, too. Torch comes after all else is
    right.
    """
    if isinstance(loading[0], str | Path):
        check_model_folder(str(loading[0]))
    if spread is not None:
        import_ray()
    given = masks if masks is None or isinstance(masks, Masks) else Masks.load(masks)
    chosen = chosen_criteria(criteria, given is not None)
    with needs_run():
        from mncover.engine.engine import Engine
        from mncover.engine.loading import load_subject
    engine = Engine(load_subject(*loading), settings, chosen, given, *running)
    if spread is not None:
        from mncover.engine.crew import Crew

        there = _there(loading), settings, criteria, given, (running[0], False, *running[2:])
        engine.crew = Crew(partial(assembled, *there), spread)
    return engine


def _there(loading: Loading) -> Loading:
    """Return how a worker loads the model: a folder by its whole path, and its own GPU.

    A worker judges nothing, so the function that does stays here.
    """
    from mncover.engine.parcel import Parcel
    from mncover.engine.wrapped import unwrapped

    model, tokenizer, device, dtype, prompting, device_map = loading
    if not isinstance(model, str | Path):
        model, tokenizer = unwrapped(model, tokenizer)
        model = Parcel(model)
    model, tokenizer = (
        str(Path(one).resolve()) if isinstance(one, str | Path) and Path(one).exists() else one
        for one in (model, tokenizer)
    )
    device = "cuda" if device is not None and device.startswith("cuda") else device
    prompting = None if prompting is None else replace(prompting, judge=None)
    return model, tokenizer, device, dtype, prompting, device_map
