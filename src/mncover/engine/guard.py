"""Keeps what a model's folder brings from being run while it is loaded: it is data, not code.

transformers runs a model's own code if it is told to trust it, and asks on the terminal if it is
told nothing, which not every path through it is. Here the answer is no, wherever it asks.
`loading.py` turns the ValueErrors of this module into one line with the model's name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, NoReturn

from mncover.data.limits import LAYERS

OWN_CODE = "it brings code of its own, which mncover never runs"
_PATCHING = RLock()  # what is patched belongs to the whole process


@contextmanager
def no_code_of_its_own() -> Iterator[None]:
    """Refuse, while a model or tokenizer is loaded, to import its code or to ask about it."""
    from transformers import dynamic_module_utils as dynamic

    # The function that imports a file of the model's, and how long the question waits: with 0
    # there is no question, but an error.
    patched = {"get_class_in_module": _refuse, "TIME_OUT_REMOTE_CODE": 0}
    with _PATCHING:
        before = {name: getattr(dynamic, name) for name in patched}
        try:
            vars(dynamic).update(patched)
            yield
        finally:
            vars(dynamic).update(before)


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise ValueError(OWN_CODE)


def model_class(config: Any) -> Any:
    """Return the class that a checkpoint was saved from, so that no head is made up or dropped.

    An architecture that transformers does not know gets the plain model of its configuration.
    """
    import transformers

    names = config.architectures
    if names is not None and not (isinstance(names, list) and all(type(n) is str for n in names)):
        raise ValueError("`architectures` in its config.json must be a list of names")
    for name in names or []:
        found = getattr(transformers, name, None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
        if found is not None:
            raise ValueError(f"its architecture {name!r} is not a model of transformers")
    return transformers.AutoModel


_COUNTED = re.compile(r"n(um)?_.*(layers?|blocks|experts)|(en|de)coder_layers")


def check_layers(config: Any) -> None:
    """Refuse a configuration of so many layers that making them, even empty, has no end."""
    left = [config.to_dict()]
    while left:
        one = left.pop()
        for name, value in one.items():
            if isinstance(value, dict):
                left.append(value)
            elif isinstance(value, int) and _COUNTED.fullmatch(str(name)):
                LAYERS.check(value, f"{name} in config.json")
