"""`pytest --mncover`: measure what tests run through a model.

pytest imports this file in every session, so everything else is imported once `--mncover` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mncover.plugins.pytest_session import Measuring

NAME = "mncover-session"

# Each is an option --mncover-NAME and, with underscores, an ini setting mncover_NAME.
OPTIONS = {
    "calibrate": ("FILE", "texts that set the range of each neuron, normally the training set"),
    "data": ("FILE", "the data file to write (default: pytest.mncover)"),
    "fail-under": ("PERCENT", "fail if coverage is below this"),
    "max-failing": ("PERCENT", "let up to this share of the tests that use the model fail"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options and the ini settings."""
    group = parser.getgroup("mncover", "coverage of transformers")
    about = "measure what tests run through models that the fixture mncover_model was given"
    group.addoption("--mncover", action="store_true", help=about)
    for name, (metavar, about) in OPTIONS.items():
        group.addoption(f"--mncover-{name}", metavar=metavar, help=about)
        parser.addini(_ini(name), about, default="")


def _ini(name: str) -> str:
    return f"mncover_{name.replace('-', '_')}"


def pytest_configure(config: pytest.Config) -> None:
    """Start measuring if it is asked for."""
    given = {name: config.getoption(_ini(name)) for name in OPTIONS}
    if not config.getoption("mncover"):
        for name, value in given.items():
            if value is not None:
                raise pytest.UsageError(f"--mncover-{name} needs --mncover.")
        return
    if config.getoption("collectonly"):
        return
    from mncover.errors import MnCoverError
    from mncover.plugins.pytest_session import Measuring

    settings = {name: value or config.getini(_ini(name)) for name, value in given.items()}
    try:
        config.pluginmanager.register(Measuring(config, settings), NAME)
    except MnCoverError as error:
        raise pytest.UsageError(f"mncover: {error}") from error


@pytest.fixture(scope="session")
def mncover_model(pytestconfig: pytest.Config) -> Callable[..., Any]:
    """Return a function that takes a model, and measures what tests run through it.

    It takes a pipeline, or a model with its tokenizer, and returns it; given a folder or hub name
    it returns a pipeline. `calibrate=` takes a list of texts in place of --mncover-calibrate.
    Without --mncover nothing is measured.
    """
    measuring: Measuring | None = pytestconfig.pluginmanager.get_plugin(NAME)
    if measuring is not None:
        return measuring.watch
    from mncover.plugins.pytest_models import unmeasured

    return unmeasured
