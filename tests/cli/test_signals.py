"""A signal is one line and an exit code, whatever a library makes of it; so is a full disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC = str(Path(__file__).resolve().parents[2] / "src")
# A library that turns Ctrl-C into an error of its own, and prints what it ignores.
SCRIPT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mncover import cli
from mncover.cli import cache
def entries():
    class Loud:
        def __del__(self):
            raise RuntimeError("ignored")
    try:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    except KeyboardInterrupt:
        Loud()
        raise ImportError("cannot be initialised") from None
cache.entries = entries
sys.exit(cli.main(["cache"]))
"""
EARLY = """
import builtins, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from mncover.__main__ import start
plain = builtins.__import__
def interrupting(name, *more):
    if name.startswith("mncover.cli"):
        os.kill(os.getpid(), signal.SIGINT)
    return plain(name, *more)
builtins.__import__ = interrupting
sys.exit(start())
"""


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    env = {**os.environ, "PYTHONPATH": SRC}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("kind", "code", "says"), [("SIGINT", 130, "Interrupted."), ("SIGTERM", 143, "Terminated.")]
)
def test_a_signal_is_one_line(kind: str, code: int, says: str) -> None:
    done = run(SCRIPT, kind)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{says}\n")


def test_an_interrupted_start_is_one_line() -> None:
    done = run(EARLY)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_disk_is_one_line() -> None:
    script = "import sys; from mncover.cli import main; sys.exit(main(['transform', 'list']))"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONPATH": SRC},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "No space left on device" in done.stderr
