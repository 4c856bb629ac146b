"""The options that can also stand in `[tool.mncover]` in pyproject.toml, each declared once.

Precedence, from lowest to highest: the defaults here, pyproject.toml in the working folder, the
command line.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

from typer import Option
from typer.models import OptionInfo

from mncover.criteria import CRITERIA
from mncover.data.datafile import DEFAULT_NAME
from mncover.data.files import read_toml
from mncover.data.results import REDUNDANT_AT
from mncover.engine.kernels import AUTO, KERNELS
from mncover.errors import SettingsError
from mncover.report.columns import SORTS
from mncover.suites.model import How


def _list(*names: str) -> str:
    return ", ".join(names)


@dataclass(frozen=True, slots=True)
class Config:
    """Every such option: its type, its default, and how the command line shows it."""

    train: Annotated[
        str | None,
        Option(
            metavar="FILE",
            help="Texts that set the range of each neuron, normally the training set.",
        ),
    ] = None
    train_limit: Annotated[
        int | None, Option(metavar="N", min=1, help="Use only the first N training texts.")
    ] = None
    text: Annotated[str | None, Option(metavar="FIELD", help="The field that holds the text.")] = (
        None
    )
    pair: Annotated[
        str | None, Option(metavar="FIELD", help="The field that holds the second text of a pair.")
    ] = None
    label: Annotated[
        str | None, Option(metavar="FIELD", help="The field that holds the correct class.")
    ] = None
    context: Annotated[
        str | None,
        Option(
            metavar="FIELD",
            help="The field by which coverage is kept apart, such as the name of a test.",
        ),
    ] = None
    bins: Annotated[int, Option(help="Sections of each neuron's range, 2 to 1000.")] = 10
    max_length: Annotated[int, Option(help="Cut texts off after this many tokens.")] = 128
    attention_weight: Annotated[
        float, Option(help="Weight of attention bins relative to word bins.")
    ] = 1.0
    batch_size: Annotated[int, Option(help="Maximum number of texts in a batch.")] = 32
    device: Annotated[str | None, Option(help="Where to run: cpu, cuda, cuda:1, … [cpu]")] = None
    dtype: Annotated[
        str, Option(help="Number format of the weights: auto, float32, float16, bfloat16.")
    ] = "auto"
    kernels: Annotated[str, Option(help=f"What counts the hits: {_list(AUTO, *KERNELS)}.")] = AUTO
    masks: Annotated[
        str | None,
        Option(metavar="FILE", help="Masks from `mncover masks`: measure mnCover as well."),
    ] = None
    criteria: Annotated[
        str | None,
        Option(
            metavar="NAME,NAME",
            help=f"What to measure: {_list(*CRITERIA)}. [cover, and mncover if there are masks]",
        ),
    ] = None
    classes: Annotated[
        str,
        Option(
            help=f"How the model's classes map to those of a test suite: {_list(*get_args(How))}."
        ),
    ] = "auto"
    output: Annotated[
        str, Option("--output", "-o", metavar="FILE", help="The data file to write.")
    ] = DEFAULT_NAME
    fail_under: Annotated[
        float | None,
        Option(metavar="PERCENT", min=0, max=100, help="Exit with 2 if coverage is below this."),
    ] = None
    metric: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="The criterion that --fail-under checks. [the first that was measured]",
        ),
    ] = None
    sort: Annotated[
        str,
        Option(help=f"Order of contexts: {_list(*SORTS)}; with a minus in front, largest first."),
    ] = "suite"
    redundant: Annotated[
        float,
        Option(
            metavar="PERCENT",
            min=0,
            max=100,
            help="A text is redundant if at most this much of what it does in the model is new.",
        ),
    ] = REDUNDANT_AT * 100

    def __post_init__(self) -> None:
        for name, option in OPTIONS.items():
            value, low, high = getattr(self, name), option.info.min, option.info.max
            if value is None or low is None or low <= value <= (high or value):
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


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """An option as the fields above declare it; `types` are those of a value in a file."""

    types: tuple[type, ...]
    info: OptionInfo

    def annotation(self, text: str | None = None) -> Any:
        """Return what Typer makes an option of; `text` is another help text."""
        info = copy(self.info)
        info.help = text or info.help
        return Annotated[self.types[0] | None, info]


def _declared() -> dict[str, DeclaredOption]:
    """Return the option of each field, with its default in the help text."""
    found = {}
    hints = get_type_hints(Config, include_extras=True)
    for field in fields(Config):
        kind, info = get_args(hints[field.name])
        if field.default is not None:
            default = f"{field.default:g}" if isinstance(field.default, float) else field.default
            info.help = f"{info.help} [{default}]"
        types = tuple(t for t in (get_args(kind) or (kind,)) if t is not type(None))
        found[field.name] = DeclaredOption(types, info)
    return found


OPTIONS = _declared()


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
        _check(path, name, value)
    return Config(**values)


def _check(path: Path, name: str, value: Any) -> None:
    if name not in OPTIONS:
        raise SettingsError(
            f"{path}: [tool.mncover] has no option {name!r}; known are {_list(*sorted(OPTIONS))}."
        )
    types = OPTIONS[name].types
    allowed = (*types, int) if float in types else types
    if isinstance(value, bool) or not isinstance(value, allowed):
        names = " or ".join(t.__name__ for t in allowed)
        raise SettingsError(f"{path}: {name!r} must be {names}, got {value!r}.")
