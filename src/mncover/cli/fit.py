"""`--other` and `--fit` of `mncover select`: scores that take more than one data file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from mncover.cli import options as o
from mncover.cli.options import Config
from mncover.coverage import Coverage
from mncover.data.files import Say
from mncover.data.identity import Identity
from mncover.data.store import CoverageData
from mncover.errors import DataFileError, MismatchError, SettingsError
from mncover.selection.cases import Cases, cases_of
from mncover.selection.fit import Combination, combined_scores, fit
from mncover.selection.inside import second_opinion
from mncover.suites.formats import is_test_suite, read_texts
from mncover.suites.formats.records import Fields
from mncover.suites.judging import NOT_JUDGED

Read = TypeVar("Read")

# What signatures of two runs must share to be compared.
SAME = {
    "model_fingerprint": "another model",
    "tokenizer_fingerprint": "another tokenizer",
    "ranges_fingerprint": "other training texts or another --max-length",
}


def cases_in(path: Path) -> Cases:
    """Read the cases of a data file of one run."""
    return _naming(path, lambda: cases_of(Coverage.load(path).data))


def with_second(cases: Cases, other: Path) -> Cases:
    """Return the cases with the doubt of the model whose data file `other` is."""
    data = Coverage.load(other).data
    doubt = _naming(other, lambda: second_opinion(cases, data))
    return replace(cases, given={**cases.given, "second": doubt})


def with_fitted(cases: Cases, dev: Cases, seed: int) -> tuple[Cases, Combination]:
    """Return the cases with a combination of scores that was fitted to a development set."""
    found = fit(dev, combined_scores(cases, dev), seed)
    return replace(cases, given={**cases.given, "fitted": found.of(cases)}), found


def dev_cases(dev: Path, run: Path, model: str | None, config: Config, quiet: bool) -> Cases:
    """Return a development set: a data file, or labelled texts that the model of `run` answers."""
    data = Coverage.load(run).data
    if dev.suffix == ".mncover":
        found = cases_in(dev)
        _require_same_model(dev, data.identity, found.data.identity)
        found.data.space = data.space  # which may have labels that the other has not
    else:
        found = cases_of(_answered(dev, run, model or data.identity.model, config, quiet))
    if (found.verdicts == NOT_JUDGED).all():
        raise SettingsError(f"{dev}: nothing in it has a label, so nothing can be fitted to it.")
    return found


def second_if_known(dev: Cases, other: Path, say: Say) -> Cases:
    """Return the development set with the other model's doubt, if its data file has the texts."""
    try:
        return with_second(dev, other)
    except DataFileError as error:
        say(f"'second' is not part of the combination: {error}")
        return dev


def _require_same_model(dev: Path, mine: Identity, theirs: Identity) -> None:
    for name, what in SAME.items():
        if getattr(mine, name) != getattr(theirs, name):
            raise MismatchError(f"{dev}: it was run with {what}: run it as the cases were run.")


def _answered(dev: Path, run: Path, model: str, config: Config, quiet: bool) -> CoverageData:
    """Run labelled texts through the model that a data file was measured with."""
    if is_test_suite(dev):
        raise SettingsError(f"{dev}: run the test suite with `mncover run` and give its data file.")
    rows = read_texts(dev, Fields(config.text, config.pair, config.label))
    from mncover.engine.recorder import answered  # brings torch

    cov = Coverage.load(run, model, **o.loading(config, quiet))
    return answered(cov.engine, rows, cov.data.identity)


def _naming(path: Path, read: Callable[[], Read]) -> Read:
    """Return what reading gives; an error names the file."""
    try:
        return read()
    except (DataFileError, MismatchError) as error:
        why = str(error)
        raise type(error)(why if str(path) in why else f"{path}: {why.rstrip('.')}.") from None
