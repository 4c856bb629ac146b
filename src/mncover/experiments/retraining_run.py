"""Experiment 4: train a target once per arm and seed, and judge each model on the test texts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mncover.errors import SettingsError, TextError
from mncover.experiments.retraining import NONE, Arm
from mncover.files import replacing
from mncover.finetuning import FineTuning, accuracy, fine_tune
from mncover.progress import bar
from mncover.texts import Text, fingerprint_texts

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
