"""Faults of the bus to other processes: the broker restarts or is out of reach, messages come
twice or in another order, and who listens is slow.

The link itself is unchanged: it connects to a proxy in place of its broker, and has to deliver all
records once and in order all the same.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from subprocess import DEVNULL

import anyio
import msgspec

from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.chaos.broker_proxy import BrokerProxy
from rehearsal_room.harness.chaos.injector import Injector
from rehearsal_room.harness.chaos.settings import Delay, Partition, Restart
from rehearsal_room.harness.core.events import FaultInjected, Record
from rehearsal_room.harness.following.published import PublishedLog
from rehearsal_room.harness.rollout.running import Link, Publisher

_RECONNECT_S = 15.0  # seconds in which the link should be connected again


class FaultyBus:
    """The bus of one run."""

    def __init__(self, injector: Injector) -> None:
        self._injector = injector
        self._proxy: BrokerProxy | None = None  # the last one; None: there was none yet
        self._num_inside = 0  # blocks of `near` that are open: they share the proxy
        injector.on_time("bus.restart", self._restart)
        injector.on_time("bus.partition", self._partition)

    def link(self, link: PublishedLog) -> Link:
        """The link, hit by faults. Opening it raises BusError."""
        published = link.through(self.near)

        @asynccontextmanager
        async def opened(position: int) -> AsyncIterator[Publisher]:
            async with published(position) as publisher:
                yield _SlowPublisher(publisher, self._injector)

        return opened

    @asynccontextmanager
    async def near(self, settings: MqttSettings) -> AsyncIterator[MqttSettings]:
        """The settings with which a client goes through the faults: those of a proxy, or the same
        where no fault needs one. Blocks inside of each other have one proxy. Raises BusError."""
        names = ("restart", "partition", "duplicate", "reorder")
        if all(self._injector.fault(f"bus.{name}") is None for name in names):
            yield settings
            return
        broker = broker_of(settings)
        async with AsyncExitStack() as stack:
            if self._proxy is None or not self._num_inside:
                opened = BrokerProxy(broker, self._injector)
                self._proxy = await stack.enter_async_context(opened)
            self._num_inside += 1
            try:
                yield msgspec.structs.replace(
                    settings,
                    url=f"mqtt://127.0.0.1:{self._proxy.port}",
                    user=broker.user or "",
                    password="" if broker.password is None else broker.password.reveal(),
                )
            finally:
                self._num_inside -= 1

    async def _restart(self, number: int) -> None:
        restart, proxy = self._injector.fault("bus.restart"), self._proxy
        assert isinstance(restart, Restart) and proxy is not None
        num_open, num_connects = proxy.num_open, proxy.num_connects
        try:
            proxy.refuse()  # as the broker does while it is away
            if restart.command:
                await anyio.run_process(restart.command, check=False, stdout=DEVNULL)
                await proxy.wait_for_broker()
            else:
                proxy.cut()
                await anyio.sleep(restart.seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await proxy.accept()
            await self._report("bus.restart", num_open, num_connects, restart.seconds)

    async def _partition(self, number: int) -> None:
        partition, proxy = self._injector.fault("bus.partition"), self._proxy
        assert isinstance(partition, Partition) and proxy is not None
        num_open, num_connects = proxy.num_open, proxy.num_connects
        proxy.hold()
        try:
            await anyio.sleep(partition.seconds)
        finally:
            proxy.release()
            await self._report("bus.partition", num_open, num_connects, partition.seconds)

    async def _report(self, fault: str, num_open: int, before: int, seconds: float) -> None:
        """Record a fault that hit so many open connections. A connection that was lost is made
        again, and what was not acknowledged is sent again."""
        proxy = self._proxy
        assert proxy is not None
        try:
            with anyio.move_on_after(_RECONNECT_S):
                await proxy.wait_connected()
        finally:
            self._injector.report(
                FaultInjected(
                    fault,
                    landed=num_open > 0,
                    retried=proxy.num_connects > before,
                    target="the broker",
                    seconds=seconds,
                )
            )


class _SlowPublisher:
    """A link that lets the log wait, as one does whose listeners are slow."""

    def __init__(self, inner: Publisher, injector: Injector) -> None:
        self._inner = inner
        self._injector = injector
        self._num_batches = 0

    def put(self, batch: Sequence[tuple[int, Record]]) -> None:
        self._inner.put(batch)

    async def wait_for_room(self) -> None:
        slow = self._injector.fault("bus.slow")
        self._num_batches += 1
        if isinstance(slow, Delay) and self._injector.hits("bus.slow", self._num_batches):
            await anyio.sleep(slow.seconds)
            self._injector.report(FaultInjected("bus.slow", seconds=slow.seconds))
        await self._inner.wait_for_room()
