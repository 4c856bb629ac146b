"""Every option once, and what commands make of them.

The options of `Config` can also stand in `[tool.mncover]` in pyproject.toml. Precedence, from
lowest to highest: the defaults here, pyproject.toml in the working folder, the command line.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from mncover.coverage import Coverage
from mncover.criteria import CRITERIA
from mncover.data.datafile import DEFAULT_NAME
from mncover.data.files import Say, read_toml, silent
from mncover.data.prompting import NORMALISE, READ, Judge, Prompting, unescaped
from mncover.data.results import ADDS_LITTLE_AT
from mncover.data.writing import protect
from mncover.engine.kernels import AUTO, KERNELS
from mncover.errors import MismatchError, SettingsError
from mncover.report.columns import SORTS
from mncover.report.screen import tell
from mncover.suites import formats
from mncover.suites.formats import SUITE_FORMATS, TEXT_FORMATS, read_texts
from mncover.suites.formats.records import Fields
from mncover.suites.model import WAYS
from mncover.suites.rows import Rows
from mncover.types import POSITIONS, SITES, Text


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
_CONTEXT = "The field that names the test of each text; coverage is kept apart by it."
_BATCH = "Most texts in a batch. [32; on a GPU by tokens]"
_DEVICE_MAP = "Spread a large model over the GPUs of this machine: auto, balanced, sequential, …"
_WORKERS = "Share the texts among N processes, by Ray. [one process, without Ray]"
_RAY = "Use the Ray cluster at this address instead of this machine."
_CRITERIA = f"What to measure: {listed(*CRITERIA)} (`mncover criteria`). "
_CRITERIA += "[cover, and mncover if there are masks]"
_POSITIONS = "A neuron for each position of a text, or one for all, hit by any token or the mean."
_SITES = "What is read: all, or hidden states alone, which leaves the model its fast attention."
_CHOICES = "Answers to choose from: a causal language model becomes a classifier of these."
_TEMPLATE = "The prompt, with {text} in it, or {text_a} and {text_b} for pairs; \\n is a line end."
_CHAT = "Put the prompt into the tokenizer's chat template, as the user's message."
_NORMALISE = f"How the choices' log-probabilities are scaled: {listed(*NORMALISE)} (in tokens)."
_GENERATE = "Let a causal language model answer, with up to N tokens, for tests of answers."
_STOP = "End an answer where this comes; repeatable."
_READ = f"Where the inside is read of a model that answers: {listed(*READ)}."
_CLASSES = f"How the model's classes map to those of a test suite: {listed(*WAYS)}."
_BELOW_TEST = "Exit with 2 if this test's coverage is below this; repeatable."
_MAX_FAILING = "Exit with 2 if more cases fail: a percentage such as 5%, or a number of cases."
_MAX_FAILING_TEST = "Exit with 2 if more cases of this test fail; repeatable."
_METRIC = (
    "What --fail-under checks: a criterion, as a share of the reachable bins, or NAME-of-all, "
    "as a share of all bins. [the first that was measured]"
)
_SORT = f"Order of tests: {listed(*SORTS)}; with a minus in front, largest first."
_ADDS_LITTLE = "A text adds little if at most this much of what it does in the model is new."


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
    positions: str = _field(POSITIONS[0], _POSITIONS)
    sites: str = _field(SITES[0], _SITES)
    batch_size: int | None = _field(None, _BATCH)
    device: str | None = _field(None, "Where to run: cpu, cuda, cuda:1, … [cpu]")
    device_map: str | None = _field(None, _DEVICE_MAP)
    dtype: str = _field("auto", "Number format: auto, float32, float16, bfloat16.")
    kernels: str = _field(AUTO, f"What counts the hits: {listed(AUTO, *KERNELS)}.")
    workers: int | None = _field(None, _WORKERS, "N", min=1)
    ray: str | None = _field(None, _RAY, "ADDRESS")
    masks: str | None = _field(None, "Masks from `mncover masks`: measure mnCover too.", "FILE")
    criteria: str | None = _field(None, _CRITERIA, "NAME,NAME")
    choices: str | None = _field(None, _CHOICES, "NAME,NAME")
    template: str | None = _field(None, _TEMPLATE, "TEXT")
    chat: bool | None = _field(None, _CHAT, None, "--chat")
    normalise: str = _field("none", _NORMALISE)
    generate: int | None = _field(None, _GENERATE, "N", min=1)
    stop: tuple[str, ...] | None = _field(None, _STOP, "TEXT")
    read: str = _field("prompt", _READ)
    classes: str = _field("auto", _CLASSES)
    output: str = _field(DEFAULT_NAME, "The data file to write.", "FILE", "--output", "-o")
    fail_under: float | None = _field(
        None, "Exit with 2 if coverage is below this.", "PERCENT", min=0, max=100
    )
    fail_under_test: tuple[str, ...] | None = _field(None, _BELOW_TEST, "NAME=PERCENT")
    metric: str | None = _field(None, _METRIC, "NAME")
    max_failing: str | None = _field(None, _MAX_FAILING, "5%|N")
    max_failing_test: tuple[str, ...] | None = _field(None, _MAX_FAILING_TEST, "NAME=5%|N")
    sort: str = _field("suite", _SORT)
    adds_little: float = _field(ADDS_LITTLE_AT * 100, _ADDS_LITTLE, "PERCENT", min=0, max=100)

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

    @property
    def prompting(self) -> Prompting:
        """How texts become prompts, and how a language model answers."""
        choices = () if self.choices is None else self.choices.split(",")
        return Prompting(
            choices=tuple(unescaped(one.strip()) for one in choices),
            template=unescaped(self.template or ""),
            chat=bool(self.chat),
            normalise=self.normalise,  # type: ignore[arg-type]  # it is checked there
            generate=self.generate or 0,
            stop=tuple(map(unescaped, self.stop or ())),
            read=self.read,  # type: ignore[arg-type]
        )

    def overridden(self, **options: Any) -> Config:
        """Return the configuration with every option that is not None in its place."""
        return replace(self, **{k: v for k, v in options.items() if v is not None and v != []})


def _kind(hint: Any) -> Any:
    """Return the type of an option's values as Typer wants it."""
    kind = (get_args(hint) or (hint,))[0]
    return list[str] if kind == tuple[str, ...] else kind


# The type of each option's values, and what Typer makes an option of.
OPTIONS: dict[str, tuple[Any, OptionInfo]] = {
    one.name: (_kind(kind), one.metadata["option"])
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
        if not _fits(value, kind):
            raise SettingsError(f"{path}: {name!r} must be {_CALLED[kind]}, got {value!r}.")
    return Config(**values)


_CALLED: dict[Any, str] = {int: "an integer", float: "a number", str: "a string"}
_CALLED |= {list[str]: "a list of strings", bool: "true or false"}


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value of a configuration file is of an option's type."""
    if kind == list[str]:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if kind is bool:
        return isinstance(value, bool)
    return not isinstance(value, bool) and isinstance(value, (kind, int) if kind is float else kind)


Command = Callable[..., int | None]
KEYWORD = inspect.Parameter.KEYWORD_ONLY

# Options of the configuration that go together.
FIELDS = ("text", "pair")
LOADING = ("batch_size", "device", "device_map", "dtype", "kernels", "masks")
SPREAD = ("workers", "ray")
SETTINGS = ("bins", "max_length", "attention_weight", "positions", "sites")
PROMPTING = ("choices", "template", "chat", "normalise", "generate", "stop", "read")
MEASURING = ("train", "train_limit", *FIELDS, *SETTINGS, *LOADING, *SPREAD, "criteria", *PROMPTING)
CHECKING = ("max_failing", "max_failing_test", "fail_under", "fail_under_test", "metric")

# Options that are not configuration.
_FORMATS = f"({listed(*TEXT_FORMATS)}; .gz too), an address (s3://…), a data set (hf:NAME:SPLIT)"
_FORMATS += f" or a test suite ({listed(*SUITE_FORMATS)})"
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
            config = base.overridden(**given)
            protect((config.train, config.masks))
            return command(config=config, **arguments)

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
    return silent if quiet else tell


def loading(config: Config, quiet: bool) -> dict[str, Any]:
    """Return how a model is loaded and run, as arguments of `Coverage`."""
    progress = False if quiet else None
    return {"progress": progress, **{name: getattr(config, name) for name in (*LOADING, *SPREAD)}}


def coverage_for(
    model: str, config: Config, quiet: bool, signatures: bool = True, judge: Judge | None = None
) -> Coverage:
    """Load a model and masks, ready to calibrate."""
    settings: dict[str, Any] = {name: getattr(config, name) for name in SETTINGS}
    settings |= {"criteria": config.criterion_names, "signatures": signatures}
    settings["prompting"] = replace(config.prompting, judge=judge)
    cov = Coverage(model, **settings, **loading(config, quiet))
    if words := cov.engine.setups.room.words(config.max_length):
        speaker(quiet)(words)
    if cov.engine.taps.note:
        speaker(quiet)(cov.engine.taps.note)
    return cov


def calibrated(model: str, config: Config, quiet: bool) -> Coverage:
    """Load a model and masks and calibrate, or find the ranges in the cache."""
    train = train_texts(config)
    return coverage_for(model, config, quiet).calibrate(train, yardstick=False)


def measuring_again(path: Path, model: str, config: Config, quiet: bool) -> Coverage:
    """Return what measures as a data file was measured, on top of it."""
    train = train_texts(config)
    cov = Coverage.load(path, model, **loading(config, quiet))
    try:
        return cov.calibrate(train, yardstick=False)
    except MismatchError:
        raise MismatchError(
            f"{config.train}: the data was measured with ranges of other texts; give the "
            "file that `mncover run` had as --train."
        ) from None


def train_rows(config: Config, other: Path | None = None) -> Rows:
    """Read the training texts by the suite's fields if the file has them, else by usual names.

    `other` is another file to read in the same way, as a whole.
    """
    if other is None and config.train is None:
        raise SettingsError("give the texts that set the ranges: --train FILE (see --help).")
    path = other or Path(str(config.train))
    asked = {name for name in (config.text, config.pair) if name is not None}
    names = formats.field_names(path)
    same = bool(asked) and asked <= names
    label = config.label if config.label in names else None
    fields = Fields(config.text, config.pair, label) if same else Fields(label=label)
    return read_texts(path, fields, None if other else config.train_limit)


def train_texts(config: Config, other: Path | None = None) -> list[Text]:
    """Read the training texts without their labels."""
    return list(train_rows(config, other).texts)


def suite_texts(path: Path, config: Config) -> Rows:
    """Read a test suite, or a plain file of texts."""
    fields = Fields(config.text, config.pair, config.label, config.context)
    return formats.read_rows(path, fields)
