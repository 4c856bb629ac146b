"""`mncover augment` and `mncover transform`: new texts from old ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

from mncover.augment import transforms as t
from mncover.cli import options as o
from mncover.cli.checks import check_measuring, check_paths
from mncover.cli.options import Config, argument, flag, listed, option
from mncover.criteria import CRITERIA, chosen_criteria
from mncover.errors import SettingsError
from mncover.report.screen import Screen, say
from mncover.report.tables import plain_table
from mncover.suites.formats.records import Fields
from mncover.types import Text

WordNet = Annotated[Path | None, option("WordNet's data and index files.", "FOLDER")]
Vectors = Annotated[Path | None, option("Word vectors as text, a word per line.", "FILE")]
TARGET = "train: new texts with their seeds' labels; tests: an INV suite."
GUIDE = f"What a new text must raise: {listed(*CRITERIA)}, or none."


@o.configured(*o.MEASURING, "label")
def augment(
    model: o.Model,
    seeds: Annotated[Path, argument("Texts to change, with or without labels.", "SEEDS")],
    output: o.JsonLines,
    *,
    config: Config,
    limit: Annotated[int | None, option("Change only the first N seeds.", "N", min=1)] = None,
    target: Annotated[str, option(TARGET)] = "train",
    guide: Annotated[str, option(GUIDE)] = "cover",
    similarity: o.Similarity = 0.85,
    threshold: Annotated[float, option("Accept a text that adds more than this.", min=0)] = 0.0,
    max_iter: o.MaxIter = 10,
    rounds: Annotated[int, option("How often to go over the seeds.", min=1)] = 1,
    seed: o.Seed = 0,
    transforms: Annotated[
        list[str] | None,
        option("Use only this transformation; repeatable. [all]", "NAME", "--transform"),
    ] = None,
    encoder: o.Encoder = None,
    masked_lm: o.MaskedLM = None,
    wordnet: WordNet = None,
    vectors: Vectors = None,
    include_seeds: Annotated[
        bool, flag("--include-seeds", "Write the seeds too, before the new texts.")
    ] = False,
    quiet: o.Quiet = False,
) -> None:
    """Grow a set of texts by variants that make the model do something new.

    Each seed is changed by two transformations until the outcome raises the coverage and still
    means the same. An interrupted call resumes.
    """
    _check(target, guide, config)
    check_paths((encoder, masked_lm))
    check_measuring(model, config, seeds, vectors, file=output)
    from mncover.augment.grower import grow_file  # brings torch

    grow_file(
        lambda: o.calibrated(model, config, quiet).engine,
        *(seeds, output),
        transforms=transforms or (),
        resources=t.Resources(wordnet, vectors, masked_lm, config.device),
        encoder=encoder,
        fields=Fields(config.text, config.pair, config.label),
        limit=limit,
        rounds=rounds,
        target=target,
        include_seeds=include_seeds,
        quiet=quiet,
        guide=guide,
        similarity=similarity,
        threshold=threshold,
        max_iter=max_iter,
        seed=seed,
    )


def _check(target: str, guide: str, config: Config) -> None:
    """Refuse, before any work, an unknown target, or to be guided by what is not measured."""
    if target not in ("train", "tests"):
        raise SettingsError(f"--target is train or tests, got {target!r}.")
    criteria = chosen_criteria(config.criterion_names, config.masks is not None)
    known = [*(criterion.name for criterion in criteria), "none"]
    if guide not in known:
        hint = " (mncover needs masks: --masks FILE)" if guide == "mncover" else ""
        raise SettingsError(f"the guide must be one of {listed(*known)}, got {guide!r}{hint}.")


@o.configured("device")
def transform(
    name: Annotated[str, argument("A transformation, or list.", "LIST|NAME")],
    text: Annotated[str | None, argument("The text to change.", "TEXT")] = None,
    pair: Annotated[str | None, option("The second text of a pair.")] = None,
    n: Annotated[int, option("Maximum number of variants to show.", None, "-n", min=1)] = 3,
    seed: o.Seed = 0,
    masked_lm: o.MaskedLM = None,
    wordnet: WordNet = None,
    vectors: Vectors = None,
    *,
    config: Config,
) -> None:
    """Try a transformation on a text, or list all of them."""
    if name.lower() == "list":
        table = plain_table("Transformation", "What it does", left=2)
        for entry in t.REGISTRY.values():
            table.add_row(entry.name, entry.summary)
        Screen().print(table)
        return
    change = t.transform(name, t.Resources(wordnet, vectors, masked_lm, config.device))
    if text is None:
        raise SettingsError(f'give a text: mncover transform {name} "A text." (see --help)')
    whole: Text = text if pair is None else (text, pair)
    rng = random.Random(seed)
    found = dict.fromkeys(t.apply(change, whole, rng) for _ in range(5 * n))
    found.pop(None, None)
    for variant in list(found)[:n]:
        say(variant if isinstance(variant, str) else "\t".join(variant or ()))
    if not found:
        o.speaker(quiet=False)(f"{name} finds nothing to change.")
