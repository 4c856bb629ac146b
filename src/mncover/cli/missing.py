"""`mncover report --missing`: what no text reaches, and the training texts that would."""

from __future__ import annotations

from pathlib import Path

from mncover.cli import options as o
from mncover.cli.options import Config
from mncover.errors import SettingsError
from mncover.report.columns import View
from mncover.report.missing import print_missing, print_reaching
from mncover.report.screen import Screen
from mncover.selection.missing import missing_of, texts_reaching
from mncover.suites.formats.jsonlines import write_json_lines

TEST = "missing"  # the test that the texts go to


def show_missing(
    view: View, file: Path, config: Config, model: str | None, n: int, output: Path | None
) -> None:
    """Print what is missing; with --train, run the model to find the texts that would reach it."""
    console, identity = Screen(), view.data.identity
    criterion, _ = identity.metric(config.metric)
    if output is not None and config.train is None:
        raise SettingsError(
            "-o writes training texts that reach what is missing: give --train FILE."
        )
    train = None if config.train is None else o.train_rows(config)
    print_missing(missing_of(view.data, criterion), view.result, console)
    if train is None:
        return
    cov = o.measuring_again(file, model or identity.model, config, quiet=False)
    texts = list(dict.fromkeys(train.texts))
    found = texts_reaching(cov, texts, n, criterion.name)
    print_reaching(found, texts, identity, criterion.name, console)
    if output is not None and found:
        labels = dict(zip(train.texts, train.labels, strict=True))
        chosen = [texts[one.place] for one in found]
        write_json_lines([_record(text, labels[text]) for text in chosen], output)
        console.print(f"{output}: {len(chosen):,} texts; check or fill in the field 'label'.")


def _record(text: object, label: object) -> dict[str, object]:
    texts = dict(zip(("text", "pair"), text, strict=True)) if isinstance(text, tuple) else None
    return {**(texts or {"text": text}), "label": label, "context": TEST}
