"""Keep the state of a search in a file, and go on from it. No torch here.

Everything that grows a set of texts, put together: subject, encoder, transformations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from mncover.augment.judge import Embedder, Judge
from mncover.augment.records import Augmented, AugmentSettings
from mncover.augment.resume import Unfinished
from mncover.augment.search import Search, search
from mncover.augment.transforms import TRANSFORMS, Resources, Transform, transform
from mncover.criteria import check_metric
from mncover.engine.engine import Engine
from mncover.engine.loading import fingerprint_model, fingerprint_tokenizer, load_subject
from mncover.errors import MnCoverError, SettingsError
from mncover.report.progress import bar
from mncover.types import Text, fingerprint_texts


@dataclass(frozen=True, slots=True)
class Grower:
    """Grows sets of texts with one subject, one encoder and some transformations."""

    engine: Engine
    embedder: Embedder
    transforms: Mapping[str, Transform]
    resources: Resources

    @classmethod
    def make(
        cls,
        engine: Engine,
        transforms: Sequence[str],
        encoder: str | Path | None,
        resources: Resources,
    ) -> Grower:
        """Load the encoder, or take the subject for one, and the transformations."""
        subject = engine.subject
        if encoder is not None:
            subject = load_subject(encoder, device=str(subject.device))
        embedder = Embedder(subject, engine.settings.max_length, engine.batch_size)
        return cls(engine, embedder, usable_transforms(transforms, resources)[0], resources)

    def grow(
        self,
        seeds: Sequence[Text],
        settings: AugmentSettings,
        partial: Path | None = None,
        model_calls: int | None = None,
    ) -> Augmented:
        """Run Algorithm 1 over seeds.

        With `partial`, the state is kept in that file from time to time and at the end, and an
        earlier call that was cut off is continued. Whoever has written the outcome takes it away.
        """
        if settings.metric is not None:
            check_metric(settings.metric, self.engine.masks is not None)
        unfinished = None if partial is None else Unfinished(partial, self._key(seeds, settings))
        judge = Judge(self.engine, self.embedder, seeds, settings.similarity, settings.metric)
        run = Search(seeds, self.transforms, judge, settings)
        self._restore(run, unfinished)
        try:
            with bar("Changing seeds", len(seeds), self.engine.progress) as advance:
                found = search(run, advance, unfinished, model_calls)
        except KeyboardInterrupt:
            if partial is not None and partial.exists():
                self._say(f"What is finished lies in {partial}: run the same command to go on.")
            raise
        if unfinished is not None:
            unfinished.save(run.state())
        return found

    def _restore(self, run: Search, unfinished: Unfinished | None) -> None:
        """Go on from a state that was kept, if there is one of this search."""
        if unfinished is None or not unfinished.path.exists():
            return
        state = unfinished.load()
        if state is None:
            self._say(f"{unfinished.path} belongs to another search: starting afresh.")
            return
        self._say(f"Going on with {unfinished.path}: {state.seed:,} seeds are done.")
        run.restore(state)

    def _say(self, words: str) -> None:
        console = Console(stderr=True, quiet=self.engine.progress is False)
        console.print(words, markup=False, highlight=False, soft_wrap=True)

    def _key(self, seeds: Sequence[Text], settings: AugmentSettings) -> dict[str, Any]:
        """Return all that the outcome hangs on."""
        engine, encoder = self.engine, self.embedder.encoder
        return {
            "model": engine.model_fingerprint,
            "tokenizer": engine.tokenizer_fingerprint,
            "ranges": None if engine.ranges is None else engine.ranges.fingerprint,
            "masks": None if engine.masks is None else engine.masks.fingerprint,
            "measured": asdict(engine.settings),
            "encoder": [fingerprint_model(encoder.model), fingerprint_tokenizer(encoder.tokenizer)],
            "resources": {name: str(value) for name, value in asdict(self.resources).items()},
            "seeds": fingerprint_texts(seeds),
            "settings": asdict(settings),
        }


def usable_transforms(
    asked: Sequence[str], resources: Resources
) -> tuple[dict[str, Transform], dict[str, str]]:
    """Return the transformations asked for, or all that can be used, and why others cannot.

    What was asked for by name and cannot be used is refused.
    """
    if asked:
        return {name: transform(name, resources) for name in dict.fromkeys(asked)}, {}
    usable: dict[str, Transform] = {}
    missing: dict[str, str] = {}
    for name in TRANSFORMS:
        try:
            usable[name] = transform(name, resources)
        except MnCoverError as error:
            missing[name] = str(error)
    if not usable:
        raise SettingsError("no transformation can be used: " + next(iter(missing.values())))
    return usable, missing
