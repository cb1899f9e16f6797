"""A bus over MQTT that also publishes: for tests, which have no log that an MqttLink could read."""

import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import TaskGroup

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.mqtt_bus import MqttBus
from rehearsal_room.harness.bus.mqtt_link import MqttLink
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings
from rehearsal_room.harness.bus.mqtt_wire import Position
from rehearsal_room.harness.core.errors import BusError
from rehearsal_room.harness.core.events import Record

_PAGE = 256  # records read for one request of a follower


class PublishingBus(MqttBus):
    """A Bus. It stores everything that it publishes, for late followers. `owner`: the run ends for
    its followers when this bus is left; one publisher of a run is its owner."""

    _link_tasks: TaskGroup  # while the block is open

    def __init__(self, settings: MqttSettings, run: str, *, owner: bool = True) -> None:
        super().__init__(settings, run)
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
        async with super().__asynccontextmanager__(), OwnedTasks() as self._link_tasks:
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
                    await self._link_tasks.start(self._link.run)
            except BusError as exc:
                self._failure = exc
                raise
            self._is_linked = True

    async def _read_log(self, after: Position) -> Sequence[tuple[Position, Record]]:
        return self._records[after : after + _PAGE]

    async def close(self) -> None:
        """Publish no more; followers receive what is published, then the end. Raises BusError when
        records could not be sent."""
        if self._closed:
            return
        self._closed = True
        if self._is_linked:
            await self._link.close()
            if unsent := self._link.num_unsent:
                raise BusError(f"{unsent} records could not be sent to the broker {self._broker}")

    def statistics(self) -> dict[str, int]:
        """Counts of what was sent and what waits."""
        return self._link.statistics()
