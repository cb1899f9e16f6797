"""Pools of worlds, which stay open for the next one who needs them.

One task owns a pool: it enters and leaves it, and hosts scenarios, as workers must be started by
the task that entered their pool.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import msgspec

from rehearsal_room.envpool.router import RoutingPool
from rehearsal_room.envpool.store.states import States
from rehearsal_room.harness.settings.run import Settings
from rehearsal_room.harness.setup.worlds import pool_of
from rehearsal_room.scenarios.format import Scenario

_MOST_UNUSED = 4  # pools that stay open


class _Order:
    """A scenario that a pool is to host, and what came of it."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.done = anyio.Event()
        self.states: States | None = None
        self.failure: Exception | None = None


class OwnedPool:
    """A pool and the task that owns it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._give, self._take = anyio.create_memory_object_stream[_Order](16)
        self.pool: RoutingPool | None = None
        self.is_over = False
        self.users = 0  # blocks that need it

    async def run(self) -> None:
        """Own the pool until `close`."""
        failure: Exception | None = None
        try:
            async with pool_of(self._settings) as pool:
                self.pool = pool
                async for order in self._take:
                    try:
                        order.states = await pool.host(order.scenario)
                    except Exception as exc:
                        order.failure = exc
                    order.done.set()
        except Exception as exc:
            failure = exc
        finally:
            self.is_over = True
            self._give.close()
            for order in self._left():
                order.failure = failure or anyio.ClosedResourceError()
                order.done.set()
            self._take.close()

    async def host(self, scenario: Scenario) -> States:
        """Host a scenario. Raises PoolError and SettingsError."""
        order = _Order(scenario)
        await self._give.send(order)
        await order.done.wait()
        if order.failure is not None:
            raise order.failure
        assert order.states is not None
        return order.states

    def close(self) -> None:
        """Let the owner leave the pool."""
        self._give.close()

    def _left(self) -> list[_Order]:
        orders = []
        while True:
            try:
                orders.append(self._take.receive_nowait())
            except (anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
                return orders


class OpenPools:
    """The open pools, one for each way of hosting; those that were used last stay open."""

    def __init__(self, group: anyio.abc.TaskGroup) -> None:
        self._group = group
        self._pools: dict[bytes, OwnedPool] = {}  # the one that was used last is the last

    @asynccontextmanager
    async def open(self, settings: Settings, scenario: Scenario) -> AsyncIterator[RoutingPool]:
        """A pool of these settings that hosts a scenario, for a block. Raises PoolError and
        SettingsError."""
        key = msgspec.json.encode((settings.worlds, settings.limits.call_timeout))
        owned = self._pools.pop(key, None)
        if owned is None or owned.is_over:
            owned = OwnedPool(settings)
            self._group.start_soon(owned.run)
        self._pools[key] = owned
        owned.users += 1
        try:
            await owned.host(scenario)
            assert owned.pool is not None
            yield owned.pool
        finally:
            owned.users -= 1
            self._close_some()

    def _close_some(self) -> None:
        unused = [key for key, owned in self._pools.items() if not owned.users]
        for key in unused[:-_MOST_UNUSED]:
            self._pools.pop(key).close()
