"""What all pools of remotely executed worlds share, whichever executor runs their calls."""

from abc import ABC, abstractmethod

import anyio

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionScenario
from rehearsal_room.scenarios.format import Scenario


class RemoteExecutionPool(ABC):
    """The scenarios that a pool has hosted elsewhere, and the count of its live worlds.

    `where` describes where they are hosted, as a phrase for messages ("in a worker").
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self.num_live = 0
        self.max_live = 0
        self._worlds: dict[str, RemoteExecutionScenario] = {}  # package digest -> world
        self._hosting_locks: dict[str, anyio.Lock] = {}  # by package digest

    async def host(self, scenario: Scenario) -> RemoteExecutionScenario:
        """The hosted world of a package, built once, by the first caller. Raises PoolError."""
        world = self._worlds.get(scenario.digest)
        if world is not None:
            return world
        async with self._hosting_locks.setdefault(scenario.digest, anyio.Lock()):
            world = self._worlds.get(scenario.digest)
            if world is None:
                world = self._worlds[scenario.digest] = await self._build(scenario)
        return world

    def hosted(self, scenario: Scenario) -> RemoteExecutionScenario:
        """The same for a package that is already hosted. Raises PoolError when it is not."""
        world = self._worlds.get(scenario.digest)
        if world is None:
            raise PoolError(f"scenario {scenario.name!r} was not hosted {self._where} yet")
        return world

    def statistics(self) -> dict[str, int]:
        """Counts of the pool's work and of its worlds."""
        worlds = self._worlds.values()
        return {
            "worlds": len(worlds),
            "live": self.num_live,
            "max_live": self.max_live,
            "leases": sum(world.num_leases for world in worlds),
            "calls": sum(world.num_calls for world in worlds),
        }

    @abstractmethod
    async def _build(self, scenario: Scenario) -> RemoteExecutionScenario:
        """Host a scenario. Raises PoolError."""

    def _count_lease(self) -> None:
        """Count a world that was leased."""
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)

    def _close_worlds(self) -> None:
        """Close the connections of every scenario."""
        for world in self._worlds.values():
            world.close()
        self._worlds.clear()
