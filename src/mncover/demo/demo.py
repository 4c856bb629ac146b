"""What `mncover demo` does: the whole main job, on material that comes with the package."""

from __future__ import annotations

import shutil
from pathlib import Path

from rich.console import Console

from mncover.config import Config
from mncover.datafile import DEFAULT_NAME
from mncover.demo.model import demo_model
from mncover.report.textreport import print_report
from mncover.results import summarize

HERE = Path(__file__).parent
MAX_LENGTH = 32  # the demo's texts are short; a larger frame would only be empty


def run_demo(folder: Path, console: Console) -> int:
    """Run the bundled suite on the demo model, report, and say what to try next."""
    from mncover.cli.running import run_from_config

    folder.mkdir(parents=True, exist_ok=True)
    suite, train = folder / "suite.jsonl", folder / "calibration.txt"
    for path in (suite, train):
        if not path.exists():  # the user may have edited it
            shutil.copy(HERE / path.name, path)
    console.print(
        "A sentiment model (BERT, 6 layers) meets a suite of short opinions in eight contexts.\n"
        f"Both lie in {folder}; the model is put together once, from installed packages.\n",
        markup=False,
        highlight=False,
    )
    model = demo_model()
    config = Config(train=str(train), max_length=MAX_LENGTH, output=str(folder / DEFAULT_NAME))
    data = run_from_config(str(model), suite, config, quiet=False)
    print_report(summarize(data), console)
    console.print(_next_steps(folder, model, config), markup=False, highlight=False, soft_wrap=True)
    return 0


def _next_steps(folder: Path, model: Path, config: Config) -> str:
    measured = f"{model} {folder / 'suite.jsonl'} --train {config.train} --max-length {MAX_LENGTH}"
    variants = folder / "variants.jsonl"
    return (
        f"The data file is {config.output}. Try next:\n"
        f"  mncover report {config.output} --sort -redundant --heads\n"
        f"  mncover report {config.output} --failures 5\n"
        f"  mncover html {config.output}\n"
        f"  mncover select {config.output} --budget 20% -o {folder / 'smoke.jsonl'}\n"
        f"  mncover augment {measured} --target tests -o {variants}\n"
        f"  edit {folder / 'suite.jsonl'} and run it again:\n"
        f"  mncover run {measured} -o {config.output}\n"
        f"  your own model and texts: mncover run MODEL SUITE --train FILE"
    )
