"""Experiment 4: train a target once per arm and seed, and judge each model on the test texts.

The paper's Table 4: does training on texts that raise the coverage help?

The training texts are grown by Algorithm 1, guided by Cover, by mnCover, and by nothing; then a
target is trained on each of the sets and on none, several times. The sets are kept, so a second
call, perhaps on another machine, has only the training to do.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mncover.augment.grower import Grower, usable_transforms
from mncover.augment.records import AugmentSettings, Guide
from mncover.augment.transforms import Resources
from mncover.cli.config import Config
from mncover.data.files import replacing
from mncover.engine.calibrated import calibrated_engine
from mncover.engine.loading import class_names
from mncover.errors import SettingsError, TextError
from mncover.paper.finetuning import FineTuning, accuracy, fine_tune
from mncover.paper.retraining import NONE, PAPER_TEXTS, RANDOM, Arm, Row, write_retraining
from mncover.report.progress import bar
from mncover.suites.formats import read_texts
from mncover.types import Text, fingerprint_texts

# What a base folder holds that decides what is trained: configuration, weights, tokenizer.
DECIDING = (".json", ".safetensors", ".txt", ".model")


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Texts and the number of each one's class."""

    texts: tuple[Text, ...]
    labels: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.texts) != len(self.labels):
            raise TextError(f"there are {len(self.texts)} texts but {len(self.labels)} labels.")

    def __add__(self, other: TrainingSet) -> TrainingSet:
        return TrainingSet(self.texts + other.texts, self.labels + other.labels)


EMPTY = TrainingSet((), ())


@dataclass(frozen=True, slots=True)
class RetrainJob:
    """What to train and to judge: `extra` is the augmented set of each arm, by the arm's name.

    The arm `none`, without any extra texts, is always trained. `settings.epochs` epochs mean more
    steps for arms with more texts; with `settings.equal_steps`, or `settings.steps`, all arms are
    trained equally long, and `none` goes over its texts more often than the others.
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


@dataclass(frozen=True, slots=True)
class _Part:
    """One training: its texts, and the file and key under which its outcome is kept."""

    arm: str
    seed: int
    train: TrainingSet
    path: Path
    key: str


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one trained model classified rightly."""

    correct: NDArray[np.bool_]
    perturbed: NDArray[np.bool_]


def retrain(job: RetrainJob) -> list[Arm]:
    """Train and judge every arm with every seed; what is finished is kept and not done again."""
    sets = _sets(job)
    settings = common_settings(job.settings, [len(mine.texts) for mine in sets.values()])
    parts = _parts(job, sets, settings)
    outcomes = {part: outcome for part in parts if (outcome := _kept(job, part)) is not None}
    if outcomes and not job.quiet:
        done = f"{len(outcomes)} of {len(parts)} trainings are done already."
        Console(stderr=True).print(done, highlight=False)

    def work(some: Iterable[_Part]) -> int:
        """Return how many texts the trainings go through; the bar counts texts, not steps."""
        return settings.batch_size * sum(settings.steps_over(len(p.train.texts)) for p in some)

    show, size = False if job.quiet else None, settings.batch_size
    with bar("Retraining", work(parts), show, work(outcomes)) as advance:
        for part in parts:
            if part not in outcomes:
                outcomes[part] = _made(job, part, settings, lambda n: advance(n * size))
    return [_arm(job, name, [outcomes[p] for p in parts if p.arm == name]) for name in sets]


def common_settings(settings: FineTuning, sizes: Sequence[int]) -> FineTuning:
    """Return the settings for training sets of some sizes, with the steps of the largest."""
    if not settings.equal_steps or settings.steps is not None:
        return settings
    return replace(settings, steps=settings.steps_over(max(sizes)))


def _sets(job: RetrainJob) -> dict[str, TrainingSet]:
    """Return what each arm is trained on, `none` first; refuse what cannot be trained."""
    if job.seeds < 1:
        raise SettingsError(f"`seeds` must be at least 1, got {job.seeds}.")
    if not job.train.texts or not job.test.texts:
        raise TextError("retraining needs training texts and test texts.")
    if job.extra.get(NONE, EMPTY).texts:
        raise SettingsError("the arm 'none' is trained without extra texts.")
    for name in job.extra:
        if not re.fullmatch(r"[\w-]+", name):
            raise SettingsError(f"{name!r} cannot name an arm, as files are called by it.")
    return {name: job.train + extra for name, extra in ({NONE: EMPTY} | {**job.extra}).items()}


def _parts(job: RetrainJob, sets: Mapping[str, TrainingSet], settings: FineTuning) -> list[_Part]:
    """Return all trainings, seed by seed, so that what is done first can be compared."""
    judged = [_digest(job.test), _digest(job.perturbed)]
    where = (job.device or "cpu").partition(":")[0]  # devices of a kind round alike
    common = [_digest_base(job.base), *judged, asdict(settings), job.n_labels, where]
    digests = {name: _digest(mine) for name, mine in sets.items()}
    return [
        _Part(
            name,
            seed,
            mine,
            job.output / "parts" / f"{job.task}-{name}-{seed}.json",
            hashlib.sha256(json.dumps([common, digests[name], seed]).encode()).hexdigest(),
        )
        for seed in range(job.seeds)
        for name, mine in sets.items()
    ]


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


def _made(
    job: RetrainJob, part: _Part, settings: FineTuning, advance: Callable[[int], None]
) -> _Outcome:
    """Train and judge one model, and keep the outcome; the model itself is let go."""
    texts, labels = part.train.texts, part.train.labels
    options = (job.n_labels, settings, part.seed, job.device, advance)
    subject = fine_tune(job.base, texts, labels, *options)
    judged = [
        accuracy(subject, some.texts, some.labels, settings.max_length, settings.batch_size)
        for some in (job.test, job.perturbed)
    ]
    content = {"key": part.key, "correct": _digits(judged[0]), "perturbed": _digits(judged[1])}
    with replacing(part.path) as path:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return _Outcome(*judged)


def _kept(job: RetrainJob, part: _Part) -> _Outcome | None:
    """Return a kept outcome; None if there is none, or one that is damaged or of another job."""
    try:
        content = json.loads(part.path.read_text(encoding="utf-8"))
        rows = [content["correct"], content["perturbed"]]
        sizes = [len(job.test.texts), len(job.perturbed.texts)]
        whole = [len(row) for row in rows] == sizes and set("".join(rows)) <= {"0", "1"}
        if content["key"] != part.key or not whole:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _Outcome(*(np.array([digit == "1" for digit in row], dtype=bool) for row in rows))


def _digits(correct: NDArray[np.bool_]) -> str:
    return "".join("1" if right else "0" for right in correct)


def _arm(job: RetrainJob, name: str, outcomes: Sequence[_Outcome]) -> Arm:
    return Arm(
        name,
        len(job.extra.get(name, EMPTY).texts),
        np.stack([outcome.correct for outcome in outcomes]),
        np.stack([outcome.perturbed for outcome in outcomes]),
    )


# Which guide makes which set.
GUIDES: dict[str, Guide] = {RANDOM: "none", "cover": "cover", "mncover": "mncover"}
PERTURBED = "perturbed-test"
# Seeds that find nothing need replacement, so that the paper's number of texts is reached.
RESERVE = 1.1


@dataclass(frozen=True, slots=True)
class Table4Job:
    """Everything that `mncover reproduce table4` was told; `texts` None means the paper's size."""

    task: str
    model: str
    base: str
    train: Path
    test: Path
    config: Config
    output: Path
    training: FineTuning
    texts: int | None
    seeds: int
    similarity: float
    max_iter: int
    encoder: str | None
    resources: Resources
    quiet: bool = False


def run_table4(job: Table4Job) -> list[Row]:
    """Make the sets, train and judge; what an earlier call has finished is used again."""
    console = Console(stderr=True, quiet=job.quiet)
    names = class_names(job.model)
    train, test = _read(job.train, names), _read(job.test, names)
    if job.texts is not None:
        train = _some(train, job.texts)
    seeds = train if job.texts is not None else _some(train, _paper_seeds(job.task, train))
    sets = _Sets(job, console)
    arms = [name for name in GUIDES if name != "mncover" or job.config.masks is not None]
    grown = {name: sets.grown(name, GUIDES[name], seeds, seed=0) for name in arms}
    size = min(len(mine.texts) for mine in grown.values())
    if job.texts is None:
        size = min(size, PAPER_TEXTS.get(job.task, size))
    retrain_job = RetrainJob(
        task=job.task,
        base=job.base,
        train=train,
        extra={name: _some(mine, size) for name, mine in grown.items()},
        test=test,
        perturbed=sets.grown(PERTURBED, "none", test, seed=1),
        n_labels=len(names),
        settings=job.training,
        seeds=job.seeds,
        output=job.output,
        device=job.config.device,
        quiet=job.quiet,
    )
    rows = write_retraining(
        job.task, retrain(retrain_job), asdict(job.training), job.output, job.quiet
    )
    console.print(f"The table and the sets are in {job.output}.", markup=False, soft_wrap=True)
    return rows


def _paper_seeds(task: str, train: TrainingSet) -> int:
    return int(PAPER_TEXTS.get(task, len(train.texts)) * RESERVE)


def _read(path: Path, names: Sequence[str]) -> TrainingSet:
    """Read texts with their classes; texts without one are of no use here."""
    found = read_texts(path).numbered(names)
    rows = [(text, n) for text, n in zip(found.texts, found.labels, strict=True) if n >= 0]
    if not rows:
        raise TextError(f"{path}: no text has a label, and without labels nothing can be learnt.")
    return TrainingSet(tuple(text for text, _ in rows), tuple(n for _, n in rows))


def _some(mine: TrainingSet, n: int) -> TrainingSet:
    """Return n of the texts, drawn at random, in their order; all if there are fewer."""
    if n >= len(mine.texts):
        return mine
    chosen = sorted(random.Random(0).sample(range(len(mine.texts)), n))
    return TrainingSet(tuple(mine.texts[i] for i in chosen), tuple(mine.labels[i] for i in chosen))


class _Sets:
    """Makes sets of changed texts, or finds them made by an earlier call."""

    def __init__(self, job: Table4Job, console: Console) -> None:
        self.job = job
        self.console = console
        self._grower: Grower | None = None

    def grown(self, name: str, guide: Guide, seeds: TrainingSet, seed: int) -> TrainingSet:
        """Return texts made from seeds, with their labels."""
        path = self.job.output / "sets" / f"{name}.json"
        key = self._key(guide, seeds, seed)
        found = _kept_set(path, key)
        if found is not None:
            self.console.print(f"{name}: {len(found.texts):,} texts, made before.", highlight=False)
            return found
        grower = self._ready()
        settings = AugmentSettings(
            tuple(grower.transforms),
            guide,
            self.job.similarity,
            max_iter=self.job.max_iter,
            seed=seed,
        )
        partial = path.with_suffix(".partial")
        made = grower.grow(seeds.texts, settings, partial)
        labels = [seeds.labels[one.seed] for one in made.accepted]
        found = TrainingSet(tuple(one.text for one in made.accepted), tuple(labels))
        content = {"key": key, "texts": found.texts, "labels": labels}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
        partial.unlink(missing_ok=True)
        self.console.print(f"{name}: {len(labels):,} texts.", highlight=False)
        return found

    def _key(self, guide: Guide, seeds: TrainingSet, seed: int) -> dict[str, object]:
        """Return what a set hangs on, as far as it can be told without loading a model.

        Models go by the last part of their names, so that sets can be taken to another machine.
        """
        job = self.job
        masks = job.config.masks if guide == "mncover" else None
        named = (job.model, job.encoder, job.resources.masked_lm, masks)
        return {
            "named": [None if name is None else Path(name).name for name in named],
            "guide": guide,
            "seeds": fingerprint_texts(seeds.texts),
            "search": [job.similarity, job.max_iter, seed],
            "measured": [job.config.bins, job.config.max_length, job.config.train_limit],
        }

    def _ready(self) -> Grower:
        """Load all that is needed; not before a set has to be made."""
        if self._grower is None:
            job = self.job
            transforms, missing = usable_transforms((), job.resources)
            for name, why in missing.items():
                self.console.print(f"Without {name}: {why}", markup=False, soft_wrap=True)
            engine = calibrated_engine(job.model, job.config, job.quiet)
            self._grower = Grower.make(engine, tuple(transforms), job.encoder, job.resources)
        return self._grower


def _kept_set(path: Path, key: dict[str, object]) -> TrainingSet | None:
    """Return a set that was made before; None if there is none, or of another job."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["key"] != key:
            return None
        texts: list[Text] = [t if isinstance(t, str) else (t[0], t[1]) for t in content["texts"]]
        return TrainingSet(tuple(texts), tuple(int(n) for n in content["labels"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError, TextError):
        return None
