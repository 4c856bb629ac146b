"""What commands share: options, and the objects made from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mncover.cli.config import OPTIONS, Config, load_config
from mncover.coverage import Coverage
from mncover.data.resume import Say
from mncover.errors import SettingsError
from mncover.suites.formats import (
    SUITE_FORMATS,
    TEXT_FORMATS,
    field_names,
    is_test_suite,
    load_suite,
    read_texts,
)
from mncover.suites.formats.records import Fields
from mncover.suites.rows import Rows
from mncover.types import Text

Command = Callable[..., int]

# Options of the configuration that go together.
FIELDS = ("text", "pair")
LOADING = ("batch_size", "device", "dtype", "kernels")
MEASURING = (
    *("train", "train_limit", *FIELDS, "bins", "max_length", "attention_weight"),
    *(*LOADING, "masks", "criteria"),
)
CHECKING = ("fail_under", "metric")

# What is not configuration.
DataFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="The data file; run.mncover if not given.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A Hugging Face folder or hub name.")]
Suite = Annotated[
    Path,
    typer.Argument(
        metavar="SUITE",
        help=f"A file of texts ({', '.join(TEXT_FORMATS)}; .gz too) or a test suite "
        f"({', '.join(SUITE_FORMATS)}).",
    ),
]
Folder = Annotated[
    Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder to write to.")
]
Encoder = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Compares texts with their seeds. [the model itself]"),
]
MaskedLM = Annotated[
    str | None,
    typer.Option("--masked-lm", metavar="MODEL", help="A fill-mask model, for WordSwapMaskedLM."),
]
Similarity = Annotated[
    float,
    typer.Option(min=-1, max=1, help="Least cosine of the embeddings of a text and its seed."),
]
MaxIter = Annotated[int, typer.Option(min=1, help="Maximum number of attempts per seed.")]
Draws = Annotated[int, typer.Option(min=1, help="How often texts are drawn.")]
Shuffles = Annotated[
    int, typer.Option(min=0, help="Number of shuffled orders in addition to the given one.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Another setting for learning; repeatable."),
]
PaperSettings = Annotated[bool, typer.Option("--paper", help="Use the paper's own settings.")]
Seed = Annotated[int, typer.Option(help="Seed of everything random.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def configured(*names: str, from_file: bool = True, **helps: str) -> Callable[[Command], Command]:
    """Give a command options of the configuration in place of its parameter `config`.

    The command is called with the configuration that holds: the options given, over those of
    pyproject.toml if `from_file`, over the defaults. `helps` are help texts for this command.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**arguments: Any) -> int:
            given = {name: arguments.pop(name) for name in names}
            base = load_config(Path.cwd()) if from_file else Config()
            return command(config=base.overridden(**given), **arguments)

        options = [_parameter(name, OPTIONS[name].annotation(helps.get(name))) for name in names]
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            own = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            parameters += options if parameter.name == "config" else [own]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in parameters}
        return called

    return decorate


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=None, annotation=annotation)


def speaker(quiet: bool) -> Say:
    """Return what tells people how it goes, on standard error."""
    return partial(Console(stderr=True, quiet=quiet).print, markup=False, soft_wrap=True)


def loading(config: Config, quiet: bool) -> dict[str, Any]:
    """Return how a model is loaded and run, as arguments of `Coverage`."""
    chosen = {name: getattr(config, name) for name in (*LOADING, "masks")}
    return {**chosen, "progress": False if quiet else None}


def coverage_for(model: str, config: Config, quiet: bool) -> Coverage:
    """Load a model and masks, ready to calibrate."""
    return Coverage(
        model,
        bins=config.bins,
        max_length=config.max_length,
        attention_weight=config.attention_weight,
        criteria=config.criterion_names,
        **loading(config, quiet),
    )


def calibrated(model: str, config: Config, quiet: bool) -> Coverage:
    """Load a model and masks and calibrate, or find the ranges in the cache."""
    train = train_texts(config)
    return coverage_for(model, config, quiet).calibrate(train)


def train_texts(config: Config) -> list[Text]:
    """Read the training texts by the suite's fields if the file has them, else by usual names."""
    if config.train is None:
        raise SettingsError("give the texts that set the ranges: --train FILE (see --help).")
    path = Path(config.train)
    asked = {name for name in (config.text, config.pair) if name is not None}
    same = bool(asked) and asked <= field_names(path)
    fields = Fields(config.text, config.pair) if same else Fields()
    return read_texts(path, fields, config.train_limit).texts


def suite_texts(path: Path, config: Config) -> Rows:
    """Read a test suite, or a plain file of texts."""
    if is_test_suite(path):
        return Rows.of_suite(path, load_suite(path))
    return read_texts(path, Fields(config.text, config.pair, config.label, config.context))
