"""Ray, quietly: started on this machine or joined elsewhere, and imported in no other file."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from mncover.errors import MissingExtraError, SettingsError

# What Ray says or sends without being asked.
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_worker_niceness": "0",  # whoever asks for workers wants them to work
}


@dataclass(frozen=True, slots=True)
class Spread:
    """How work is spread: over how many workers, and of which Ray; None: what there is."""

    workers: int | None = None
    address: str | None = None

    @classmethod
    def of(cls, workers: int | None, address: str | None) -> Spread | None:
        """Return what is asked for; None if nothing is. Ray's variable is an address, too."""
        if workers is None and address is None:
            return None
        if workers is not None and workers < 1:
            raise SettingsError(f"`workers` must be at least 1, got {workers}.")
        return cls(workers, address or os.environ.get("RAY_ADDRESS"))


def import_ray() -> Any:
    """Return the package, or say how to install it."""
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("running on several workers", "ray", "ray") from error
    logging.getLogger("ray").setLevel(logging.CRITICAL)  # the crew raises what matters
    with suppress(AttributeError):
        # Ray prints on standard output, where reports go, that a worker died. The crew knows.
        ray._private.worker.print_to_stdstream = _unprinted
    return ray


def _unprinted(*what: Any, **options: Any) -> None:
    """Take the place of what prints."""


class Tally:
    """Another process, which is told how far workers are; tasks are known by numbers."""

    def __init__(self) -> None:
        self._told: dict[int, int] = {}

    def tell(self, task: int, texts: int) -> None:
        """Note how many texts of a task are done."""
        self._told[task] = texts

    def so_far(self) -> dict[int, int]:
        """Return what was told."""
        return dict(self._told)


class Cluster:
    """A Ray that is running; `ours` if it was started here and ends with `leave`."""

    def __init__(self, spread: Spread, threads: int, gpu: bool) -> None:
        self.ray, self.gpu = import_ray(), gpu
        self.ours = not self.ray.is_initialized()
        self.local = self.ours and spread.address is None
        if self.ours:
            self._init(spread)
        self.workers = spread.workers or self._nodes()
        whole = threads if self.local else int(self.ray.cluster_resources().get("CPU", 1))
        self.threads = max(1, whole // self.workers)

    def _init(self, spread: Spread) -> None:
        options: dict[str, Any] = {"address": spread.address or "local"}
        if spread.address is None:
            options |= {"include_dashboard": False, "num_cpus": spread.workers or 1}
        with _own_handlers():
            try:
                self.ray.init(**options, log_to_driver=False, logging_level=logging.CRITICAL)
            except (ConnectionError, RuntimeError, ValueError, OSError) as error:
                where = spread.address or "this machine"
                why = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
                raise SettingsError(f"Ray cannot be used on {where} ({why}).") from error

    def _nodes(self) -> int:
        """Return how many workers a cluster has place for: one for each GPU, or each machine."""
        if self.gpu:
            return max(1, int(self.ray.cluster_resources().get("GPU", 0)))
        return max(1, sum(bool(node["Alive"]) for node in self.ray.nodes()))

    def actor(self, kind: type, *arguments: Any) -> Any:
        """Start a process that holds an object; its methods are called with `.remote`."""
        # Of our own machine all is ours; elsewhere a place must be free.
        needs = {"num_cpus": 0 if self.local else self.threads, "num_gpus": int(self.gpu)}
        options = {**needs, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        return self.ray.remote(kind).options(**options).remote(*arguments)

    def tally(self) -> Any:
        """Start the process that is told how far workers are."""
        return self.ray.remote(Tally).options(num_cpus=0).remote()

    def leave(self) -> None:
        """End what was started here."""
        if self.ours and self.ray.is_initialized():
            self.ray.shutdown()


@contextmanager
def _own_handlers() -> Iterator[None]:
    """Keep our answers to signals: Ray brings its own, which ends the program at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    came = 0
    try:
        yield
    except SystemExit as error:
        if error.code not in before:
            raise
        came = int(error.code)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:  # and now to whom it was meant for
        os.kill(os.getpid(), came)
