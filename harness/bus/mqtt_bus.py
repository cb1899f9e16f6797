"""The Bus between processes that have no log of their own, over MQTT 5.

It stores everything that it has published, because there is no log from which a late follower
could get it.
"""

import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import TaskGroup

from rehearsal_room.envpool.offloaded.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.local import DEPTH, check_kinds
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.bus.mqtt_wire import Position
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Kind, Record

_PAGE = 256  # records read for one request of a follower


class MqttBus(anyio.AsyncContextManagerMixin):
    """The bus for a process without a log of its own, to be used in `async with`.

    The first `publish` makes it a publisher: from then on it stores everything that it publishes,
    for late followers. `owner`: the run ends for its followers when this bus is left; one publisher
    of a run is its owner.
    """

    _tasks: TaskGroup  # while the block is open

    def __init__(self, settings: MqttSettings, run: str, *, owner: bool = True) -> None:
        self._settings = settings
        self._run_name = run
        self._broker = broker_of(settings)
        self._records: list[tuple[Position, Record]] = []
        self._starting = anyio.Lock()
        self._is_linked = False
        self._failure: BusError | None = None  # why the link could not start
        self._closed = False
        self._link = MqttLink(
            settings, run, log=secrets.token_hex(8), read_log=self._read_log, owner=owner
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with OwnedTasks() as self._tasks:
            try:
                try:
                    yield self
                except BaseException:
                    if self._is_linked and not self._closed:
                        await self._link.close(hurry=True)
                    raise
                await self.close()
            finally:
                self._link.stop()

    def __repr__(self) -> str:
        return f"<MqttBus {self._run_name} on {self._broker}>"

    async def publish(self, record: Record) -> None:
        """See Bus.publish. Raises BusError when no broker accepts the record."""
        if self._closed:
            raise anyio.ClosedResourceError
        if not self._is_linked:
            await self._start_link()
        row = (len(self._records) + 1, record)
        self._records.append(row)
        self._link.put((row,))
        await self._link.wait_for_room()

    async def _start_link(self) -> None:
        async with self._starting:
            if self._failure is not None:
                raise self._failure
            if self._is_linked:
                return
            try:
                # Connecting ends by itself; cancelling it half-way would leave half a link.
                with anyio.CancelScope(shield=True):
                    await self._tasks.start(self._link.run)
            except BusError as exc:
                self._failure = exc
                raise
            self._is_linked = True

    async def _read_log(self, after: Position) -> Sequence[tuple[Position, Record]]:
        return self._records[after : after + _PAGE]

    @asynccontextmanager
    async def subscribe(
        self, *, kinds: Collection[Kind] | None = None, depth: int = DEPTH
    ) -> AsyncIterator[Follower]:
        """See Bus.subscribe; the subscriber gets what the run has published so far, too.

        Each subscription is a client of its own, so a slow one slows none of the others; between it
        and the publisher there are only the broker's memory and the run's log. Raises BusError.
        """
        follower = Follower(
            self._broker, self._settings, self._run_name, kinds=check_kinds(kinds), depth=depth
        )
        await self._tasks.start(follower.run)
        try:
            yield follower
        finally:
            await follower.leave()

    async def close(self) -> None:
        """Publish no more; followers receive what is published, then the end. Raises BusError when
        records could not be sent."""
        if self._closed:
            return
        self._closed = True
        if self._is_linked:
            await self._link.close()
            unsent = self._link.num_unsent
            if unsent:
                raise BusError(f"{unsent} records could not be sent to the broker {self._broker}")

    def statistics(self) -> dict[str, int]:
        """Return counts of what was sent and what waits."""
        return self._link.statistics()
