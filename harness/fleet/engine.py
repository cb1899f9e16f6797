"""What starts the workers of a run: the engine of this machine, and each worker's share."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial

import msgspec

from rehearsal_room.harness.core.errors import SettingsError
from rehearsal_room.harness.fleet.coordinator import StartWorker
from rehearsal_room.harness.fleet.fork_server import ForkServer
from rehearsal_room.harness.fleet.process_worker import ProcessWorker
from rehearsal_room.harness.fleet.worker import WorkerSpec, work
from rehearsal_room.harness.settings.run import Settings

# Opens what starts workers; it is closed after the run. No thread or event loop was started before.
OpenEngine = Callable[[WorkerSpec], AbstractContextManager[StartWorker]]


def require_divisible(settings: Settings, *, setting: str) -> None:
    """Raise SettingsError for a policy that must be in one process. `setting` asked for others."""
    if settings.policy.name == "local":
        raise SettingsError(
            f"{setting}: policy 'local' has its model in the process that plays; serve the model "
            f"with `rehearse serve-policy` and play with --policy openai, or leave --{setting} out"
        )


@contextmanager
def forked(spec: WorkerSpec) -> Iterator[StartWorker]:
    """The engine of this machine: processes that are forked from one which is forked now, before
    this process has a thread, a connection or an event loop. They inherit settings, plan and
    imported modules. Raises SettingsError where the system cannot fork."""
    if not hasattr(os, "fork"):
        raise SettingsError("processes: this system cannot fork processes; leave --processes out")
    with closing(ForkServer(partial(_work, spec))) as server:
        yield partial(ProcessWorker, server)


def _work(spec: WorkerSpec, sock: socket.socket, number: int) -> None:
    """Be the rollout process of this number."""
    names_trusted = spec.names_trusted and number == 0
    share = share_of(spec.settings, number)
    work(msgspec.structs.replace(spec, settings=share, names_trusted=names_trusted), sock)


def share_of(settings: Settings, number: int) -> Settings:
    """One process's share of the settings: concurrency and sandbox workers are divided.

    Example: concurrency 5 of 2 processes -> 3, 2; auto -> auto for each
    """
    concurrency = settings.concurrency
    if not settings.is_adaptive:
        concurrency = _share(settings.number_at_once, settings.processes, number)
    total = settings.worlds.workers or len(os.sched_getaffinity(0))
    worlds = msgspec.structs.replace(
        settings.worlds, workers=max(1, _share(total, settings.processes, number))
    )
    return msgspec.structs.replace(settings, concurrency=concurrency, worlds=worlds)


def _share(total: int, parts: int, number: int) -> int:
    return total // parts + (number < total % parts)
