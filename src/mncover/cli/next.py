"""`mncover next`: the next cases worth judging, and what the verdicts so far say. No torch here."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text as Line

from mncover.cli import options as o
from mncover.cli.checks import check_paths
from mncover.cli.options import Config, argument, flag, option, written
from mncover.cli.review import Review, require_terminal
from mncover.errors import DataFileError, SettingsError
from mncover.report.screen import Screen, in_json, say
from mncover.report.tables import plain_table
from mncover.selection.batches import EXPLORE
from mncover.selection.batchfile import check_replaceable, read_verdicts, record_of, write_batch
from mncover.selection.cases import cases_of
from mncover.selection.finder import Batch, Finder
from mncover.selection.flaggedfile import is_flagged
from mncover.selection.journal import Verdict, journal_path
from mncover.suites.judging import FAILS, NOT_JUDGED
from mncover.types import counted, display_percent, shorten, visible

SIZE, LONGEST = 50, 200
FILLED = "A file with verdicts, such as a batch that was filled in; repeatable."
OUTPUT = "The batch to write (.jsonl, .csv or .tsv; .gz too); the screen if not given."
JUDGE = "Take verdicts on the last batches from the suite's expectations or labels: a rehearsal."
REVIEW = "Judge in the terminal: one case at a time, a key for each verdict."
FILE = "The data file, or texts that `mncover gaps -o` wrote; run.mncover if not given."
OUTSIDE = (
    "{path} has no signatures, so cases are chosen by the model's outputs alone, which finds fewer "
    "failures. To have them, {how}."
)
RUN_AGAIN = "repeat `mncover run` without --no-signatures"
WRITE_DATA = "repeat `mncover gaps` with --train and `-o FILE.mncover`"


@dataclass(frozen=True, slots=True)
class News:
    """What a call learnt: verdicts that are new, that replaced others, and those nobody can give.

    `unjudged` counts the cases on which the suite has no opinion.
    """

    new: int = 0
    changed: int = 0
    unjudged: int = 0


@o.configured()
def next(
    file: Annotated[Path | None, argument(FILE, "FILE")] = None,
    verdicts: Annotated[list[Path] | None, option(FILLED, "FILE")] = None,
    number: Annotated[int, option("Cases in the batch.", "N", "--number", "-n", min=1)] = SIZE,
    output: Annotated[Path | None, written(OUTPUT)] = None,
    review: Annotated[bool, flag("--review", REVIEW)] = False,
    judge: Annotated[bool, flag("--judge", JUDGE)] = False,
    explore: Annotated[
        float, option("How much of a batch explores.", "PERCENT", min=0, max=100)
    ] = EXPLORE * 100,
    seed: o.Seed = 0,
    *,
    config: Config,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Choose the next cases that are worth judging; verdicts make the choice better."""
    if review and (output is not None or as_json):
        raise SettingsError("--review shows the cases itself: leave out --output and --json.")
    if review:
        require_terminal()
    path = file or Path(config.output)
    check_paths(file=output, reads=(path,))
    finder = _finder(path, explore, seed)
    if not finder.has_inside:
        how = WRITE_DATA if is_flagged(path) else RUN_AGAIN
        o.speaker(quiet)(OUTSIDE.format(path=path, how=how))
    told = _told(finder, verdicts or [], path if judge else None)
    if output is not None:
        check_replaceable(output, finder)
    call = _Call(finder, told, path, number, output, judge)
    if review:
        call.review(quiet)
    else:
        call.batch(as_json, quiet)


def _finder(path: Path, explore: float, seed: int) -> Finder:
    try:
        return Finder(path, journal=journal_path(path), explore=explore / 100, seed=seed)
    except DataFileError as error:
        raise _about(path, error) from None


def _about(path: Path, error: DataFileError) -> DataFileError:
    """Return an error that names the data file."""
    why = str(error).rstrip(".")
    known = str(path) in why or str(journal_path(path)) in why
    return DataFileError(f"{why}." if known else f"{path}: {why}.")


def _told(finder: Finder, files: Sequence[Path], judged: Path | None) -> News:
    """Give the finder the verdicts in files and, of a data file to be judged, the suite's own."""
    found: dict[int, Verdict] = {}
    for path in files:
        found |= read_verdicts(path, finder)
    before = dict(finder.journal.verdicts)
    finder.tell(found)
    unjudged = 0 if judged is None else _judge(finder, judged)
    after = finder.journal.verdicts
    changed = sum(after[case] != verdict for case, verdict in before.items())
    return News(len(after) - len(before), changed, unjudged)


def _judge(finder: Finder, path: Path) -> int:
    """Take the suite's verdicts on the cases that wait for one; return how many have none."""
    try:
        cases = cases_of(finder.data)
    except DataFileError as error:
        raise _about(path, error) from None
    known = dict(zip(cases.number.tolist(), cases.verdicts.tolist(), strict=True))
    waiting = {one.case: known[one.case] for one in finder.journal.pending}
    judged = {case: verdict for case, verdict in waiting.items() if verdict != NOT_JUDGED}
    finder.tell({case: "wrong" if v == FAILS else "ok" for case, v in judged.items()})
    return len(waiting) - len(judged)


@dataclass(frozen=True)
class _Call:
    """One call of the command: a batch, or a review, and what it says about it."""

    finder: Finder
    news: News
    path: Path
    number: int
    output: Path | None
    judge: bool

    def batch(self, as_json: bool, quiet: bool) -> None:
        """Choose a batch, write or print it, and say what it is made of."""
        so_far = self._known()
        made, batch = self._choose()
        if self.output is not None and batch:
            write_batch(batch, self.output)
        if quiet:
            return
        if as_json:
            target = None if self.output is None else str(self.output)
            rows = [record_of(item) for item in batch]
            say(in_json({**so_far, "batch": made, "output": target, "cases": rows}))
            return
        console = Screen()
        if self.output is None and batch:
            console.print(_table(batch))
        _print(console, [*_so_far(so_far), *_made(made), *self._then(batch)])

    def review(self, quiet: bool) -> None:
        """Show the cases that have no verdict; if there are none, a new batch."""
        console, lines = Screen(), [*_so_far(self._known() | {"pending": 0})]
        if not self.finder.journal.pending:
            made, _ = self._choose()
            lines += _made(made)
        if not quiet:
            _print(console, lines)
        review = Review(self.finder, console)
        if review.queue:
            review.run()
        if not quiet:
            _print(console, ["", *self._reviewed(review)])

    def _known(self) -> dict[str, Any]:
        """Return what is known so far."""
        journal = self.finder.journal
        return {
            "verdicts": len(journal.verdicts),
            "failing": _failing(self.finder),
            "new": self.news.new,
            "changed": self.news.changed,
            "not_judged": self.news.unjudged,
            "pending": len(journal.pending),
        }

    def _choose(self) -> tuple[dict[str, Any], Batch]:
        """Return what a new batch is made of, and the batch."""
        looked = {one.cluster for one in self.finder.journal.asked}
        batch = self.finder.next(self.number)
        return _made_of(batch, looked), batch

    def _then(self, batch: Batch) -> Iterator[str]:
        """Say what to do now."""
        if not batch:
            return
        if self.output is None:
            yield f"To judge them here: {self.command('--review')}"
            return
        labels = self.finder.data.identity.labels
        single = any(len(item.texts) == 1 for item in batch)
        classes = f", or the right class ({o.listed(*labels)})" if labels and single else ""
        told = ["--judge"] if self.judge else ["--verdicts", str(self.output)]
        again = self.command(*told, "-o", str(self.output))
        yield f"{self.output}: fill in the field 'verdict' with ok, wrong{classes}. Then: {again}"

    def _reviewed(self, review: Review) -> Iterator[str]:
        wrong = sum(verdict == "wrong" for verdict in review.judged.values())
        left = len(self.finder.journal.pending)
        if review.queue:
            yield (
                f"Judged now: {counted(len(review.judged), 'case')}, {wrong:,} wrong. In all "
                f"{counted(len(self.finder.journal.verdicts), 'verdict')}, "
                f"{counted(_failing(self.finder), 'failure')}; "
                f"they are in {self.finder.journal.path}."
            )
            what = f"To go on with {counted(left, 'case')}" if left else "For the next batch"
            yield f"{what}: {self.command('--review')}"

    def command(self, *more: str) -> str:
        """Return the command that goes on from here."""
        given = ["mncover", "next", str(self.path), *more]
        if self.number != SIZE:
            given += ["-n", str(self.number)]
        if self.finder.explore != EXPLORE:
            given += ["--explore", f"{self.finder.explore * 100:g}"]
        if self.finder.seed:
            given += ["--seed", str(self.finder.seed)]
        return shlex.join(given)


def _failing(finder: Finder) -> int:
    return sum(verdict == "wrong" for verdict in finder.journal.verdicts.values())


def _made_of(batch: Batch, looked: set[int]) -> dict[str, Any]:
    """Return how the cases of a batch were chosen; `looked` are the clusters of earlier ones."""
    kinds = {why: [item for item in batch if item.why == why] for why in ("start", "likely")}
    explored = [item.cluster for item in batch if item.why == "explore"]
    survey = sum(item.why == "survey" for item in batch)
    return {
        "number": batch[0].batch if batch else None,
        "cases": len(batch),
        **{why: len(items) for why, items in kinds.items()},
        "explore": len(explored),
        "survey": survey,
        "expected": round(batch.expected, 2) if kinds["likely"] else None,
        "start_clusters": len({item.cluster for item in kinds["start"]}),
        "clusters": sorted(set(explored)),
        "new_clusters": sorted(set(explored) - looked),
    }


def _so_far(known: dict[str, Any]) -> Iterator[str]:
    """Say what is known before the batch."""
    news = [f"{known[what]:,} {what}" for what in ("new", "changed") if known[what]]
    beside, failing = f" ({', '.join(news)})" if news else "", counted(known["failing"], "failure")
    if known["verdicts"]:
        yield f"So far: {counted(known['verdicts'], 'verdict')}{beside}, {failing}."
    if known["not_judged"]:
        yield f"{counted(known['not_judged'], 'case')} cannot be judged by the suite itself."
    if known["pending"]:
        yield (
            f"Without a verdict yet: {counted(known['pending'], 'case')} of earlier batches. They "
            "are not asked again; judge them with --review, or in their file."
        )


def _made(made: dict[str, Any]) -> Iterator[str]:
    """Say what a batch is made of."""
    if not made["cases"]:
        yield "Every case was asked about: there is no further batch."
        return
    parts = []
    if made["likely"]:
        parts.append(f"{made['likely']:,} likely to fail")
    if made["start"]:
        clusters = counted(made["start_clusters"], "cluster")
        parts.append(f"{made['start']:,} to begin with, spread over {clusters}")
    if made["explore"]:
        clusters, new = counted(len(made["clusters"]), "cluster"), len(made["new_clusters"])
        parts.append(f"{made['explore']:,} to explore, from {clusters} ({new:,} never looked at)")
    if made["survey"]:
        parts.append(f"{made['survey']:,} at random, to estimate what is left")
    yield f"Batch {made['number']}: {counted(made['cases'], 'case')}; {'; '.join(parts)}."
    if made["expected"] is None:
        yield "It learns once there are verdicts of both kinds, ok and wrong."
    else:
        yield f"Failures expected in this batch: {made['expected']:.1f}."


def _table(batch: Batch) -> Table:
    """Return a row for each case."""
    table = plain_table("Case", "Text", "Answer", "Why", "Sure %", left=4)
    for item in batch:
        texts = " / ".join(shorten(text, LONGEST) for text in item.texts)
        answers = ", ".join(item.answers)
        sure = ", ".join(display_percent(share, 1) for share in item.confidences)
        cells = str(item.case), visible(texts), visible(answers), item.why, sure
        table.add_row(*map(Line, cells))  # not markup, whatever they hold
    return table


def _print(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
