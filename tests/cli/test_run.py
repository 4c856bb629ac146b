"""Interrupting: nothing old is lost, nothing finished is done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover.cli import main
from mncover.coverage import Coverage
from mncover.data import datafile
from mncover.data.files import cache_folder
from mncover.engine import ranges as calibration
from mncover.engine.ranges import Ranges
from tests import tiny
from tests.engine.test_laws import POOL, TRAIN, engine_of, fresh
from tests.folders import Material, write_material

ROOT = Path(__file__).resolve().parents[2]
PATHS = os.pathsep.join([str(ROOT / "src"), str(ROOT)])

# Small windows, a checkpoint after each, and a signal to itself in the middle of the third.
INTERRUPTED_RUN = """
import os, signal, sys
from mncover.cli import main
from mncover.data import files as resume
from mncover.engine import windows
windows.WINDOW_TEXTS, resume.SECONDS, resume.SHARE = 4, 0, 0
measured, calls = windows.Windows._measured, []
def counted(*args):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    return measured(*args)
windows.Windows._measured = counted
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
sys.exit(main(sys.argv[2:]))
"""

INTERRUPTED_CALIBRATION = """
import os, signal, sys
from mncover.engine import ranges as calibration
from mncover.cli import main
observe, calls = calibration.observe, []
def counted(*args):
    calls.append(1)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return observe(*args)
calibration.observe = counted
calibration.CHUNK = 3
sys.exit(main(sys.argv[1:]))
"""

INTERRUPTED_COMBINE = """
import os, signal, sys
from mncover.data import datafile
from mncover.cli import main
datafile._header = lambda *a: os.kill(os.getpid(), signal.SIGKILL)
sys.exit(main(sys.argv[1:]))
"""


def run_script(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def material(tmp_path: Path) -> Material:
    return write_material(tmp_path)


@pytest.mark.parametrize("kind", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_an_interrupted_run_keeps_the_old_file_and_goes_on_where_it_was(
    material: Material, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, output = material.folder / "whole.mncover", material.folder / "out.mncover"
    assert main(material.run("-q", "-o", str(whole))) == 0
    output.write_bytes(b"something old")
    arguments = material.run("-o", str(output))
    done = run_script(INTERRUPTED_RUN, kind, *arguments)
    partial = output.with_name("out.mncover.partial")
    codes = {"SIGINT": 130, "SIGTERM": 143, "SIGKILL": -signal.SIGKILL}
    assert done.returncode == codes[kind]
    assert output.read_bytes() == b"something old"
    assert len(datafile.read(partial).table) == 12
    if kind != "SIGKILL":
        assert "run the same command to resume" in " ".join(done.stderr.split())
    capsys.readouterr()
    assert main(arguments) == 0
    assert "12 texts done" in " ".join(capsys.readouterr().err.split())
    assert not partial.exists()
    expected, found = datafile.read(whole), datafile.read(output)
    np.testing.assert_array_equal(expected.total(), found.total())
    assert expected.contexts == found.contexts
    for column, values in expected.table.columns.items():
        np.testing.assert_array_equal(values, found.table[column])
    np.testing.assert_array_equal(expected.table.new["cover"], found.table.new["cover"])
    assert len(found.runs) == 1


def test_texts_that_come_again_add_nothing_and_are_not_run_again(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also over windows, after checkpoints, and in another context, where they count anew."""
    texts = tiny.texts(6, seed=4)
    order = [0, 1, 0, 2, 3, 1, 1, 4, 0, 5, 5]
    rows = [(context, texts[i]) for context in "ab" for i in order]
    material.suite.write_text(
        "\n".join(json.dumps({"text": text, "context": context}) for context, text in rows)
    )
    monkeypatch.setattr("mncover.engine.windows.WINDOW_TEXTS", 2)
    monkeypatch.setattr("mncover.data.files.SECONDS", 0)
    monkeypatch.setattr("mncover.data.files.SHARE", 0)
    output = material.folder / "out.mncover"
    assert main(material.run("-q", "-o", str(output))) == 0
    data = datafile.read(output)
    assert list(data.table.texts) == [text for _, text in rows]
    cov = Coverage(str(material.model), max_length=12)
    cov.calibrate(material.train.read_text().splitlines(), cache=False)
    for row, (context, text) in enumerate(rows):
        gain = cov.gain([text])[0]
        assert (data.table.new["cover"][:, row].sum() > 0) == (gain > 0)
        cov.update([text], context=context)
        # A lone text and one in company may differ in the last bit of an activation.
        np.testing.assert_allclose(
            cov.data.table.probabilities[row], data.table.probabilities[row], atol=1e-6
        )
    for context in "ab":
        np.testing.assert_array_equal(cov.data.map_of(context), data.map_of(context))


def test_unfinished_work_of_another_suite_is_not_taken_up(
    material: Material, capsys: pytest.CaptureFixture[str]
) -> None:
    output = material.folder / "out.mncover"
    run_script(INTERRUPTED_RUN, "SIGKILL", *material.run("-o", str(output)))
    assert output.with_name("out.mncover.partial").exists()
    material.suite.write_text('{"text": "good film"}\n')
    assert main(material.run("-o", str(output))) == 0
    assert "starting over" in " ".join(capsys.readouterr().err.split())
    assert len(datafile.read(output).table) == 1


def test_a_damaged_partial_file_is_not_taken_up(material: Material) -> None:
    output = material.folder / "out.mncover"
    output.with_name("out.mncover.partial").write_bytes(b"rubbish")
    assert main(material.run("-q", "-o", str(output))) == 0
    assert len(datafile.read(output).table) == 30


def test_a_killed_combine_leaves_the_old_file(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.mncover" for n in "ab"]
    for path in paths:
        fresh().update(POOL[:3]).save(path)
    old = tmp_path / "old.mncover"
    old.write_bytes(before := paths[0].read_bytes())
    done = run_script(INTERRUPTED_COMBINE, "combine", *(str(p) for p in paths), "-o", str(old))
    assert done.returncode == -signal.SIGKILL
    assert paths[0].read_bytes() == before


def spy_on_observe(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of texts of each chunk that is calibrated on."""
    seen: list[int] = []
    observe = calibration.observe

    def spy(taps: Any, setup: Any, bounds: Any, piece: Any, *more: Any) -> Any:
        seen.append(len(piece.texts))
        return observe(taps, setup, bounds, piece, *more)

    monkeypatch.setattr(calibration, "observe", spy)
    return seen


def test_a_killed_calibration_goes_on_where_it_was(
    material: Material, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = material.run("-q", "-o", str(material.folder / "out.mncover"))
    done = run_script(INTERRUPTED_CALIBRATION, *arguments)
    assert done.returncode == -signal.SIGKILL
    (partial,) = cache_folder("ranges").glob("*.partial")
    assert Ranges.load(partial).texts == 9
    seen = spy_on_observe(monkeypatch)
    assert main(arguments) == 0
    assert sum(seen) == 20 - 9
    (kept,) = cache_folder("ranges").glob("*.safetensors")
    train = material.train.read_text().splitlines()
    cov = Coverage(str(material.model), max_length=12).calibrate(train, cache=False)
    assert Ranges.load(kept).fingerprint == cov.data.identity.ranges_fingerprint


def test_calibration_is_found_again_and_a_damaged_one_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, tokenizer = tiny.make("bert")
    first = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN)
    calls = spy_on_observe(monkeypatch)
    again = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN)
    assert calls == []
    assert again.data.identity == first.data.identity
    (kept,) = cache_folder("ranges").glob("*.safetensors")
    kept.write_bytes(kept.read_bytes()[:-100])
    third = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN)
    assert calls == [len(TRAIN)]
    assert third.data.identity == first.data.identity


def test_calibrations_of_other_texts_models_and_lengths_are_kept_apart() -> None:
    model, tokenizer = tiny.make("bert")
    Coverage(model, tokenizer, max_length=10).calibrate(TRAIN)
    Coverage(model, tokenizer, max_length=10).calibrate(TRAIN[:-1])
    Coverage(model, tokenizer, max_length=9).calibrate(TRAIN)
    Coverage(*tiny.make("bert", seed=1), max_length=10).calibrate(TRAIN)
    assert len(list(cache_folder("ranges").glob("*.safetensors"))) == 4
    # Ranges do not depend on the number of bins.
    Coverage(model, tokenizer, max_length=10, bins=20).calibrate(TRAIN)
    assert len(list(cache_folder("ranges").glob("*.safetensors"))) == 4


def test_calibrating_in_parts_equals_calibrating_at_once() -> None:
    model, tokenizer = tiny.make("gpt2")
    once = Coverage(model, tokenizer, max_length=10).calibrate(TRAIN, cache=False)
    parts = Coverage(model, tokenizer, max_length=10)
    for start in range(0, len(TRAIN), 7):
        parts.calibrate(TRAIN[start : start + 7], cache=False)
    assert once.data.identity == parts.data.identity


def test_runs_side_by_side_share_the_cache_without_harm(material: Material) -> None:
    outputs = [material.folder / f"{n}.mncover" for n in range(3)]
    script = "import sys; from mncover.cli import main; sys.exit(main(sys.argv[1:]))"
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                script,
                *material.run("-q", "-o", f"{material.folder}/{n}.mncover"),
            ],
            env={**os.environ, "PYTHONPATH": PATHS},
        )
        for n in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    found = [datafile.read(output) for output in outputs]
    for other in found[1:]:
        np.testing.assert_array_equal(found[0].total(), other.total())
        assert found[0].identity == other.identity


def test_finished_contexts_do_not_stay_in_memory() -> None:
    from mncover.data.identity import Run
    from mncover.engine.recorder import Recorder
    from mncover.suites.rows import Rows

    engine = engine_of("bert")
    recorder = Recorder(engine, fresh().data, Run.start())
    contexts = [str(i // 3) for i in range(12)]
    rows = Rows.make(POOL[:12], contexts).numbered(engine.subject.labels)
    for _ in recorder.record_in_order(rows, lambda n: None):
        pass
    held = [value for value in vars(recorder).values() if isinstance(value, np.ndarray | list)]
    assert not held
    assert list(recorder.total) == ["cover"]  # the union; the open context is a second
    assert recorder._open is not None
    assert recorder._open[0] == "3"
    assert recorder.data.contexts == ["0", "1", "2", "3"]
