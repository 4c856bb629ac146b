"""The paper's Table 4: does training on texts that raise the coverage help?

The training texts are augmented by Algorithm 1, guided by Cover, by mnCover, and by nothing. A
target is then trained on each set and on none, once per seed, and judged on the test texts. Sets
and outcomes are kept, so a second call, perhaps on another machine, does only what is missing.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mncover.augment.grower import Grower, usable_transforms
from mncover.augment.records import AugmentSettings
from mncover.augment.transforms import Resources
from mncover.data.files import load_json, partial_path, save_json
from mncover.data.schema import Whole, check_shape
from mncover.engine.loading import class_names
from mncover.errors import DataFileError, SchemaError, SettingsError, TextError
from mncover.paper.finetuning import Advance, FineTuning, TrainingSet, accuracy, fine_tune
from mncover.paper.retraining import NONE, PAPER_TEXTS, RANDOM, Arm, Row, write_retraining
from mncover.report.progress import bar
from mncover.report.screen import tell
from mncover.suites.formats import read_texts
from mncover.suites.rows import label_numbers
from mncover.types import Settings, are_texts, fingerprint_texts

if TYPE_CHECKING:
    from mncover.engine.engine import Engine

# The files of a base folder that decide what is trained: configuration, weights, tokenizer.
DECIDING = (".json", ".safetensors", ".txt", ".model")
# Which guide makes which set.
GUIDES: dict[str, str] = {RANDOM: "none", "cover": "cover", "mncover": "mncover"}
PERTURBED = "perturbed-test"
# Some seeds yield nothing, so more are taken to reach the paper's number of texts.
RESERVE = 1.1

EMPTY = TrainingSet((), ())
# A training: the name of its arm, and its seed.
Part = tuple[str, int]
# Which test texts, and which perturbed ones, a trained model classified correctly.
Outcome = list[NDArray[np.bool_]]


def run_table4(
    *,
    task: str,
    model: str,
    base: str,
    train: Path,
    test: Path,
    make_engine: Callable[[], Engine],
    settings: Settings,
    masks: str | None,
    output: Path,
    training: FineTuning,
    texts: int | None,
    seeds: int,
    similarity: float,
    max_iter: int,
    encoder: str | None,
    resources: Resources,
    quiet: bool = False,
) -> list[Row]:
    """Make the sets, train and judge, and write the table; `texts` None means the paper's size.

    The engine, calibrated and with these settings and masks, is made if a set has to be.
    """
    names = class_names(model)
    known, judged = _read(train, names), _read(test, names)
    if texts is None:  # the paper's number
        seeds_of = _some(known, int(PAPER_TEXTS.get(task, len(known.texts)) * RESERVE))
    else:
        known = seeds_of = _some(known, texts)
    measured = (model, make_engine, settings, masks)
    sets = _Sets(output / "sets", *measured, similarity, max_iter, encoder, resources, quiet)
    arms = [name for name in GUIDES if name != "mncover" or masks is not None]
    grown = {name: sets.grown(name, GUIDES[name], seeds_of, seed=0) for name in arms}
    size = min(len(mine.texts) for mine in grown.values())
    if texts is None:
        size = min(size, PAPER_TEXTS.get(task, size))
    extra = {name: _some(mine, size) for name, mine in grown.items()}
    used = (known, extra, judged, sets.grown(PERTURBED, "none", judged, seed=1))
    job = Retraining(
        task, base, *used, len(names), training, seeds, output, resources.device, quiet
    )
    rows = write_retraining(task, job.run(), asdict(training), output, quiet)
    sets.say(f"The table and the sets are in {output}.")
    return rows


def _read(path: Path, names: Sequence[str]) -> TrainingSet:
    """Read texts with their classes; texts without a class are left out."""
    found = read_texts(path)
    numbers = label_numbers(found.labels, names, found.place)
    rows = [(text, n) for text, n in zip(found.texts, numbers, strict=True) if n >= 0]
    if not rows:
        raise TextError(f"{path}: no text has a label, and without labels nothing can be learnt.")
    return TrainingSet(tuple(text for text, _ in rows), tuple(n for _, n in rows))


def _some(mine: TrainingSet, n: int) -> TrainingSet:
    """Return n of the texts, drawn at random, in their order; all if there are fewer."""
    if n >= len(mine.texts):
        return mine
    chosen = sorted(random.Random(0).sample(range(len(mine.texts)), n))
    return TrainingSet(tuple(mine.texts[i] for i in chosen), tuple(mine.labels[i] for i in chosen))


@dataclass
class _Sets:
    """Makes sets of changed texts, or finds them in a folder."""

    folder: Path
    model: str
    make_engine: Callable[[], Engine]
    settings: Settings
    masks: str | None
    similarity: float
    max_iter: int
    encoder: str | None
    resources: Resources
    quiet: bool

    def say(self, line: str) -> None:
        """Print a line on standard error."""
        if not self.quiet:
            tell(line)

    def grown(self, name: str, guide: str, seeds: TrainingSet, seed: int) -> TrainingSet:
        """Return texts made from seeds, with the seeds' labels."""
        path, key = self.folder / f"{name}.json", self._key(guide, seeds, seed)
        found = _kept_set(path, key)
        if found is not None:
            self.say(f"{name}: {len(found.texts):,} texts, made by an earlier run.")
            return found
        search = (tuple(self.grower.transforms), guide, self.similarity)
        settings = AugmentSettings(*search, max_iter=self.max_iter, seed=seed)
        made = self.grower.grow(seeds.texts, settings, partial_path(path)).accepted
        labels = tuple(seeds.labels[one.seed] for one in made)
        found = TrainingSet(tuple(one.text for one in made), labels)
        save_json(path, key, asdict(found))
        partial_path(path).unlink(missing_ok=True)
        self.say(f"{name}: {len(labels):,} texts.")
        return found

    def _key(self, guide: str, seeds: TrainingSet, seed: int) -> dict[str, object]:
        """Return what a set depends on, as far as that is known without loading a model.

        Models go by the last part of their names, so that sets can be taken to another machine.
        """
        masks = self.masks if guide == "mncover" else None
        named = (self.model, self.encoder, self.resources.masked_lm, masks)
        return {
            "named": [None if name is None else Path(name).name for name in named],
            "guide": guide,
            "seeds": fingerprint_texts(seeds.texts),
            "search": [self.similarity, self.max_iter, seed],
            "measured": [self.settings.bins, self.settings.max_length, None],
        }

    @cached_property
    def grower(self) -> Grower:
        """The models; not loaded before a set has to be made."""
        transforms, missing = usable_transforms((), self.resources)
        for name, why in missing.items():
            self.say(f"Without {name}: {why}")
        return Grower.make(self.make_engine(), tuple(transforms), self.encoder, self.resources)


def _kept_set(path: Path, key: dict[str, object]) -> TrainingSet | None:
    """Return the set that an earlier call made; None if there is none with this key."""
    try:
        state = load_json(path, key)
        check_shape(state, {"texts": list, "labels": [Whole()]}, "set")
        texts = tuple(tuple(t) if isinstance(t, list) else t for t in state["texts"])
        return TrainingSet(texts, tuple(state["labels"])) if are_texts(texts) else None
    except (SchemaError, TextError, DataFileError):
        return None


@dataclass(frozen=True, slots=True)
class Retraining:
    """Trains and judges every arm with every seed.

    `extra` has the augmented set of each arm. The arm `none`, without extra texts, is always
    trained. `settings.epochs` epochs mean more steps for arms with more texts; with
    `settings.equal_steps` or `settings.steps` all arms are trained equally long, and `none` sees
    its texts more often than the others.
    """

    task: str
    base: str
    train: TrainingSet
    extra: Mapping[str, TrainingSet]
    test: TrainingSet
    perturbed: TrainingSet
    n_labels: int
    settings: FineTuning
    seeds: int
    output: Path
    device: str | None = None
    quiet: bool = False

    def run(self) -> list[Arm]:
        """Return what each arm's models got right; finished trainings are kept, not repeated."""
        self._check()
        sets = {name: self.train + more for name, more in {NONE: EMPTY, **self.extra}.items()}
        settings = common_settings(self.settings, [len(mine.texts) for mine in sets.values()])
        keys, size = self._keys(sets, settings), settings.batch_size
        kept = {part: self._kept(part, key) for part, key in keys.items()}
        found = {part: outcome for part, outcome in kept.items() if outcome is not None}
        if found and not self.quiet:
            tell(f"{len(found)} of {len(keys)} trainings were done before.")

        def work(some: Iterable[Part]) -> int:
            """Return how many texts trainings process; the bar counts texts, not steps."""
            return size * sum(settings.steps_over(len(sets[name].texts)) for name, _ in some)

        with bar("Retraining", work(keys), False if self.quiet else None, work(found)) as advance:
            for part, key in keys.items():
                if part not in found:
                    mine, seed = sets[part[0]], part[1]
                    found[part] = self._outcome(mine, seed, settings, lambda n: advance(n * size))
                    digits = ["".join("01"[x] for x in row.astype(int)) for row in found[part]]
                    save_json(self._path(part), key, digits)
        return [self._arm(name, [found[name, seed] for seed in range(self.seeds)]) for name in sets]

    def _check(self) -> None:
        """Refuse what cannot be trained."""
        if self.seeds < 1:
            raise SettingsError(f"`seeds` must be at least 1, got {self.seeds}.")
        if not self.train.texts or not self.test.texts:
            raise TextError("retraining needs training texts and test texts.")
        if self.extra.get(NONE, EMPTY).texts:
            raise SettingsError("the arm 'none' is trained without extra texts.")
        for name in self.extra:
            if not re.fullmatch(r"[\w-]+", name):
                raise SettingsError(f"{name!r} cannot name an arm: files are named after it.")

    def _keys(self, sets: Mapping[str, TrainingSet], settings: FineTuning) -> dict[Part, str]:
        """Return the key of each training's outcome; seed by seed, so that arms can be compared."""
        where = (self.device or "cpu").partition(":")[0]  # devices of a kind round alike
        judged = [_digest(self.test), _digest(self.perturbed)]
        common = [_digest_base(self.base), *judged, asdict(settings), self.n_labels, where]
        digests = {name: _digest(mine) for name, mine in sets.items()}
        parts = [(name, seed) for seed in range(self.seeds) for name in sets]
        contents = [json.dumps([common, digests[name], seed]).encode() for name, seed in parts]
        return dict(zip(parts, (hashlib.sha256(c).hexdigest() for c in contents), strict=True))

    def _path(self, part: Part) -> Path:
        return self.output / "parts" / f"{self.task}-{part[0]}-{part[1]}.json"

    def _kept(self, part: Part, key: str) -> Outcome | None:
        """Return a kept outcome; None if there is none with this key, or a damaged one."""
        sizes = [len(self.test.texts), len(self.perturbed.texts)]
        try:
            rows = load_json(self._path(part), key)
            whole = [len(row) for row in rows] == sizes and set("".join(rows)) <= {"0", "1"}
        except (TypeError, DataFileError):
            return None
        return [np.array([x == "1" for x in row], dtype=bool) for row in rows] if whole else None

    def _outcome(
        self, mine: TrainingSet, seed: int, settings: FineTuning, advance: Advance
    ) -> Outcome:
        """Train and judge one model, which is not kept."""
        options = (self.n_labels, settings, seed, self.device, advance)
        subject = fine_tune(self.base, mine, *options)
        sizes = (settings.max_length, settings.batch_size)
        return [accuracy(subject, some, *sizes) for some in (self.test, self.perturbed)]

    def _arm(self, name: str, outcomes: Sequence[Outcome]) -> Arm:
        correct, perturbed = (np.stack(rows) for rows in zip(*outcomes, strict=True))
        return Arm(name, len(self.extra.get(name, EMPTY).texts), correct, perturbed)


def common_settings(settings: FineTuning, sizes: Sequence[int]) -> FineTuning:
    """Return the settings for training sets of these sizes: with `equal_steps`, the largest's."""
    if not settings.equal_steps or settings.steps is not None:
        return settings
    return replace(settings, steps=settings.steps_over(max(sizes)))


def _digest(mine: TrainingSet) -> str:
    labels = hashlib.sha256(json.dumps(mine.labels).encode()).hexdigest()
    return fingerprint_texts(mine.texts) + labels


def _digest_base(base: str) -> str:
    """Return a digest of the files of a base folder, or the name of a base on the hub."""
    if not Path(base).is_dir():
        return base
    digest = hashlib.sha256()
    for path in sorted(Path(base).iterdir()):
        if path.suffix in DECIDING:
            digest.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
    return digest.hexdigest()
