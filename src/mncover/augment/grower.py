"""Put a search together from a subject, an encoder and transformations, and run it on a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mncover.augment import outcome
from mncover.augment.judge import Embedder, Judge
from mncover.augment.outcome import Yield
from mncover.augment.records import NO_GUIDE, Augmented, AugmentSettings, SearchState
from mncover.augment.search import Search, search
from mncover.augment.transforms import PAPER, Resources, Transform, transform
from mncover.data.files import Unfinished, load_json, partial_path, save_json
from mncover.engine.engine import Engine
from mncover.engine.loading import fingerprint_model, fingerprint_tokenizer, load_subject
from mncover.engine.measure import class_probabilities
from mncover.errors import MnCoverError, SchemaError, SettingsError, TextError
from mncover.report.screen import Screen, tell
from mncover.suites.formats import chosen_fields, read_texts, save_suite
from mncover.suites.formats.records import Fields
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
        cls, engine: Engine, names: Sequence[str], encoder: str | Path | None, resources: Resources
    ) -> Grower:
        """Load the transformations and the encoder; without one, the subject is the encoder."""
        subject = engine.subject
        if encoder is not None:
            subject = load_subject(encoder, device=str(subject.device))
        embedder = Embedder(subject, engine.settings.max_length, engine.batch_size)
        return cls(engine, embedder, usable_transforms(names, resources)[0], resources)

    def grow(
        self,
        seeds: Sequence[Text],
        settings: AugmentSettings,
        partial: Path | None = None,
        model_calls: int | None = None,
    ) -> Augmented:
        """Run Algorithm 1 over seeds.

        With `partial`, the state is saved to that file regularly and at the end, and an
        interrupted call resumes from it. The caller removes it once the outcome is written.
        """
        if settings.criterion is not None:
            self.engine.check(settings.criterion)
        judge = Judge(self.engine, self.embedder, seeds, settings.similarity, settings.criterion)
        run = Search(seeds, self.transforms, judge, settings)
        unfinished = None if partial is None else Unfinished(partial, "search", self._say)
        key = None if partial is None else self._key(seeds, settings)

        def read(path: Path) -> SearchState | None:
            kept = load_json(path, key)
            if kept is None:
                return None
            state = SearchState.from_json(kept)
            if state.seed > len(seeds) or any(one.seed >= len(seeds) for one in state.accepted):
                raise SchemaError("state: there are fewer seeds")
            return state

        def save(now: bool) -> None:
            if unfinished is not None and (now or unfinished.is_time):
                unfinished.save(lambda path: save_json(path, key, run.state().to_json()))

        state = unfinished.load(read, lambda one: f"{one.seed:,} seeds") if unfinished else None
        if state is not None:
            run.restore(state)
        announced = nullcontext() if unfinished is None else unfinished.announced()
        with announced, self.engine.bar("Changing seeds", len(seeds)) as advance:
            found = search(run, advance, save, model_calls)
        save(True)
        return found

    def _say(self, line: str) -> None:
        if self.engine.progress is not False:
            tell(line)

    def _key(self, seeds: Sequence[Text], settings: AugmentSettings) -> dict[str, Any]:
        """Return everything that the outcome depends on."""
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

    def yields(
        self, seeds: Sequence[Text], settings: AugmentSettings, found: Augmented
    ) -> list[Yield]:
        """Return the failures of a search and of an unguided one that runs as many texts."""
        answers = self._classes(seeds)
        if max(answers, default=-1) < 0:  # not one class per text, so nothing is a failure
            return []

        def counted(name: str, one: Augmented) -> Yield:
            texts = [accepted.text for accepted in one.accepted]
            return outcome.yield_of(name, one, self._classes(texts), answers)

        if settings.criterion is None:
            return [counted("unguided", found)]
        # The seeds are repeated until as many texts were run.
        again = 1 + 2 * found.model_calls // len(seeds)
        free = replace(settings, guide=NO_GUIDE, seed=settings.seed + 1)
        other = self.grow([*seeds] * again, free, model_calls=found.model_calls)
        return [counted(f"guided by {settings.guide}", found), counted("unguided", other)]

    def _classes(self, texts: Sequence[Text]) -> list[int]:
        subject = self.engine.subject
        tokens = subject.encode(texts, self.engine.settings.max_length)
        probabilities = class_probabilities(subject, tokens, self.engine.batch_size)
        return [int(number) for number in subject.predictions(probabilities)]


def usable_transforms(
    asked: Sequence[str], resources: Resources
) -> tuple[dict[str, Transform], dict[str, str]]:
    """Return the named transformations, or those of the paper that can be used.

    Also returns why the others cannot. One that was named and cannot be used is refused.
    """
    if asked:
        return {name: transform(name, resources) for name in dict.fromkeys(asked)}, {}
    usable: dict[str, Transform] = {}
    missing: dict[str, str] = {}
    for name in PAPER:
        try:
            usable[name] = transform(name, resources)
        except MnCoverError as error:
            missing[name] = str(error)
    if not usable:
        raise SettingsError("no transformation can be used: " + next(iter(missing.values())))
    return usable, missing


def grow_file(
    make_engine: Callable[[], Engine],
    seeds: Path,
    output: Path,
    *,
    transforms: Sequence[str] = (),
    resources: Resources | None = None,
    encoder: str | None = None,
    fields: Fields | None = None,
    limit: int | None = None,
    rounds: int = 1,
    target: str = "train",
    include_seeds: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Augmented:
    """Grow the texts of a file, write what was found, and print a report: `mncover augment`.

    The engine is made after everything else was checked. `target` is "train", new texts with their
    seeds' labels, or "tests", a suite; `settings` are those of `AugmentSettings`. An
    interrupted call resumes.
    """
    if not output.name.endswith((".jsonl", ".jsonl.gz")):
        raise SettingsError(f"{output}: the output is JSON Lines: name it .jsonl or .jsonl.gz.")
    if target == "tests" and include_seeds:
        raise SettingsError("a suite of tests already has its seeds: leave --include-seeds out.")
    console = Screen(quiet=quiet)
    resources, fields = resources or Resources(), fields or Fields()
    usable, missing = usable_transforms(transforms, resources)
    for name, why in missing.items():
        console.print(f"Without {name}: {why}", style="yellow", markup=False, soft_wrap=True)
    how = AugmentSettings(tuple(usable), **settings)
    texts = read_texts(seeds, fields, limit)
    grower = Grower.make(make_engine(), tuple(usable), encoder, resources)
    partial = partial_path(output)
    found = grower.grow(list(texts.texts) * rounds, how, partial)
    if not found.accepted:
        partial.unlink(missing_ok=True)
        raise TextError("no text was accepted, so nothing is written: try a lower --similarity.")
    yields: list[Yield] = []
    if target == "tests":
        save_suite(outcome.suite_of(found.accepted, texts.texts), output)
        yields = grower.yields(texts.texts, how, found)
    else:
        names = chosen_fields(seeds, fields)
        outcome.write_accepted(output, found.accepted, texts, names, include_seeds)
    beside = outcome.write_report(output, found, how, yields)
    outcome.print_report(console, found, how, yields)
    console.print(f"\nWrote {output} and {beside}.", markup=False, soft_wrap=True)
    partial.unlink(missing_ok=True)
    return found
