"""The errors that mncover raises on purpose.

Each carries one line that says what happened and what to do. The command line prints that
line and exits with 1; anything else that escapes is a bug.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

# What runs a model; whatever only reads data files does without.
RUNNING = ("numba", "tokenizers", "torch", "transformers")

LONGEST = 500  # characters of a message: what a file holds may be as long as it likes


def elided(message: str, longest: int = LONGEST) -> str:
    """Return a message with its middle left out if it is too long.

    >>> elided("file.txt: " + "x" * 80 + " is no number.", 40)
    'file.txt: xxxxxxxxxxxxxx … is no number.'
    """
    if len(message) <= longest:
        return message
    end = longest // 3
    return f"{message[: longest - end - 3].rstrip()} … {message[-end:].lstrip()}"


class MnCoverError(Exception):
    """Base of every error that mncover raises on purpose."""

    def __init__(self, message: str = "") -> None:
        super().__init__(elided(message))


class SettingsError(MnCoverError):
    """A setting, an option or a configuration file is not usable."""


class TextError(MnCoverError):
    """A text, a suite or a data set is not usable; the message names file, line and field."""


class ModelError(MnCoverError):
    """A model or tokenizer cannot be loaded or measured."""


class ActivationError(MnCoverError):
    """A model produced a value that cannot be counted, such as NaN."""


class WorkerError(MnCoverError):
    """Workers in other processes died, or cannot be started."""


class NotCalibratedError(MnCoverError):
    """Coverage was asked for before the ranges are known."""


class DataFileError(MnCoverError):
    """A data file is damaged, foreign, or written by a newer mncover."""


class MismatchError(MnCoverError):
    """Two things that were to be united belong to different models, ranges or settings."""


class MissingExtraError(MnCoverError):
    """An optional package is needed; the message names the `pip install` that brings it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package '{package}'. Install it with: pip install 'mncover[{extra}]'"
        )


class LimitError(MnCoverError):
    """A file asks for more than is allowed; the message names the setting that allows it."""


class SchemaError(MnCoverError):
    """A part of a file does not have the shape that it should have."""


@contextmanager
def needs_run() -> Iterator[None]:
    """In this block, a package that runs models and is not installed is an error of one line."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in RUNNING:
            raise
        raise MissingExtraError("running a model", package, "run") from error


class MaskError(MnCoverError):
    """Masks cannot be read or learnt, or belong to another tokenizer."""


class MissingResourceError(MnCoverError):
    """Data that mncover does not bring is needed; the message names the ways to get it."""
