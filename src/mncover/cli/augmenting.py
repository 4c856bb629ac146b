"""`mncover augment` and `mncover transform`: new texts out of old ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from mncover.augment.records import check_guide
from mncover.augment.transforms import REGISTRY, Resources, apply, transform
from mncover.cli import options as o
from mncover.errors import SettingsError
from mncover.types import Text

WordNet = Annotated[
    Path | None, typer.Option("--wordnet", help="WordNet's folder of data and index files.")
]
Vectors = Annotated[
    Path | None, typer.Option(help="Word vectors as text: a word and its numbers in a line.")
]
MaskedLM = Annotated[
    str | None,
    typer.Option("--masked-lm", metavar="MODEL", help="A fill-mask model, for WordSwapMaskedLM."),
]


def augment(
    model: o.Model,
    seeds: Annotated[
        Path, typer.Argument(metavar="SEEDS", help="Texts to change, with or without labels.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .jsonl file to write (also .gz).")
    ],
    train: o.Train = None,
    train_limit: o.TrainLimit = None,
    text: o.TextField = None,
    pair: o.PairField = None,
    label: o.LabelField = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Change only the first so many seeds.")
    ] = None,
    target: Annotated[
        str, typer.Option(help="train: new texts with their seeds' labels; tests: an INV suite.")
    ] = "train",
    guide: Annotated[
        str, typer.Option(help="What a new text must raise: cover, mncover, or none.")
    ] = "cover",
    similarity: Annotated[
        float,
        typer.Option(min=-1, max=1, help="Cosine that a text's embedding and its seed's need."),
    ] = 0.85,
    threshold: Annotated[
        float, typer.Option(min=0, help="Accept a text that adds more than this share of all bins.")
    ] = 0.0,
    max_iter: Annotated[int, typer.Option(min=1, help="Attempts for each seed, at most.")] = 10,
    rounds: Annotated[int, typer.Option(min=1, help="Go over the seeds so many times.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides all that is left to chance.")] = 0,
    transforms: Annotated[
        list[str] | None,
        typer.Option(
            "--transform", metavar="NAME", help="Only this transformation; give it again. [all]"
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Compares texts with their seeds. [the model itself]"),
    ] = None,
    masked_lm: MaskedLM = None,
    wordnet: WordNet = None,
    vectors: Vectors = None,
    include_seeds: Annotated[
        bool, typer.Option("--include-seeds", help="Write the seeds too, before the new texts.")
    ] = False,
    masks: o.MasksFile = None,
    bins: o.Bins = None,
    max_length: o.MaxLength = None,
    attention_weight: o.AttentionWeight = None,
    batch_size: o.BatchSize = None,
    device: o.Device = None,
    dtype: o.Dtype = None,
    quiet: o.Quiet = False,
) -> int:
    """Grow a set of texts by variants that make the model do something new.

    Each seed is changed by two transformations until the outcome raises the coverage and still
    means the same. A call that was cut off goes on where it stopped.
    """
    if target not in ("train", "tests"):
        raise SettingsError(f"--target is train or tests, got {target!r}.")
    config = o.measuring_config(
        train=o.name_of(train),
        train_limit=train_limit,
        text=text,
        pair=pair,
        label=label,
        masks=o.name_of(masks),
        bins=bins,
        max_length=max_length,
        attention_weight=attention_weight,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
    )
    if guide == "mncover" and config.masks is None:
        raise SettingsError("mnCover needs masks: --masks FILE (see `mncover masks --help`).")
    from mncover.augment.grower import grow_file
    from mncover.engine.calibrated import calibrated_engine
    from mncover.suites.formats.records import Fields

    grow_file(
        lambda: calibrated_engine(model, config, quiet),
        seeds,
        output,
        transforms=transforms or (),
        resources=Resources(wordnet, vectors, masked_lm, device),
        encoder=encoder,
        fields=Fields(config.text, config.pair, config.label),
        limit=limit,
        rounds=rounds,
        target=target,  # type: ignore[arg-type]
        include_seeds=include_seeds,
        quiet=quiet,
        guide=check_guide(guide),
        similarity=similarity,
        threshold=threshold,
        max_iter=max_iter,
        seed=seed,
    )
    return 0


def transform_text(
    name: Annotated[str, typer.Argument(metavar="LIST|NAME", help="A transformation, or list.")],
    text: Annotated[str | None, typer.Argument(help="The text to change.")] = None,
    pair: Annotated[str | None, typer.Option(help="The second text of a pair.")] = None,
    n: Annotated[int, typer.Option("-n", min=1, help="Show so many variants, at most.")] = 3,
    seed: Annotated[int, typer.Option(help="Decides all that is left to chance.")] = 0,
    masked_lm: MaskedLM = None,
    wordnet: WordNet = None,
    vectors: Vectors = None,
    device: o.Device = None,
) -> int:
    """Try a transformation on a text, or list them all."""
    if name.lower() == "list":
        Console().print(_list_table())
        return 0
    change = transform(name, Resources(wordnet, vectors, masked_lm, device))
    if text is None:
        raise SettingsError(f'give a text: mncover transform {name} "A text." (see --help)')
    whole: Text = text if pair is None else (text, pair)
    rng = random.Random(seed)
    found = dict.fromkeys(apply(change, whole, rng) for _ in range(5 * n))
    found.pop(None, None)
    for variant in list(found)[:n]:
        print(variant if isinstance(variant, str) else "\t".join(variant or ()))
    if not found:
        Console(stderr=True).print(f"{name} finds nothing to change.", markup=False)
    return 0


def _list_table() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Transformation", no_wrap=True)
    table.add_column("What it does")
    for entry in REGISTRY.values():
        table.add_row(entry.name, entry.summary)
    return table
