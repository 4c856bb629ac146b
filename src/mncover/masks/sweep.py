"""Learn masks into a file, once or for each value of a setting: what does sparsity cost?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

from rich.console import Console
from rich.table import Table

from mncover.data.files import Unfinished, partial_path, silent
from mncover.engine.subject import Subject
from mncover.errors import SettingsError
from mncover.masks.controls import (
    Controls,
    agreement_of_seeds,
    controls_table,
    write_controls,
)
from mncover.masks.learning import learn_masks
from mncover.masks.masks import Masks, Unseen
from mncover.masks.settings import LearningSettings, check_way, parsed_setting
from mncover.masks.wimask import fidelity_on
from mncover.report.plots import require_plotting, trade_off
from mncover.report.progress import bar
from mncover.report.screen import tell
from mncover.report.tables import plain_table, write_csv
from mncover.selection.chance import wilson
from mncover.types import Text, display_percent


def learn_to_file(
    subject: Subject,
    texts: Sequence[Text],
    settings: LearningSettings,
    path: Path,
    title: str = "Learning",
    quiet: bool = False,
    unseen: Unseen | None = None,
) -> Masks:
    """Learn masks and save them; learning that was interrupted resumes."""
    say = silent if quiet else tell
    unfinished = Unfinished(partial_path(path), "learning run", say)
    total, show = settings.texts_over(len(texts)), False if quiet else None
    with unfinished.announced(), bar(title, total, show) as advance:
        masks = learn_masks(Masks, subject, texts, settings, advance, unfinished)
    if unseen is not None:
        masks = masks.with_thresholds(unseen=unseen)
    masks.save(path)
    unfinished.remove()
    return masks


class Point(NamedTuple):
    """The shares kept, the fidelity with its 95 % interval, and the value of a setting swept.

    With controls, also the fidelity of the pairs alone, of as many pairs at random, and of pairs
    shuffled among equally frequent ones.
    """

    kept_words: float
    kept_pairs: float
    fidelity: float
    low: float
    high: float
    value: Any = None
    pairs_alone: float | None = None
    random: float | None = None
    shuffled: float | None = None


def measured(subject: Subject, masks: Masks, test: Sequence[Text], max_length: int) -> Point:
    """Measure masks; without `test`, the fidelity is the one on the texts held out."""
    summary = masks.summary()
    n = len(test) or int(masks.facts["held out"])
    fidelity = fidelity_on(subject, masks, test, max_length) if test else summary.fidelity or 0.0
    words = summary.words_kept / max(summary.words, 1)
    pairs = summary.pairs_kept / max(summary.pairs, 1)
    return Point(words, pairs, fidelity, *wilson(round(fidelity * n), n))


def parse_sweep(text: str) -> tuple[str, list[Any]]:
    """Return the name and the values of a text such as `sparse_pairs=0.001,0.01`."""
    name, _, values = text.partition("=")
    parts = [part for part in values.split(",") if part.strip()]
    if not parts:
        raise SettingsError(f"a sweep is NAME=V1,V2,…, got {text!r}.")
    parsed = [parsed_setting(f"{name}={part}") for part in parts]
    if parsed[0][0] == "pairs":
        raise SettingsError("a sweep cannot change `pairs`: learn with each of --pairs instead.")
    return parsed[0][0], [value for _, value in parsed]


def run_sweep(
    subject: Subject,
    train: Sequence[Text],
    test: Sequence[Text],
    settings: LearningSettings,
    sweep: str,
    output: Path,
    plot: Path | None,
    console: Console,
    controls: bool = False,
) -> None:
    """Learn masks for each value; write them next to `output`, with a table and a curve.

    `sweep` is a text such as `sparse_pairs=0.001,0.01`. With `controls`, masks of the same density
    are measured beside them.
    """
    name, values = parse_sweep(sweep)
    check_way(settings.pairs, [name])
    if plot is not None:
        require_plotting(plot)
    points = []
    controlling = Controls(subject, test, settings.max_length) if controls else None
    for value in values:
        chosen = replace(settings, **{name: value})
        path = output.with_name(f"{output.stem}-{name}-{value}{output.suffix}")
        masks = learn_to_file(subject, train, chosen, path, f"{name} = {value}", console.quiet)
        point = measured(subject, masks, test, chosen.max_length)._replace(value=value)
        if controlling is not None:
            names = ("pairs_alone", "random", "shuffled")
            found = (one.value for one in controlling.random(masks)[: len(names)])
            point = point._replace(**dict(zip(names, found, strict=True)))
        points.append(point)
    path = output.with_suffix(".csv")
    write_csv(path, [_record(point, name) for point in points])
    console.print(_table(points, name))
    console.print(f"The table is {path}.", markup=False, soft_wrap=True)
    if plot is not None:
        trade_off(points, name, plot)
        console.print(f"The curve is {plot}.", markup=False, soft_wrap=True)


def _record(point: Point, name: str) -> dict[str, Any]:
    """Return a row of the table; without controls it has no columns for them."""
    record = {field: value for field, value in point._asdict().items() if value is not None}
    return {name: record.pop("value"), **record}


def _table(points: Sequence[Point], name: str) -> Table:
    kept = ("words kept %", "pairs kept %", "fidelity %", "95 % interval")
    added = ("pairs alone %", "random %", "shuffled %") if points[0].random is not None else ()
    table = plain_table(name, *kept, *added, left=0, narrow=True)
    for point in points:
        words, pairs, fidelity, low, high = (display_percent(share) for share in point[:5])
        controls = [display_percent(cast("float", share)) for share in point[6 : 6 + len(added)]]
        table.add_row(f"{point.value}", words, pairs, fidelity, f"{low} to {high}", *controls)
    return table


def run_controls(
    subject: Subject,
    train: Sequence[Text],
    test: Sequence[Text],
    settings: LearningSettings,
    masks: Masks,
    output: Path,
    console: Console,
) -> None:
    """Learn with a second seed, and say whether masks are more than chance."""
    other = replace(settings, seed=settings.seed + 1)
    path = output.with_name(f"{output.stem}-seed-{other.seed}{output.suffix}")
    unseen = masks.unseen
    second = learn_to_file(subject, train, other, path, "Second seed", console.quiet, unseen)
    found = Controls(subject, test, settings.max_length).all(masks)
    seeds = agreement_of_seeds(masks, second)
    table = output.with_name(f"{output.stem}-controls.csv")
    write_controls(found, seeds, table)
    console.print(controls_table(found))
    for line in (seeds.sentence(), f"The table is {table}, the masks of the second seed {path}."):
        console.print(line, markup=False, soft_wrap=True)
