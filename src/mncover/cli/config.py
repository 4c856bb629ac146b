"""The options that can also stand in `[tool.mncover]` in pyproject.toml, each declared once.

Precedence, from lowest to highest: the defaults here, pyproject.toml in the working folder, the
command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from mncover.criteria import CRITERIA
from mncover.data.datafile import DEFAULT_NAME
from mncover.data.files import read_toml
from mncover.data.results import REDUNDANT_AT
from mncover.engine.kernels import AUTO, KERNELS
from mncover.errors import SettingsError
from mncover.report.columns import SORTS
from mncover.suites.model import WAYS


def argument(help: str, metavar: str) -> Any:
    """Return an argument for Typer."""
    return typer.Argument(metavar=metavar, help=help)


def flag(name: str, help: str) -> Any:
    """Return an option for Typer that takes no value."""
    return typer.Option(name, help=help)


def option(help: str, metavar: str | None = None, *flags: str, **limits: Any) -> Any:
    """Return an option for Typer; without flags it is called like its parameter."""
    return typer.Option(*flags, metavar=metavar, help=help, **limits)


def written(help: str, metavar: str = "FILE") -> Any:
    """Return the option that names what to write."""
    return option(help, metavar, "--output", "-o")


def listed(*names: str) -> str:
    """Return names with commas between them."""
    return ", ".join(names)


def _field(default: Any, help: str, *more: str | None, **limits: float) -> Any:
    """Return a field that is an option; its default is shown in the help text."""
    shown = f"{default:g}" if isinstance(default, float) else default
    whole = help if default is None else f"{help} [{shown}]"
    return field(default=default, metadata={"option": option(whole, *more, **limits)})  # type: ignore[arg-type]


_TRAIN = "Texts that set the range of each neuron, normally the training set."
_CONTEXT = "The field by which coverage is kept apart, such as the name of a test."
_CRITERIA = f"What to measure: {listed(*CRITERIA)}. [cover, and mncover if there are masks]"
_CLASSES = f"How the model's classes map to those of a test suite: {listed(*WAYS)}."
_METRIC = "The criterion that --fail-under checks. [the first that was measured]"
_SORT = f"Order of contexts: {listed(*SORTS)}; with a minus in front, largest first."
_REDUNDANT = "A text is redundant if at most this much of what it does in the model is new."


@dataclass(frozen=True, slots=True)
class Config:
    """Every such option: its type, its default, and how the command line shows it."""

    train: str | None = _field(None, _TRAIN, "FILE")
    train_limit: int | None = _field(None, "Use only the first N training texts.", "N", min=1)
    text: str | None = _field(None, "The field that holds the text.", "FIELD")
    pair: str | None = _field(None, "The field that holds the second text of a pair.", "FIELD")
    label: str | None = _field(None, "The field that holds the correct class.", "FIELD")
    context: str | None = _field(None, _CONTEXT, "FIELD")
    bins: int = _field(10, "Sections of each neuron's range, 2 to 1000.")
    max_length: int = _field(128, "Cut texts off after this many tokens.")
    attention_weight: float = _field(1.0, "Weight of attention bins relative to word bins.")
    batch_size: int = _field(32, "Maximum number of texts in a batch.")
    device: str | None = _field(None, "Where to run: cpu, cuda, cuda:1, … [cpu]")
    dtype: str = _field("auto", "Number format: auto, float32, float16, bfloat16.")
    kernels: str = _field(AUTO, f"What counts the hits: {listed(AUTO, *KERNELS)}.")
    masks: str | None = _field(None, "Masks from `mncover masks`: measure mnCover too.", "FILE")
    criteria: str | None = _field(None, _CRITERIA, "NAME,NAME")
    classes: str = _field("auto", _CLASSES)
    output: str = _field(DEFAULT_NAME, "The data file to write.", "FILE", "--output", "-o")
    fail_under: float | None = _field(
        None, "Exit with 2 if coverage is below this.", "PERCENT", min=0, max=100
    )
    metric: str | None = _field(None, _METRIC, "NAME")
    sort: str = _field("suite", _SORT)
    redundant: float = _field(REDUNDANT_AT * 100, _REDUNDANT, "PERCENT", min=0, max=100)

    def __post_init__(self) -> None:
        for name, (_, info) in OPTIONS.items():
            value, low, high = getattr(self, name), info.min, info.max
            if value is None or low is None or low <= value <= (value if high is None else high):
                continue
            limits = f"at least {low}" if high is None else f"from {low} to {high}"
            raise SettingsError(f"{name!r} must be {limits}, got {value}.")

    @property
    def criterion_names(self) -> tuple[str, ...] | None:
        """The names of the criteria to measure; None means the usual ones."""
        if self.criteria is None:
            return None
        return tuple(name.strip() for name in self.criteria.split(",") if name.strip())

    def overridden(self, **options: Any) -> Config:
        """Return the configuration with every option that is not None in its place."""
        return replace(self, **{k: v for k, v in options.items() if v is not None})


# The type of each option's values, and what Typer makes an option of.
OPTIONS: dict[str, tuple[type, OptionInfo]] = {
    one.name: ((get_args(kind) or (kind,))[0], one.metadata["option"])
    for one, kind in zip(fields(Config), get_type_hints(Config).values(), strict=True)
}


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
    for name, value in values.items():
        if name not in OPTIONS:
            known = listed(*sorted(OPTIONS))
            raise SettingsError(
                f"{path}: [tool.mncover] has no option {name!r}; known are {known}."
            )
        kind, _ = OPTIONS[name]
        if isinstance(value, bool) or not isinstance(value, (kind, int) if kind is float else kind):
            what = {int: "an integer", float: "a number", str: "a string"}[kind]
            raise SettingsError(f"{path}: {name!r} must be {what}, got {value!r}.")
    return Config(**values)
