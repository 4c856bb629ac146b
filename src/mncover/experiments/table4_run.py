"""The paper's Table 4: does training on texts that raise the coverage help?

The training texts are grown by Algorithm 1, guided by Cover, by mnCover, and by nothing; then a
target is trained on each of the sets and on none, several times. The sets are kept, so a second
call, perhaps on another machine, has only the training to do.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from mncover.augmentation.grower import Grower, usable_transforms
from mncover.augmentation.settings import AugmentSettings, Guide
from mncover.calibrated import calibrated_engine
from mncover.config import Config
from mncover.errors import TextError
from mncover.experiments.retraining import PAPER_TEXTS, RANDOM, Row
from mncover.experiments.retraining_run import RetrainJob, TrainingSet, retrain
from mncover.files import replacing
from mncover.finetuning import FineTuning
from mncover.labels import label_numbers
from mncover.loading import class_names
from mncover.report.retrainingreport import write_retraining
from mncover.suites.textfile import read_texts
from mncover.texts import Text, fingerprint_texts
from mncover.transforms import Resources

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
        found = _kept(path, key)
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


def _kept(path: Path, key: dict[str, object]) -> TrainingSet | None:
    """Return a set that was made before; None if there is none, or of another job."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["key"] != key:
            return None
        texts: list[Text] = [t if isinstance(t, str) else (t[0], t[1]) for t in content["texts"]]
        return TrainingSet(tuple(texts), tuple(int(n) for n in content["labels"]))
    except (OSError, ValueError, KeyError, TypeError, IndexError, TextError):
        return None
