"""`mncover masks`: learn or make masks, show them, or sweep a setting."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import typer
from rich.console import Console

from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.data.display import display_percent
from mncover.errors import MaskError, SettingsError, TextError
from mncover.masks.masks import Masks
from mncover.masks.masks import Unseen as UnseenWay
from mncover.masks.settings import chosen_settings
from mncover.report.describe import describe_masks

Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The file of masks to write.")
]
Test = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Texts to measure fidelity on, besides those held out."),
]
Texts = Annotated[
    int | None, typer.Option(metavar="N", help="Learn from a sample of N training texts. [40000]")
]
WordsKept = Annotated[
    float | None, typer.Option(help="Approximate share of the words to keep. [0.745]")
]
Unseen = Annotated[
    str | None,
    typer.Option(
        help="What to do with pairs that training did not see: keep or drop them, or keep those "
        "whose words are kept (words). [keep]"
    ),
]
Words = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Do not learn: keep the words in this file, one per line."),
]
Scores = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Do not learn: keep words by their scores, 0 to 1, in a JSON file."
    ),
]
Sweep = Annotated[
    str | None,
    typer.Option(metavar="NAME=V1,V2,…", help="Learn once for each value; write a table."),
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Plot the sweep: .png, .svg or .pdf.")
]
Show = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Only show what this file of masks keeps.")
]
Top = Annotated[int, typer.Option(min=1, help="How many words and pairs to show.")]


@o.configured(
    *("train", "train_limit", *o.FIELDS, "max_length", "device", "dtype"),
    train="Texts to learn from, normally the training set.",
)
def masks(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="A Hugging Face folder or hub name.")
    ] = None,
    output: Output = Path("masks.safetensors"),
    *,
    config: Config,
    test: Test = None,
    texts: Texts = None,
    words_kept: WordsKept = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random. [0]")] = None,
    setting: o.Settings = None,
    paper: o.PaperSettings = False,
    unseen: Unseen = None,
    words: Words = None,
    scores: Scores = None,
    sweep: Sweep = None,
    plot: Plot = None,
    show: Show = None,
    top: Top = 12,
    quiet: o.Quiet = False,
) -> int:
    """Learn which words and pairs of words matter to a classifier, or show what was learnt."""
    if show is not None:
        Console().print(describe_masks(Masks.load(show).summary(top)))
        return 0
    if model is None:
        raise SettingsError("give a MODEL to learn masks for, or --show FILE (see --help).")
    given = {"texts": texts, "words_kept": words_kept, "seed": seed}
    given["max_length"] = config.max_length
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    settings = chosen_settings(paper, [*named, *(setting or [])])
    way = _checked(words or scores, config, unseen, sweep, plot)
    from mncover.engine.loading import load_subject
    from mncover.masks.fidelity import fidelity_on
    from mncover.masks.sweep import learn_to_file, run_sweep

    subject = load_subject(model, device=config.device, dtype=config.dtype)
    console = Console(quiet=quiet)
    judged = (
        [] if test is None else o.train_texts(replace(config, train=str(test), train_limit=None))
    )
    if sweep is not None:
        run_sweep(subject, o.train_texts(config), judged, settings, sweep, output, plot, console)
        return 0
    if words or scores:
        found = _made(subject.tokenizer, words, scores)
        found.save(output)
    else:
        found = learn_to_file(
            subject, o.train_texts(config), settings, output, quiet=quiet, unseen=way
        )
    console.print(describe_masks(found.summary(top)))
    say = partial(console.print, soft_wrap=True, markup=False)
    if test is not None:
        share = display_percent(fidelity_on(subject, found, judged, settings.max_length))
        say(f"Fidelity on {test}: {share} %")
    say(f"The masks are {output}. Use them with: mncover run MODEL SUITE --masks {output}")
    return 0


def _checked(
    source: Path | None, config: Config, unseen: str | None, sweep: str | None, plot: Path | None
) -> UnseenWay | None:
    """Refuse options that do not go together, before any work; return what `unseen` names."""
    known = get_args(UnseenWay)
    for refused, message in (
        (unseen not in (None, *known), f"`unseen` is {', '.join(known)}; got {unseen!r}."),
        (unseen and (source or sweep), "--unseen is for masks that are learnt, one at a time."),
        (source and sweep, "--sweep learns masks: give it without --words and --scores."),
        (plot and not sweep, "--plot draws the curve of a --sweep: give that too."),
        (not (source or config.train), "give the texts to learn from: --train FILE (see --help)."),
    ):
        if refused:
            raise SettingsError(message)
    return cast("UnseenWay | None", unseen)


def _made(tokenizer: Any, words: Path | None, scores: Path | None) -> Masks:
    """Return masks from a list of words or of scores."""
    if words is not None:
        listed = [word.strip() for word in _read(words).splitlines()]
        return Masks.from_words(tokenizer, filter(None, listed))
    assert scores is not None
    try:
        content: Any = json.loads(_read(scores))
    except ValueError as error:
        raise MaskError(f"{scores}: not JSON ({error}).") from error
    if not isinstance(content, dict) or not all(
        isinstance(v, int | float) and not isinstance(v, bool) for v in content.values()
    ):
        raise MaskError(f"{scores}: must be one object that gives each word a number.")
    return Masks.from_scores(tokenizer, content)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: not UTF-8 ({error}).") from error
