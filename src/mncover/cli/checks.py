"""What commands look at before they work, and before torch is loaded: paths, and room."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mncover.cli.options import Config
from mncover.data.places import check_model_folder, check_source, check_target
from mncover.data.writing import protect
from mncover.suites.formats import is_elsewhere


def check_paths(
    models: Iterable[str | None] = (),
    sources: Iterable[Path | str | None] = (),
    file: Path | str | None = None,
    folder: Path | None = None,
    reads: Iterable[Path | None] = (),
) -> None:
    """Refuse models and files to read that are not there, and targets that cannot be written.

    What is None was not given. No target may be a file that is read; `reads` are more of those,
    such as data files, whose own errors say more if they are missing.
    """
    models, sources = list(models), list(sources)
    protect((*models, *sources, *reads))
    for model in models:
        if model is not None:
            check_model_folder(model)
    for source in sources:
        if source is not None and not is_elsewhere(source):
            check_source(Path(source))
    if file is not None:
        check_target(Path(file))
    if folder is not None:
        check_target(folder, folder=True)


def check_measuring(
    model: str | None,
    config: Config,
    *sources: Path | str | None,
    file: Path | str | None = None,
    folder: Path | None = None,
) -> None:
    """Refuse what a command that measures a model could not read or write.

    Masks are read before torch is loaded, too; their own error says more.
    """
    check_paths((model,), (config.train, *sources), file, folder)
