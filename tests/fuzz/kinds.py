"""The kinds of file that are damaged. A new one is a line in `KINDS`."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from rich.console import Console

from mncover.augment.recipes import make_suite
from mncover.augment.transforms.neighbours import VectorSource, read_vectors
from mncover.augment.transforms.neighbours import _load as load_neighbours
from mncover.cli import main
from mncover.cli.options import Config, load_config
from mncover.cli.reports import _view
from mncover.data.datafile import read_header
from mncover.errors import MnCoverError
from mncover.report import REPORTS
from mncover.report.describe import suite_table
from mncover.report.gaps import check_flagged
from mncover.suites.exchange import read_predictions
from mncover.suites.formats import is_test_suite, load_suite, read_texts
from mncover.suites.judging import judge_suite
from mncover.suites.traffic import read_traffic
from tests.fuzz import foreign, plans, samples, states
from tests.fuzz.harness import Escaped, Kind
from tests.fuzz.mutations import (
    damaged_bytes,
    damaged_json,
    damaged_json_line,
    damaged_member,
    damaged_numbers,
    damaged_state,
    damaged_tensors,
    gzipped,
    resealed_tensors,
)


def command(*arguments: str) -> None:
    """Run a command; raise what it says if it fails, and something else if that is a bug."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main(arguments)
    if "please report this" in said.getvalue():
        with contextlib.redirect_stderr(said):
            main(["--debug", *arguments])
        raise Escaped(said.getvalue())
    if code:
        raise MnCoverError(said.getvalue().strip())


def one(name: str, write: Callable[[Path], Any]) -> Callable[[Path], Sequence[Path]]:
    """Return what makes a single file of this name."""

    def make(folder: Path) -> Sequence[Path]:
        write(folder / name)
        return [folder / name]

    return make


def zipped(name: str, write: Callable[[Path], Any]) -> Callable[[Path], Sequence[Path]]:
    """Return what makes a single compressed file."""

    def make(folder: Path) -> Sequence[Path]:
        write(folder / name)
        return [samples.zipped(folder / name)]

    return make


def copied(name: str) -> Callable[[Path], Any]:
    return lambda path: shutil.copy(samples.material().folder / name, path)


# What reads them.


def now_and_then(path: Path) -> bool:
    """Return whether this case also goes through the command line, which takes longer."""
    return zlib.crc32(path.read_bytes()) % 20 == 0


def suite(path: Path) -> None:
    found = load_suite(path) if is_test_suite(path) else None
    if found is not None:
        Console(file=io.StringIO()).print(suite_table(found))
    if now_and_then(path):
        command("suite", "show", str(path))


def texts(path: Path) -> None:
    read_texts(path)


def recipe(path: Path) -> None:
    (path.parent / "texts.txt").write_text("one\ntwo\n")
    make_suite(path)
    if now_and_then(path):
        command("suite", "make", str(path), "-o", str(path.parent / "made.jsonl"))


def pyproject(path: Path) -> None:
    load_config(path.parent)


def data_file(path: Path) -> None:
    read_header(path)
    view = _view(path, Config(), heads=True, failures=3, texts=True)
    for report in REPORTS.values():
        report.show(view, Console(file=io.StringIO()))
    if now_and_then(path):
        command("debug", "data", str(path))
        command("report", str(path), "--failures", "2")
        command("html", str(path), "-o", str(path.parent / "html"))
        with contextlib.suppress(MnCoverError):  # a file of format 1 does not say what is new
            command("select", str(path), "--budget", "50%", "-o", str(path.parent / "less.jsonl"))


def ranges(path: Path) -> None:
    from mncover.engine.ranges import Ranges

    Ranges.load(path)


@cache
def engine() -> Any:
    from mncover import Coverage
    from tests import tiny

    return Coverage(*tiny.make("bert"), bins=4, max_length=12).engine


def write_ranges(path: Path, n: int) -> None:
    """Write ranges; with n below 20 as an unfinished calibration does."""
    from mncover.engine.ranges import Ranges
    from tests import tiny

    made = engine().calibrate(tiny.texts(20), cache=False)
    if n < 20:
        import numpy as np

        empty = Ranges.empty(made.layout, 10).pooled
        pooled = tuple(np.zeros((n, one.shape[1]), np.float16) for one in empty)
        made = replace(made, texts=n, space=None, pooled=pooled)
    made.save(path)


def partial_run(path: Path) -> None:
    """Resume a run from its unfinished data file."""
    from mncover.engine.suite_run import SuiteRun
    from mncover.suites.rows import Rows

    found = Rows.of_suite(samples.material().suite, load_suite(samples.material().suite))
    run = SuiteRun(calibrated(), found, path.with_name("run.mncover"), "auto")
    run._read(path)


@cache
def calibrated() -> Any:
    from mncover import Coverage

    made = samples.material()
    cov = Coverage(str(made.model), max_length=12, progress=False)
    return cov.calibrate(read_texts(made.train).texts, cache=False).engine


def write_predictions(path: Path) -> None:
    n = load_suite(samples.material().suite).texts
    path.write_text("".join(f"{i % 3} 0.2 0.3 0.5\n" for i in range(n)))


def predictions(path: Path) -> None:
    of = str(samples.material().suite)
    found = load_suite(Path(of))
    judge_suite(found, read_predictions(path, "pred_and_softmax", found.texts))
    if now_and_then(path):
        command("suite", "judge", of, str(path), "--format", "pred_and_softmax")


def plan(path: Path) -> None:
    plans.read_plan(path)
    if now_and_then(path):
        command("suite", "show", str(path))
        guesses = path.parent / "guesses.txt"
        guesses.write_text("0.2 0.3 0.5\n" * load_suite(path).texts)
        command("suite", "judge", str(path), str(guesses))
        command("suite", "convert", str(path), "-o", str(path.parent / "again.jsonl"), "-q")
    if zlib.crc32(path.read_bytes()) % 200 == 0:
        made = replace(samples.material(), suite=path)
        command(*made.run("-o", str(path.parent / "new.mncover"), "-q"))


def write_pages(folder: Path) -> Sequence[Path]:
    """Write a report, beside which somebody keeps a page of their own."""
    run = samples.material().folder / "run.mncover"
    command("html", str(run), "-o", str(folder / "pages"), "-q")
    shutil.copytree(folder / "pages", folder, dirs_exist_ok=True)
    shutil.rmtree(folder / "pages")
    shutil.copy(run, folder)
    (folder / "tests" / "mine.html").write_text("mine")
    return [folder / ".mncover-html"]


def pages(path: Path) -> None:
    """Write a report again, whatever the list of the old one's pages says."""
    try:
        command("html", str(path.parent / "run.mncover"), "-o", str(path.parent), "-q")
    finally:
        if (path.parent / "tests" / "mine.html").read_text() != "mine":
            raise Escaped("a file of the user's is gone")


def write_verdicts(path: Path) -> None:
    from mncover.selection.finder import Finder

    finder = Finder(samples.material().folder / "run.mncover", journal=path)
    finder.next(4)
    finder.tell(["ok", "wrong", "ok", None])


def verdicts(path: Path) -> None:
    from mncover.selection.finder import Finder

    Finder(samples.material().folder / "run.mncover", journal=path)


def write_batch_file(path: Path) -> None:
    from mncover.selection.batchfile import write_batch
    from mncover.selection.finder import Finder

    write_batch(Finder(samples.material().folder / "run.mncover").next(6), path)


def batch(path: Path) -> None:
    from mncover.selection.batchfile import read_verdicts
    from mncover.selection.finder import Finder

    read_verdicts(path, Finder(samples.material().folder / "run.mncover"))


def write_flagged_run(path: Path) -> None:
    """Write the texts that `gaps -o FILE.mncover` flags, with the model's answers."""
    from mncover.data import datafile
    from mncover.engine.recorder import answered
    from mncover.suites.rows import Rows
    from tests import tiny

    known = calibrated()
    datafile.write(answered(known, Rows.make(tiny.texts(12, seed=4)), known.identity()), path)


def flagged_run(path: Path) -> None:
    """Choose among flagged texts, as `next` does."""
    from mncover.selection.finder import Finder

    Finder(path).next(4)
    if now_and_then(path):
        data_file(path)


def write_flagged_texts(path: Path) -> None:
    rows = [("text", "label", "count"), ("a good film", "", "3"), ("no film, no plot", "", "1")]
    path.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows))


def flagged_texts(path: Path) -> None:
    """Look for labels in an earlier output of `gaps`, and read it as traffic."""
    with contextlib.suppress(MnCoverError):
        check_flagged(path)
    read_traffic(path)


def write_scores(path: Path) -> None:
    path.write_text('{"good": 0.5, "bad": 1, "film": 0.0}')


def scores(path: Path) -> None:
    from mncover.cli.masks import _made
    from tests import tiny

    _made(tiny.tokenizer(), None, path)


def write_vectors(path: Path) -> None:
    path.write_text("3 2\ngood 0.5 1\nbad -0.5 2e-1\nfilm 0 1\n")


def vectors(path: Path) -> None:
    read_vectors(VectorSource(path, None), 100)


def neighbours(path: Path) -> None:
    load_neighbours(path)


def model(path: Path) -> None:
    from mncover.engine.loading import class_names, load_subject

    os.environ["HF_HUB_OFFLINE"] = "1"
    class_names(str(path.parent))
    load_subject(str(path.parent))


BYTES = (damaged_bytes, damaged_bytes, damaged_numbers)
LINES = (*BYTES, damaged_json_line, damaged_json_line)
GZIP = (damaged_bytes, *map(gzipped, BYTES))
TENSORS = (damaged_bytes, damaged_tensors, *(resealed_tensors,) * 3)
MEMBERS = (damaged_bytes, damaged_member, damaged_member, damaged_member)
CSV, TSV = (partial(samples.delimited, delimiter=d) for d in ",\t")

KINDS: dict[str, Kind] = {
    "suite": Kind(one("suite.jsonl", copied("suite.jsonl")), suite, LINES),
    "suite, compressed": Kind(
        zipped("suite.jsonl", copied("suite.jsonl")), suite, (*GZIP, gzipped(damaged_json_line))
    ),
    "plain texts": Kind(one("a.txt", samples.plain_texts), texts, BYTES),
    "CSV": Kind(one("a.csv", CSV), texts, BYTES),
    "TSV": Kind(one("a.tsv", TSV), texts, BYTES),
    "JSON Lines": Kind(one("a.jsonl", samples.json_lines), texts, LINES),
    "Parquet": Kind(one("a.parquet", samples.parquet), texts, BYTES),
    "CSV, compressed": Kind(zipped("a.csv", CSV), texts, GZIP),
    "JSON Lines, compressed": Kind(zipped("a.jsonl", samples.json_lines), texts, GZIP),
    "recipe": Kind(one("a.toml", lambda p: p.write_text(samples.RECIPE)), recipe, BYTES),
    "pyproject": Kind(
        one("pyproject.toml", lambda p: p.write_text(samples.PYPROJECT)), pyproject, BYTES
    ),
    "prompts of a project": Kind(
        one("pyproject.toml", lambda p: p.write_text(foreign.ASKING)),
        foreign.prompting,
        (*BYTES, foreign.damaged_settings, foreign.damaged_settings),
    ),
    "promptfoo": Kind(
        one("a.yaml", foreign.write_promptfoo),
        partial(foreign.foreign, command=command),
        (*BYTES, *(foreign.damaged_yaml,) * 3),
    ),
    "harness samples": Kind(
        one("samples_a.jsonl", foreign.write_samples),
        partial(foreign.foreign, command=command),
        LINES,
    ),
    "lines of prompts": Kind(
        one("a.jsonl", foreign.write_prompts), partial(foreign.foreign, command=command), LINES
    ),
    "suite of answers": Kind(
        one("suite.jsonl", foreign.write_expectations),
        suite,
        (*LINES, *(foreign.damaged_expectation,) * 4),
        2,
    ),
    "data file 1": Kind(one("a.mncover", samples.first_format), data_file, MEMBERS, 4),
    "data file 2": Kind(
        one("a.mncover", lambda p: shutil.copy(samples.OLD / "format_2.mncover", p)),
        data_file,
        MEMBERS,
        4,
    ),
    "data file 3": Kind(one("a.mncover", foreign.as_format_3), data_file, MEMBERS, 8),
    "data file 4": Kind(one("a.mncover", copied("run.mncover")), data_file, MEMBERS, 8),
    "data file of criteria": Kind(
        one("a.mncover", foreign.write_criteria),
        data_file,
        (*MEMBERS, *(foreign.damaged_criteria,) * 4),
        8,
    ),
    "data file of answers": Kind(
        one("a.mncover", foreign.write_answers),
        data_file,
        (*MEMBERS, *(foreign.damaged_judging,) * 6),
        8,
    ),
    "partial run": Kind(one("run.mncover.partial", copied("run.mncover")), partial_run, MEMBERS, 2),
    "masks 1": Kind(one("m.safetensors", states.first_masks), states.masks, TENSORS),
    "masks 2": Kind(
        one("m.safetensors", partial(states.write_masks, pairs="attention")), states.masks, TENSORS
    ),
    "shards": Kind(one("x.mncover.8.partial", states.write_shards), states.shards, TENSORS, 4.0),
    "ranges": Kind(one("r.safetensors", partial(write_ranges, n=20)), ranges, TENSORS),
    "partial ranges": Kind(one("r.partial", partial(write_ranges, n=7)), ranges, TENSORS),
    **{
        f"checkpoint, {pairs}": Kind(
            one("c.partial", partial(states.write_checkpoint, pairs=pairs)),
            partial(states.checkpoint, pairs=pairs),
            TENSORS,
        )
        for pairs in ("attention", "messages")
    },
    "cache entry": Kind(
        one("r.safetensors", partial(write_ranges, n=20)), states.cache_entry, TENSORS
    ),
    "training set": Kind(
        one("t.json", states.write_training_set),
        states.training_set,
        (*BYTES, *(damaged_state,) * 3),
    ),
    "search state": Kind(
        one("s.partial", samples.state_of_search),
        states.search_state,
        (*BYTES, *(damaged_state,) * 3),
    ),
    "yardstick": Kind(
        one("y.json", states.write_yardstick), states.yardstick, (*BYTES, *(damaged_state,) * 3)
    ),
    "predictions": Kind(one("p.txt", write_predictions), predictions, BYTES, 2),
    "plan": Kind(
        one("p.jsonl", plans.write_plan),
        plan,
        (*LINES, *(plans.damaged_plan,) * 4),
        2,
    ),
    "plan, compressed": Kind(
        zipped("p.jsonl", plans.write_plan), plan, (*GZIP, *(gzipped(plans.damaged_plan),) * 3), 2
    ),
    "data file of a plan": Kind(
        one("p.mncover", plans.write_run),
        data_file,
        (*MEMBERS, *(plans.damaged_plan_of_run,) * 4),
        8,
    ),
    "verdicts": Kind(one("v.jsonl", write_verdicts), verdicts, LINES, 2),
    "batch": Kind(one("b.jsonl", write_batch_file), batch, LINES, 2),
    "batch, CSV": Kind(one("b.csv", write_batch_file), batch, BYTES, 2),
    "flagged texts": Kind(one("f.csv", write_flagged_texts), flagged_texts, BYTES),
    "flagged run": Kind(one("f.mncover", write_flagged_run), flagged_run, MEMBERS, 4),
    "list of pages": Kind(write_pages, pages, BYTES, 20),
    "WordNet": Kind(states.write_wordnet, states.wordnet, BYTES),
    "scores": Kind(one("s.json", write_scores), scores, (*BYTES, damaged_json)),
    "vectors": Kind(one("v.txt", write_vectors), vectors, BYTES),
    "neighbours": Kind(one("n.npz", samples.neighbours), neighbours, BYTES),
    "pickle": Kind(one("s.pkl", samples.checklist_pickle), suite, BYTES),
    "pickle 2": Kind(one("s.pkl", partial(samples.checklist_pickle, protocol=4)), suite, BYTES),
    "archive": Kind(one("s.tar.gz", samples.checklist_archive), suite, GZIP),
    "model": Kind(samples.model_folder, model, (*BYTES, damaged_json, damaged_tensors), 20),
}
