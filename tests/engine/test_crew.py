"""Ray's workers give what one process gives, whatever happens to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mncover import Coverage
from mncover.data.identity import Run
from mncover.engine import windows
from mncover.engine.cluster import Cluster, Spread
from mncover.engine.crew import _Call
from mncover.engine.worker import Worker
from mncover.errors import ActivationError, MissingExtraError, SettingsError, WorkerError
from mncover.suites.expectations import Expectation
from mncover.suites.model import Case, Suite, Test
from mncover.suites.rows import Rows
from tests import tiny
from tests.masks.test_mncover import random_masks

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'mncover[ray]'")

TRAIN = tiny.texts(40, seed=3)
TEXTS = list(dict.fromkeys(tiny.texts(400, seed=5)))[:160]
CONTEXTS = ["a"] * 70 + ["b"] * 90


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut few texts into many shards, and let a run be the same run every time."""
    monkeypatch.setattr(windows, "WINDOW_TEXTS", 8)
    monkeypatch.setattr("mncover.engine.ranges.CHUNK", 8)
    monkeypatch.setattr(
        Run, "start", lambda *what: Run("run", "2026-01-01", *(what or ("", "", 0)))
    )


@pytest.fixture(scope="module")
def one_ray() -> Iterator[None]:
    """Start Ray once for the tests of this file."""
    ray.shutdown()
    cluster = Cluster(Spread(4), threads=4, gpu=False)
    yield
    cluster.leave()


CLASSES = ("LABEL_0", "LABEL_1", "LABEL_2")
_SUITE = Suite(
    (
        Test(
            "labels",
            "MFT",
            Expectation("label"),
            tuple(Case((text,), number % 3) for number, text in enumerate(TEXTS[:70])),
        ),
        Test(
            "changes",
            "INV",
            Expectation("inv"),
            tuple(Case(pair) for pair in zip(TEXTS[70:115], TEXTS[115:], strict=True)),
        ),
    ),
    CLASSES,
)
SUITE = Rows.of_suite(Path("suite.jsonl"), _SUITE)


def outcome(cov: Coverage, folder: Path) -> tuple[bytes, list[Any], bytes]:
    """Return the file of a suite, its verdicts, and the file of texts measured in two contexts."""
    folder.mkdir()
    cov.calibrate(TRAIN, cache=False)
    ran = cov.run(SUITE, folder / "suite.mncover")
    cov.update(TEXTS, context=CONTEXTS, gains=True)
    cov.update(TEXTS[:20], context="a")
    cov.save(folder / "texts.mncover")
    cov.close()
    verdicts = list(ran.result().cases())
    return (
        (folder / "suite.mncover").read_bytes(),
        verdicts,
        (folder / "texts.mncover").read_bytes(),
    )


ARCHITECTURES: list[tuple[str, dict[str, Any]]] = [
    ("bert", {"criteria": ["cover", "mncover", "pairs:8"]}),
    ("roberta", {"criteria": ["cover", "mncover", "nbc"]}),
    ("llama_classifier", {}),
    ("modernbert", {"positions": "mean"}),
]


def compare(folder: Path, name: str, options: dict[str, Any], **shared: Any) -> None:
    """Compare what workers find with what one process finds, under masks."""
    model, tokenizer = tiny.make(name)
    what = {"max_length": 12, "masks": random_masks(tokenizer, 1), **options}
    alone = outcome(Coverage(model, tokenizer, **what), folder / "alone")
    assert {True, False} <= {row["failing"] for row in alone[1]}
    assert outcome(Coverage(model, tokenizer, **what, **shared), folder / "shared") == alone


@pytest.mark.usefixtures("one_ray")
@pytest.mark.parametrize(("name", "options"), ARCHITECTURES)
def test_workers_find_what_one_process_finds(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    compare(tmp_path, name, options, workers=2)


class Deadly:
    """A hook that ends the process, or spoils the states, when a model sees a token."""

    def __init__(self, token: int, spoils: bool = False) -> None:
        self.token, self.spoils = token, spoils

    def __call__(self, module: Any, given: Any, output: Any) -> Any:
        """Look at what the embeddings get."""
        mine = (given[0] == self.token).any(dim=1)
        if not mine.any():
            return output
        if self.spoils:
            return output.masked_fill(mine[:, None, None], float("nan"))
        os.kill(os.getpid(), signal.SIGKILL)
        return output


def with_hook(hook: Deadly) -> tuple[Any, Any]:
    model, tokenizer = tiny.make("bert")
    model.bert.embeddings.word_embeddings.register_forward_hook(hook)
    return model, tokenizer


@pytest.mark.usefixtures("one_ray")
def test_killed_workers_change_nothing_and_deadly_texts_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tiny.make("bert")[1].convert_tokens_to_ids("awful")
    texts = [text for text in TEXTS if "awful" not in text]
    train = [text for text in TRAIN if "awful" not in text]
    model, tokenizer = with_hook(Deadly(token))
    alone = Coverage(model, tokenizer, max_length=12).calibrate(train, cache=False)
    alone.update(texts, gains=True)
    shared = Coverage(model, tokenizer, max_length=12, workers=2).calibrate(train, cache=False)
    real, count = _Call._take_note, [0]

    def killing(self: _Call, hand: Any) -> None:
        real(self, hand)
        count[0] += 1
        if count[0] in (3, 7):
            victim = self.crew.hands[count[0] % 2]
            if victim.birth is None:
                ray.kill(victim.process)

    monkeypatch.setattr(_Call, "_take_note", killing)
    shared.update(texts, gains=True)
    assert count[0] > 7
    for cov, name in ((alone, "alone"), (shared, "shared")):
        cov.save(tmp_path / name)
    assert (tmp_path / "alone").read_bytes() == (tmp_path / "shared").read_bytes()
    before = shared.data.total("cover").copy()
    with pytest.raises(WorkerError, match=r'3 workers died of texts 9 to 16, from .* to "so awful'):
        shared.update([*texts[:15], "so awful"], context="deadly", gains=True)
    assert np.array_equal(shared.data.total("cover"), before)
    shared.close()


@pytest.mark.usefixtures("one_ray")
def test_what_a_worker_refuses_reads_as_in_one_process() -> None:
    token = tiny.make("bert")[1].convert_tokens_to_ids("awful")
    model, tokenizer = with_hook(Deadly(token, spoils=True))
    train = [text for text in TRAIN if "awful" not in text]
    said = []
    for workers in (None, 1):
        cov = Coverage(model, tokenizer, max_length=12, workers=workers)
        cov.calibrate(train, cache=False)
        with pytest.raises(ActivationError) as caught:
            cov.update(["so good", "so awful"], gains=True)
        said.append(str(caught.value))
        cov.close()
    assert said[0] == said[1]
    assert "so awful" in said[0]


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """Start a cluster of two machines, each with a place for one worker."""
    from ray.cluster_utils import Cluster as Machines

    ray.shutdown()
    cluster = Machines(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.parametrize(("name", "options"), ARCHITECTURES)
def test_two_machines_find_what_one_process_finds(
    machines: Any, tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    compare(tmp_path, name, options, workers=2, ray=machines.address)


def test_a_machine_that_is_lost_changes_nothing(
    machines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = _Call._take_note, [0]

    def losing(self: _Call, hand: Any) -> None:
        real(self, hand)
        count[0] += self.job == "record"
        if count[0] == 5 and len(machines.worker_nodes) == 1:
            machines.remove_node(next(iter(machines.worker_nodes)), allow_graceful=False)

    monkeypatch.setattr(_Call, "_take_note", losing)
    compare(tmp_path, *ARCHITECTURES[0], workers=2, ray=machines.address)
    assert count[0] > 5
    assert not machines.worker_nodes
    machines.add_node(num_cpus=1)


# Without Ray.


def test_asking_for_workers_without_ray_names_the_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'mncover\[ray\]'"):
        Coverage(*tiny.make("bert"), workers=2)


ALONE = """
import sys
from mncover import Coverage
from tests import tiny
cov = Coverage(*tiny.make("bert"), max_length=12).calibrate(tiny.texts(9), cache=False)
cov.update(tiny.texts(9), gains=True)
sys.exit("ray" in sys.modules)
"""


def test_ray_is_not_imported_unless_workers_are_asked_for() -> None:
    assert subprocess.run([sys.executable, "-c", ALONE], check=False).returncode == 0


def test_an_address_comes_from_the_option_or_from_rays_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "one:1")
    assert Spread.of(None, None) is None  # nobody asked for workers
    assert Spread.of(2, None) == Spread(2, "one:1")
    assert Spread.of(None, "two:2") == Spread(None, "two:2")
    with pytest.raises(SettingsError, match="at least 1"):
        Spread.of(0, None)


def test_a_worker_in_this_process_takes_limits_warnings_and_counts_from_its_job() -> None:
    import warnings

    from mncover.engine import jobs
    from mncover.engine.worker import State

    model, tokenizer = tiny.make("bert")

    def make() -> Any:
        return Coverage(model, tokenizer, max_length=12, progress=False).engine

    worker = Worker(make, 1, 40)
    import torch

    before = torch.get_num_threads()
    try:
        assert worker.ready() == os.getpid()
        engine = worker._engine
        assert engine is not None
        assert engine.subject.limits(None)[1] == 40

        def warned(*what: Any) -> str:
            what[2](5)
            warnings.warn("twice", stacklevel=1)
            warnings.warn("twice", stacklevel=1)
            return "found"

        known = dict(jobs.JOBS)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mncover.engine.worker.JOBS", {**known, "warn": jobs.Job(warned)})
            note, found = worker.do("warn", State(0, None, None), [])
        assert (note.texts, note.warnings, found) == (5, ["twice"], "found")
    finally:
        torch.set_num_threads(before)
