"""Options from `[tool.mncover]` in pyproject.toml.

What holds, from weakest to strongest: the defaults here, pyproject.toml in the working folder,
the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from mncover.criteria import COVER
from mncover.data.datafile import DEFAULT_NAME
from mncover.data.files import read_toml
from mncover.data.results import REDUNDANT_AT
from mncover.errors import SettingsError


@dataclass(frozen=True, slots=True)
class Config:
    """Every option that can stand in pyproject.toml, with its default."""

    bins: int = 10
    max_length: int = 128
    attention_weight: float = 1.0
    batch_size: int = 32
    device: str | None = None
    dtype: str = "auto"
    train: str | None = None
    train_limit: int | None = None
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    context: str | None = None
    masks: str | None = None
    classes: str = "auto"
    output: str = DEFAULT_NAME
    fail_under: float | None = None
    metric: str = COVER
    sort: str = "suite"
    redundant: float = REDUNDANT_AT * 100

    def __post_init__(self) -> None:
        limits = {"fail_under": (0, 100), "redundant": (0, 100), "train_limit": (1, 10**12)}
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if value is not None and not low <= value <= high:
                raise SettingsError(f"{name!r} must be from {low} to {high}, got {value}.")

    def overridden(self, **options: Any) -> Config:
        """Return the configuration with every option that is not None in its place."""
        return replace(self, **{k: v for k, v in options.items() if v is not None})


def load_config(folder: Path) -> Config:
    """Read `[tool.mncover]` from a folder's pyproject.toml; without one, return the defaults."""
    path = folder / "pyproject.toml"
    if not path.is_file():
        return Config()
    tool = read_toml(path).get("tool", {})
    table = tool.get("mncover", {}) if isinstance(tool, dict) else None
    if not isinstance(table, dict):
        raise SettingsError(f"{path}: [tool.mncover] must be a table.")
    values = {name.replace("-", "_"): value for name, value in table.items()}
    _check(path, values)
    return Config(**values)


def _check(path: Path, values: dict[str, Any]) -> None:
    types = get_type_hints(Config)
    known = {field.name for field in fields(Config)}
    for name, value in values.items():
        if name not in known:
            raise SettingsError(
                f"{path}: [tool.mncover] has no option {name!r}; known are "
                f"{', '.join(sorted(known))}."
            )
        allowed = tuple(t for t in (get_args(types[name]) or (types[name],)) if t is not type(None))
        if float in allowed:
            allowed = (*allowed, int)
        if isinstance(value, bool) or not isinstance(value, allowed):
            names = " or ".join(t.__name__ for t in allowed)
            raise SettingsError(f"{path}: {name!r} must be {names}, got {value!r}.")
