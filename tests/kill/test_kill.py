"""A short form of `make kill`: every command, killed at some of its writes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.kill.harness import COMMANDS

ROOT = __file__.rpartition("/tests/")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_given_again_ends_as_an_undisturbed_one(name: str) -> None:
    """In a process of its own: it forks, which threads of other tests may not survive."""
    short = [sys.executable, "-m", "tests.kill", "--every", "12", "--random", "1"]
    short += ["--timed", "2", name]
    done = subprocess.run(short, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 faults" in done.stdout
