"""What commands share: options, and the objects made from them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console

from mncover.cli.config import OPTIONS, Config, argument, flag, listed, load_config, option, written
from mncover.coverage import Coverage
from mncover.data.files import Say
from mncover.errors import SettingsError
from mncover.suites import formats
from mncover.suites.formats import SUITE_FORMATS, TEXT_FORMATS, read_texts
from mncover.suites.formats.records import Fields
from mncover.suites.rows import Rows
from mncover.types import Text

Command = Callable[..., int | None]
KEYWORD = inspect.Parameter.KEYWORD_ONLY

# Options of the configuration that go together.
FIELDS = ("text", "pair")
LOADING = ("batch_size", "device", "dtype", "kernels", "masks")
SETTINGS = ("bins", "max_length", "attention_weight")
MEASURING = ("train", "train_limit", *FIELDS, *SETTINGS, *LOADING, "criteria")
CHECKING = ("fail_under", "metric")

# Options that are not configuration.
_FORMATS = f"({listed(*TEXT_FORMATS)}; .gz too) or a test suite ({listed(*SUITE_FORMATS)})"
DataFile = Annotated[Path | None, argument("The data file; run.mncover if not given.", "FILE")]
Model = Annotated[str, argument("A Hugging Face folder or hub name.", "MODEL")]
Suite = Annotated[Path, argument(f"A file of texts {_FORMATS}.", "SUITE")]
Folder = Annotated[Path, written("The folder to write to.", "FOLDER")]
Encoder = Annotated[str | None, option("Compares texts and seeds. [the model itself]", "MODEL")]
MaskedLM = Annotated[str | None, option("A fill-mask model, for WordSwapMaskedLM.", "MODEL")]
Similarity = Annotated[float, option("Minimum cosine of a text and its seed.", min=-1, max=1)]
MaxIter = Annotated[int, option("Maximum number of attempts per seed.", min=1)]
Draws = Annotated[int, option("How often texts are drawn.", min=1)]
Shuffles = Annotated[int, option("Number of shuffled orders besides the given one.", min=0)]
Setting = Annotated[
    list[str] | None, option("Another setting for learning; repeatable.", "NAME=VALUE", "--set")
]
JsonLines = Annotated[Path, written("The .jsonl file to write (also .gz).")]
PaperSettings = Annotated[bool, flag("--paper", "Use the paper's own settings.")]
Seed = Annotated[int, option("Seed of everything random.")]
Json = Annotated[bool, flag("--json", "Print JSON instead of a table.")]
Quiet = Annotated[bool, option("Print nothing but errors.", None, "--quiet", "-q")]


def configured(*names: str, file: bool = True, **helps: str) -> Callable[[Command], Command]:
    """Give a command options of the configuration in place of its parameter `config`.

    The command is called with the configuration that holds: the options given, over those of
    pyproject.toml if `file`, over the defaults. `helps` are help texts for this command.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def called(**arguments: Any) -> int | None:
            given = {name: arguments.pop(name) for name in names}
            base = load_config(Path.cwd()) if file else Config()
            return command(config=base.overridden(**given), **arguments)

        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command, eval_str=True).parameters.values():
            options = [_parameter(name, helps.get(name)) for name in names]
            parameters += options if own.name == "config" else [own.replace(kind=KEYWORD)]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate


def _parameter(name: str, text: str | None) -> inspect.Parameter:
    """Return an option of the configuration as a parameter; `text` is another help text."""
    kind, info = OPTIONS[name]
    info = copy(info)
    info.help = text or info.help
    return inspect.Parameter(name, KEYWORD, default=None, annotation=Annotated[kind | None, info])


def speaker(quiet: bool) -> Say:
    """Return what tells people how it goes, on standard error."""
    return partial(Console(stderr=True, quiet=quiet).print, markup=False, soft_wrap=True)


def loading(config: Config, quiet: bool) -> dict[str, Any]:
    """Return how a model is loaded and run, as arguments of `Coverage`."""
    return {name: getattr(config, name) for name in LOADING} | {
        "progress": False if quiet else None
    }


def coverage_for(model: str, config: Config, quiet: bool) -> Coverage:
    """Load a model and masks, ready to calibrate."""
    settings: dict[str, Any] = {name: getattr(config, name) for name in SETTINGS}
    return Coverage(model, criteria=config.criterion_names, **settings, **loading(config, quiet))


def calibrated(model: str, config: Config, quiet: bool) -> Coverage:
    """Load a model and masks and calibrate, or find the ranges in the cache."""
    train = train_texts(config)
    return coverage_for(model, config, quiet).calibrate(train)


def train_path(config: Config) -> Path:
    """Return the file of training texts; refuse if none is named."""
    if config.train is None:
        raise SettingsError("give the texts that set the ranges: --train FILE (see --help).")
    return Path(config.train)


def train_texts(config: Config) -> list[Text]:
    """Read the training texts by the suite's fields if the file has them, else by usual names."""
    path = train_path(config)
    asked = {name for name in (config.text, config.pair) if name is not None}
    same = bool(asked) and asked <= formats.field_names(path)
    fields = Fields(config.text, config.pair) if same else Fields()
    return read_texts(path, fields, config.train_limit).texts


def suite_texts(path: Path, config: Config) -> Rows:
    """Read a test suite, or a plain file of texts."""
    if formats.is_test_suite(path):
        return Rows.of_suite(path, formats.load_suite(path))
    return read_texts(path, Fields(config.text, config.pair, config.label, config.context))
