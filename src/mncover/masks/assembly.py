"""Make an engine from a model, settings, criteria and masks: the one place where one is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mncover.criteria import chosen_criteria
from mncover.data.places import check_model_folder
from mncover.data.prompting import Prompting
from mncover.errors import needs_run
from mncover.masks.masks import Masks
from mncover.types import Settings

if TYPE_CHECKING:
    from mncover.engine.engine import Engine


def assembled(
    loading: tuple[Any, Any, str | None, str, Prompting | None],
    settings: Settings,
    criteria: Sequence[str] | None,
    masks: Masks | str | Path | None,
    running: tuple[int | None, bool | None, str, bool],
) -> Engine:
    """Return an engine, given how to load the model and how to run it.

    Torch comes after all else is right.
    """
    if isinstance(loading[0], str | Path):
        check_model_folder(str(loading[0]))
    given = masks if masks is None or isinstance(masks, Masks) else Masks.load(masks)
    chosen = chosen_criteria(criteria, given is not None)
    with needs_run():
        from mncover.engine.engine import Engine
        from mncover.engine.loading import load_subject
    return Engine(load_subject(*loading), settings, chosen, given, *running)
