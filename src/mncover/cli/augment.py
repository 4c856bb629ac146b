"""`mncover augment` and `mncover transform`: new texts from old ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mncover.augment.transforms import REGISTRY, Resources, apply, transform
from mncover.cli import options as o
from mncover.cli.config import Config
from mncover.criteria import CRITERIA, chosen_criteria
from mncover.errors import SettingsError
from mncover.suites.formats.records import Fields
from mncover.types import Text

WordNet = Annotated[
    Path | None,
    typer.Option("--wordnet", metavar="FOLDER", help="WordNet's data and index files."),
]
Vectors = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Word vectors as text: on each line a word and its numbers."),
]
TARGETS = ("train", "tests")


@o.configured(*o.MEASURING, "label")
def augment(
    model: o.Model,
    seeds: Annotated[
        Path, typer.Argument(metavar="SEEDS", help="Texts to change, with or without labels.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="The .jsonl file to write (also .gz)."),
    ],
    *,
    config: Config,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Change only the first N seeds.")
    ] = None,
    target: Annotated[
        str, typer.Option(help="train: new texts with their seeds' labels; tests: an INV suite.")
    ] = "train",
    guide: Annotated[
        str,
        typer.Option(help=f"What a new text must raise: {', '.join(CRITERIA)}, or none."),
    ] = "cover",
    similarity: o.Similarity = 0.85,
    threshold: Annotated[
        float, typer.Option(min=0, help="Accept a text that adds more than this share of all bins.")
    ] = 0.0,
    max_iter: o.MaxIter = 10,
    rounds: Annotated[int, typer.Option(min=1, help="How often to go over the seeds.")] = 1,
    seed: o.Seed = 0,
    transforms: Annotated[
        list[str] | None,
        typer.Option(
            "--transform", metavar="NAME", help="Use only this transformation; repeatable. [all]"
        ),
    ] = None,
    encoder: o.Encoder = None,
    masked_lm: o.MaskedLM = None,
    wordnet: WordNet = None,
    vectors: Vectors = None,
    include_seeds: Annotated[
        bool, typer.Option("--include-seeds", help="Write the seeds too, before the new texts.")
    ] = False,
    quiet: o.Quiet = False,
) -> int:
    """Grow a set of texts by variants that make the model do something new.

    Each seed is changed by two transformations until the outcome raises the coverage and still
    means the same. An interrupted call resumes.
    """
    if target not in TARGETS:
        raise SettingsError(f"--target is {' or '.join(TARGETS)}, got {target!r}.")
    _check_guide(guide, config)
    from mncover.augment.grower import grow_file

    train = o.train_texts(config)
    grow_file(
        lambda: o.coverage_for(model, config, quiet).calibrate(train).engine,
        seeds,
        output,
        transforms=tuple(transforms or ()),
        resources=Resources(wordnet, vectors, masked_lm, config.device),
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
    return 0


def _check_guide(guide: str, config: Config) -> None:
    """Refuse, before any work, to be guided by what is not measured."""
    criteria = chosen_criteria(config.criterion_names, config.masks is not None)
    known = [*(criterion.name for criterion in criteria), "none"]
    if guide not in known:
        hint = " (mncover needs masks: --masks FILE)" if guide == "mncover" else ""
        raise SettingsError(f"the guide must be one of {', '.join(known)}, got {guide!r}{hint}.")


@o.configured("device")
def transform_text(
    name: Annotated[str, typer.Argument(metavar="LIST|NAME", help="A transformation, or list.")],
    text: Annotated[str | None, typer.Argument(help="The text to change.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text of a pair.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Maximum number of variants to show.")] = 3,
    seed: o.Seed = 0,
    masked_lm: o.MaskedLM = None,
    wordnet: WordNet = None,
    vectors: Vectors = None,
    *,
    config: Config,
) -> int:
    """Try a transformation on a text, or list all of them."""
    if name.lower() == "list":
        Console().print(_list_table())
        return 0
    change = transform(name, Resources(wordnet, vectors, masked_lm, config.device))
    if text is None:
        raise SettingsError(f'give a text: mncover transform {name} "A text." (see --help)')
    whole: Text = text if pair is None else (text, pair)
    rng = random.Random(seed)
    found = dict.fromkeys(apply(change, whole, rng) for _ in range(5 * n))
    found.pop(None, None)
    for variant in list(found)[:n]:
        print(variant if isinstance(variant, str) else "\t".join(variant or ()))
    if not found:
        o.speaker(quiet=False)(f"{name} finds nothing to change.")
    return 0


def _list_table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Transformation", no_wrap=True)
    table.add_column("What it does")
    for entry in REGISTRY.values():
        table.add_row(entry.name, entry.summary)
    return table
