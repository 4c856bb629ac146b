"""Reads YAML of strangers into plain values: no objects, no aliases, and not too many."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from mncover.data.gzipped import open_bytes
from mncover.data.limits import LINE, VALUES
from mncover.errors import LimitError, MissingExtraError, TextError

DEEPEST = 100  # lists and mappings inside each other
LONGEST_NUMBER = 40  # characters; what is longer stays text


def read_yaml(path: Path) -> Any:
    """Return what a file holds."""
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise MissingExtraError("reading YAML", "pyyaml", "answers") from error
    try:
        with open_bytes(path) as file:
            raw = file.read(LINE.value + 1)
        LINE.check(len(raw), f"{path}: bytes")
        loader = _loader()
        _look_through(yaml.parse(raw, loader), f"{path}: values")
        return yaml.load(raw, loader)
    except (OSError, TextError, LimitError):
        raise
    except Exception as error:  # tags make the library raise almost anything
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise TextError(f"{path}: not YAML ({why}).") from error


@cache
def _loader() -> Any:
    """Return what makes plain values and knows no tags of Python's; numbers stay small."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Reads a number as long as it is one everywhere: 1:30 is text, as in YAML 1.2."""

        def number(self, node: Any) -> Any:
            """Return a number, or its text."""
            text = str(self.construct_scalar(node))
            if ":" in text or len(text) > LONGEST_NUMBER:
                return text
            whole = node.tag.endswith("int")
            return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)

    for name in ("int", "float"):
        Loader.add_constructor(f"tag:yaml.org,2002:{name}", Loader.number)
    return Loader


def _look_through(events: Any, what: str) -> None:
    """Refuse a file that would become large, before anything is made of it."""
    import yaml

    depth = 0
    for number, event in enumerate(events):
        VALUES.check(number, what)
        if isinstance(event, yaml.AliasEvent):
            raise ValueError("it has aliases (*name): write out what they stand for")
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"it has more than {DEEPEST} levels")
