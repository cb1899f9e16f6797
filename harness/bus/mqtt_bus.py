"""Receiving the records of a run from an MQTT 5 broker."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Self

import anyio
from anyio.abc import TaskGroup

from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.harness.bus.local import DEPTH, check_kinds
from rehearsal_room.harness.bus.mqtt_follower import Follower
from rehearsal_room.harness.bus.mqtt_settings import MqttSettings, broker_of
from rehearsal_room.harness.core.events import EventKind


class MqttBus(anyio.AsyncContextManagerMixin):
    """The bus of a run of another process, to be used in `async with`. That process publishes with
    an MqttLink."""

    _tasks: TaskGroup  # while the block is open

    def __init__(self, settings: MqttSettings, run: str) -> None:
        self._settings = settings
        self._run_name = run
        self._broker = broker_of(settings)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with OwnedTasks() as self._tasks:
            yield self

    def __repr__(self) -> str:
        return f"<MqttBus {self._run_name} on {self._broker}>"

    @asynccontextmanager
    async def subscribe(
        self, *, kinds: Collection[EventKind] | None = None, depth: int = DEPTH
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
