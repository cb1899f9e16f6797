"""All faults of one process of a run: wrappers around the parts that exist.

chaos = Chaos(file, settings)
pool, policy = chaos.pool(pool), chaos.policy(policy)
... in the session: tasks.start_soon(chaos.run, recorder)
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, Self, TypeVar, runtime_checkable

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.workers.pool import OpenSpawner, open_fork_server
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.chaos.bus import FaultyBus, Link
from rehearsal_room.harness.chaos.disk import faulty_database
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.policy import FaultyPolicy, FaultyTransport, OverHttp
from rehearsal_room.harness.chaos.processes import (
    FaultyMemory,
    FaultyProcesses,
    Handle,
    WatchedProcess,
)
from rehearsal_room.harness.chaos.settings import ChaosFile
from rehearsal_room.harness.chaos.tools import FaultyPool
from rehearsal_room.harness.chaos.workers import FaultyWorkers
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.writer import OpenDatabase
from rehearsal_room.harness.policies.base import Policy
from rehearsal_room.harness.settings.run import Settings

Opener = TypeVar("Opener")
Part = Literal["run", "coordinator", "process"]
_TABLES: dict[Part, tuple[str, ...]] = {
    "run": ("policy", "tools", "workers", "bus", "disk"),
    "coordinator": ("processes.kill", "processes.hang", "bus", "disk"),
    "process": ("policy", "tools", "workers", "processes.memory"),
}


@runtime_checkable
class OverBroker(Protocol):
    """What opens a judge whose verdicts come from a broker."""

    def through(self, near: Callable[[MqttSettings], AbstractAsyncContextManager[Any]]) -> Self:
        """The same, on the way to the broker that `near` opens."""


class Chaos:
    """Wraps the parts of a run so that the faults of a file hit them; `run` injects and records.

    `part` is what of a run this process is: all of it, or with several processes the coordinator or
    a rollout process. Each injects what happens in it.
    """

    def __init__(self, file: ChaosFile, settings: Settings, part: Part = "run") -> None:
        faults = {
            name: fault for name, fault in file.faults().items() if name.startswith(_TABLES[part])
        }
        self._injector = Injector(file, faults)
        self._model = settings.model
        self._is_over_http = False
        self._workers = FaultyWorkers(self._injector)
        self._bus = FaultyBus(self._injector)
        self._processes = FaultyProcesses(self._injector)
        FaultyMemory(self._injector)

    def __repr__(self) -> str:
        return f"<Chaos {self._injector!r}>"

    async def run(self, recorder: Recorder) -> None:
        """Inject and record faults, until cancelled. Nothing is injected before and after."""
        await self._injector.run(recorder)

    @property
    def open_spawner(self) -> OpenSpawner:
        """What starts the sandbox workers."""
        return self._workers.open_spawner if self._injector.has("workers") else open_fork_server

    def hit_requests(self, client: object) -> None:
        """Let faults hit the requests of a policy that asks a server; it is not open yet."""
        self._is_over_http = isinstance(client, OverHttp)
        if isinstance(client, OverHttp) and self._injector.has("policy"):
            timeout_s = self._model.request_timeout
            client.wrap_transport(
                lambda inner: FaultyTransport(inner, self._injector, timeout_s=timeout_s)
            )

    def policy(self, policy: Policy) -> Policy:
        """The policy, with faults; `hit_requests` comes first."""
        return FaultyPolicy(policy, self._injector, self._model, is_over_http=self._is_over_http)

    def pool(self, pool: Pool) -> Pool:
        """The pool, whose worlds are hit by faults."""
        return FaultyPool(pool, self._injector, self._workers)

    def database(self, open_database: OpenDatabase) -> OpenDatabase:
        """What opens the log's database, on a disk with faults."""
        if not self._injector.has("disk"):
            return open_database
        return faulty_database(open_database, self._injector)

    def link(self, settings: MqttSettings, link_to: Callable[[MqttSettings], Any]) -> Link:
        """The link to the broker of the settings, with faults."""
        if not self._injector.has("bus"):
            link: Link = link_to(settings)
            return link
        return self._bus.link(settings, link_to)

    def judge(self, open_judge: Opener) -> Opener:
        """What opens the judge; verdicts from the broker come through the faults, too."""
        if isinstance(open_judge, OverBroker) and self._injector.has("bus"):
            return open_judge.through(self._bus.near)
        return open_judge

    def start_process(
        self, start: Callable[[int], Handle]
    ) -> Callable[[int], Handle | WatchedProcess]:
        """What starts a rollout process, which faults may hit."""
        if not self._injector.has("processes"):
            return start
        return lambda number: self._processes.start(start, number)
