"""All faults of one process of a run: a wrapper around its parts.

chaos = chaos_of(settings)  # without a file of faults it changes nothing
parts = chaos.parts(parts, client)
... the session runs parts.faults, which injects and records
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, Self, TypeVar, runtime_checkable

import msgspec

from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.envpool.workers.pool import OpenSpawner, open_fork_server
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.chaos.bus import FaultyBus
from rehearsal_room.harness.chaos.disk import faulty_database
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.memory import FaultyMemory
from rehearsal_room.harness.chaos.policy import FaultyPolicy, FaultyTransport, OverHttp
from rehearsal_room.harness.chaos.settings import ChaosFile, read_chaos
from rehearsal_room.harness.chaos.tools import FaultyPool
from rehearsal_room.harness.chaos.workers import FaultyWorkers
from rehearsal_room.harness.following.published import PublishedLog
from rehearsal_room.harness.log.recorder import Recorder
from rehearsal_room.harness.log.writer import OpenDatabase
from rehearsal_room.harness.policies.base import OpenPolicy, Policy
from rehearsal_room.harness.rollout.running import Link, SessionParts
from rehearsal_room.harness.rollout.session import RunParts
from rehearsal_room.harness.settings.model import ModelSettings
from rehearsal_room.harness.settings.run import Settings

Opener = TypeVar("Opener")
Parts = TypeVar("Parts", bound=SessionParts)
ChaosPart = Literal["run", "coordinator", "process"]
_TABLES: dict[ChaosPart, tuple[str, ...]] = {
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
    What no fault hits is not wrapped.

    `part` is what of a run this process is: all of it, or with several processes the coordinator or
    a rollout process. Each injects what happens in it. `model` has the limits of requests.
    """

    def __init__(self, file: ChaosFile, model: ModelSettings, part: ChaosPart = "run") -> None:
        faults = {
            name: fault for name, fault in file.faults().items() if name.startswith(_TABLES[part])
        }
        self.injector = Injector(file, faults)
        self._has_faults = bool(file.faults())
        self._model = model
        self._is_over_http = False
        self._workers = FaultyWorkers(self.injector)
        self._bus = FaultyBus(self.injector)
        FaultyMemory(self.injector)

    def __repr__(self) -> str:
        return f"<Chaos {self.injector!r}>"

    async def run(self, recorder: Recorder) -> None:
        """Inject and record faults, until cancelled. Nothing is injected before and after."""
        await self.injector.run(recorder)

    @property
    def open_spawner(self) -> OpenSpawner:
        """What starts the sandbox workers."""
        return self._workers.open_spawner if self.injector.has("workers") else open_fork_server

    def judge(self, open_judge: Opener) -> Opener:
        """What opens the judge; verdicts from the broker come through the faults, too."""
        if isinstance(open_judge, OverBroker) and self.injector.has("bus"):
            return open_judge.through(self._bus.near)
        return open_judge

    def session(self, parts: Parts) -> Parts:
        """The parts of a session, with faults."""
        return self._replaced(parts)

    def parts(self, parts: RunParts, client: OpenPolicy | None) -> RunParts:
        """The parts of a run that this process plays, with faults. `client` is the policy that is
        still to be opened (None: there is none)."""
        self._hit_requests(client)
        return self._replaced(parts, pool=self.pool(parts.pool), policy=self.policy(parts.policy))

    def _replaced(self, parts: Parts, **changes: Any) -> Parts:
        if not self._has_faults:
            return parts
        return msgspec.structs.replace(
            parts,
            link=self.link(parts.link),
            open_database=self.database(parts.open_database),
            faults=self,
            **changes,
        )

    def _hit_requests(self, client: object) -> None:
        """Let faults hit the requests of a policy that asks a server."""
        self._is_over_http = isinstance(client, OverHttp)
        if isinstance(client, OverHttp) and self.injector.has("policy"):
            timeout_s = self._model.request_timeout
            client.wrap_transport(
                lambda inner: FaultyTransport(inner, self.injector, timeout_s=timeout_s)
            )

    def policy(self, policy: Policy) -> Policy:
        """The policy, with faults."""
        return FaultyPolicy(policy, self.injector, self._model, is_over_http=self._is_over_http)

    def pool(self, pool: Pool) -> Pool:
        """The pool, whose worlds are hit by faults."""
        return FaultyPool(pool, self.injector, self._workers)

    def database(self, open_database: OpenDatabase) -> OpenDatabase:
        """What opens the log's database, on a disk with faults."""
        if not self.injector.has("disk"):
            return open_database
        return faulty_database(open_database, self.injector)

    def link(self, link: Link | None) -> Link | None:
        """The link to other processes, with faults on its way to the broker."""
        if isinstance(link, PublishedLog) and self.injector.has("bus"):
            return self._bus.link(link)
        return link


def chaos_of(settings: Settings, part: ChaosPart = "run") -> Chaos:
    """The faults of the file that the settings name, or none. Raises SettingsError."""
    return Chaos(read_chaos(settings) or ChaosFile(), settings.model, part)
