"""`mncover masks`: learn or make masks, show them, or sweep a setting."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

from rich.console import Console

from mncover.cli import options as o
from mncover.cli.checks import check_paths
from mncover.cli.options import Config, argument, flag, listed, option, written
from mncover.data.schema import Each, check_shape
from mncover.errors import MaskError, SchemaError, SettingsError, TextError
from mncover.masks.masks import Masks, Unseen
from mncover.masks.meeting import scored_pairs
from mncover.masks.settings import LearningSettings, chosen_settings
from mncover.report.describe import describe_masks
from mncover.report.meetings import draw_meeting, pair_lists
from mncover.report.notes import KEEP_ALL, keep_all
from mncover.report.screen import Screen
from mncover.types import display_percent, well_formed

if TYPE_CHECKING:
    from mncover.engine.subject import Subject

USUAL = LearningSettings()
TEXTS = f"Learn from a sample of N texts. [{USUAL.texts}]"
WORDS_KEPT = f"Target share of words to keep. [{USUAL.words_kept}]"
PAIRS_KEPT = f"Share of pairs to keep in attention. [{USUAL.pairs_kept}]"
TEST = "Texts to measure fidelity on, besides those held out."
CONTROLS = "Learn with a second seed too, and measure random and shuffled pairs on --test."
SENTENCE = "With --show and MODEL: draw which words of this text may meet; repeatable."
PAIRS = "Where pairs are learnt: attention, or messages as in the paper. [attention]"
LEARNT_IN = {
    "attention": "Pairs were learnt in the model's attention.",
    "messages": "Pairs were learnt in messages between words, and mean little.",
}
UNSEEN = "Whether words and pairs that training did not see count: keep, drop, words. [keep]"
WORDS = "Do not learn: keep the words in this file, one per line."
SCORES = "Do not learn: keep words by their scores, 0 to 1, in this JSON file."


@o.configured(
    *("train", "train_limit", *o.FIELDS, "max_length", "device", "dtype"),
    train="Texts to learn from, normally the training set.",
)
def masks(
    model: Annotated[str | None, argument("A Hugging Face folder or hub name.", "MODEL")] = None,
    output: Annotated[Path, written("The file of masks to write.")] = Path("masks.safetensors"),
    *,
    config: Config,
    test: Annotated[Path | None, option(TEST, "FILE")] = None,
    texts: Annotated[int | None, option(TEXTS, "N")] = None,
    words_kept: Annotated[float | None, option(WORDS_KEPT)] = None,
    pairs: Annotated[str | None, option(PAIRS)] = None,
    pairs_kept: Annotated[float | None, option(PAIRS_KEPT)] = None,
    seed: Annotated[int | None, option("Seed of everything random. [0]")] = None,
    setting: o.Setting = None,
    paper: o.PaperSettings = False,
    unseen: Annotated[str | None, option(UNSEEN)] = None,
    words: Annotated[Path | None, option(WORDS, "FILE")] = None,
    scores: Annotated[Path | None, option(SCORES, "FILE")] = None,
    sweep: Annotated[
        str | None, option("Learn for each value; write a table.", "NAME=V1,V2,…")
    ] = None,
    plot: Annotated[Path | None, option("Plot the sweep: .png, .svg or .pdf.", "FILE")] = None,
    controls: Annotated[bool, flag("--controls", CONTROLS)] = False,
    show: Annotated[Path | None, option("Only show what this file of masks keeps.", "FILE")] = None,
    sentence: Annotated[list[str] | None, option(SENTENCE, "TEXT")] = None,
    top: Annotated[int, option("How many words and pairs to show.", min=1)] = 12,
    quiet: o.Quiet = False,
) -> None:
    """Learn which words and pairs of words matter to a classifier, or show what was learnt."""
    if show is not None or sentence:
        _show_file(show, model, sentence or [], top)
        return
    if model is None:
        raise SettingsError("give a MODEL to learn masks for, or --show FILE (see --help).")
    given = {
        "max_length": config.max_length,
        "texts": texts,
        "words_kept": words_kept,
        "pairs": pairs,
        "pairs_kept": pairs_kept,
        "seed": seed,
    }
    named = [f"{name}={value}" for name, value in given.items() if value is not None]
    settings = chosen_settings(paper, [*named, *(setting or [])])
    _check(words or scores, config, unseen, sweep, plot)
    _check_controls(controls, words or scores, test)
    learnt_from = None if words or scores else config.train
    check_paths((model,), (learnt_from, test, words, scores), file=output)
    for beside in (plot, output.with_suffix(".csv") if sweep else None):
        check_paths(file=beside)
    from mncover.engine.loading import load_subject
    from mncover.masks.sweep import learn_to_file, run_controls, run_sweep

    subject = load_subject(model, device=config.device, dtype=config.dtype)
    console = Screen(quiet=quiet)
    train = [] if learnt_from is None else o.train_texts(config)
    judged = [] if test is None else o.train_texts(config, test)
    work = (subject, train, judged, settings)
    if sweep is not None:
        run_sweep(*work, sweep, output, plot, console, controls)
        return
    if words or scores:
        found = _made(subject.tokenizer, words, scores)
        found.save(output)
    else:
        learn = partial(learn_to_file, quiet=quiet, unseen=cast("Unseen | None", unseen))
        found = learn(subject, train, settings, output)
    _show(console, found, top)
    _judge(console, subject, found, test, (judged, settings.max_length))
    if controls:
        run_controls(*work, found, output, console)
    use = f"Use them with: mncover run MODEL SUITE --masks {output}"
    console.print(f"The masks are {output}. {use}", markup=False, soft_wrap=True)


def _judge(
    console: Console, subject: Subject, masks: Masks, test: Path | None, texts: tuple[Any, int]
) -> None:
    """Warn of masks that leave out nothing, and print the fidelity on the texts of a file."""
    from mncover.masks.wimask import fidelity_on

    if keep_all(masks.summary()):
        console.print(f"Warning: {KEEP_ALL} Raise sparse_words and sparse_pairs with --set.")
    if test is not None:
        share = display_percent(fidelity_on(subject, masks, *texts))
        console.print(f"Fidelity on {test}: {share} %", markup=False, soft_wrap=True)


def _show(console: Console, masks: Masks, top: int) -> None:
    console.print(describe_masks(masks.summary(top), pairs=False))
    if len(masks.pair_keys):
        console.print(pair_lists(masks.extreme_pairs(top)))
        console.print(LEARNT_IN[masks.pairs])


def _show_file(path: Path | None, model: str | None, sentences: list[str], top: int) -> None:
    """Show a file of masks or, for sentences, which of their words may meet."""
    if path is None:
        raise SettingsError("--sentence draws what a file of masks keeps: give --show FILE too.")
    masks, console = Masks.load(path), Screen()
    if not sentences:
        _show(console, masks, top)
        return
    if model is None:
        raise SettingsError("--sentence needs the MODEL too, which splits a text into its words.")
    check_paths((model,))
    from mncover.engine.loading import fingerprint_tokenizer, load_tokenizer

    tokenizer = load_tokenizer(model)
    masks.require_tokenizer(fingerprint_tokenizer(tokenizer))
    for sentence in sentences:
        ids = tokenizer(well_formed(sentence))["input_ids"]
        console.print(draw_meeting(masks.meeting(ids), scored_pairs(masks, ids)[:top]))


def _check(
    source: Path | None, config: Config, unseen: str | None, sweep: str | None, plot: Path | None
) -> None:
    """Refuse options that do not go together, before any work."""
    known = get_args(Unseen)
    for refused, message in (
        (unseen not in (None, *known), f"`unseen` is {listed(*known)}; got {unseen!r}."),
        (unseen and (source or sweep), "--unseen is for masks that are learnt, one at a time."),
        (source and sweep, "--sweep learns masks: give it without --words and --scores."),
        (plot and not sweep, "--plot draws the curve of a --sweep: give that too."),
        (not (source or config.train), "give the texts to learn from: --train FILE (see --help)."),
    ):
        if refused:
            raise SettingsError(message)


def _check_controls(controls: bool, source: Path | None, test: Path | None) -> None:
    if controls and (source or test is None):
        raise SettingsError("--controls needs masks that are learnt, and texts: give --test FILE.")


def _made(tokenizer: Any, words: Path | None, scores: Path | None) -> Masks:
    """Return masks from a file of words or of scores."""
    path = words or scores
    assert path is not None
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise TextError(f"{path}: not UTF-8 ({error}).") from error
    if words is not None:
        return Masks.from_words(tokenizer, filter(None, map(str.strip, content.splitlines())))
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MaskError(f"{path}: not JSON ({error}).") from error
    try:
        check_shape(found, Each(float), "scores")
    except SchemaError as error:
        raise MaskError(f"{path}: must be one object of words and numbers ({error}).") from error
    return Masks.from_scores(tokenizer, found)
