"""What pools of held worlds share, whoever executes their calls."""

from abc import ABC, abstractmethod

import anyio

from envpool.core.errors import PoolError
from envpool.offloaded.env import OffloadedScenario
from scenarios.format import Scenario


class OffloadedPool(ABC):
    """The scenarios that a pool has hosted elsewhere, and the count of its live worlds. `where`
    they are hosted, in words that fit a sentence."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.num_live = 0
        self.max_live = 0
        self._worlds: dict[str, OffloadedScenario] = {}  # package digest -> world
        self._hosting: dict[str, anyio.Lock] = {}

    async def host(self, scenario: Scenario) -> OffloadedScenario:
        """The hosted world of a package; built once, by the first who asks. Raises PoolError."""
        world = self._worlds.get(scenario.digest)
        if world is not None:
            return world
        async with self._hosting.setdefault(scenario.digest, anyio.Lock()):
            world = self._worlds.get(scenario.digest)
            if world is None:
                world = self._worlds[scenario.digest] = await self._build(scenario)
        return world

    def hosted(self, scenario: Scenario) -> OffloadedScenario:
        """The same of a package that is hosted already. Raises PoolError when it is not."""
        world = self._worlds.get(scenario.digest)
        if world is None:
            raise PoolError(f"scenario {scenario.name!r} was not hosted {self._where} yet")
        return world

    def statistics(self) -> dict[str, int]:
        """Counts of what the pool did and holds."""
        worlds = self._worlds.values()
        return {
            "worlds": len(worlds),
            "live": self.num_live,
            "max_live": self.max_live,
            "leases": sum(world.num_leases for world in worlds),
            "calls": sum(world.num_calls for world in worlds),
        }

    @abstractmethod
    async def _build(self, scenario: Scenario) -> OffloadedScenario:
        """Host a scenario. Raises PoolError."""

    def _came(self) -> None:
        """A world was leased."""
        self.num_live += 1
        self.max_live = max(self.max_live, self.num_live)

    def _close_worlds(self) -> None:
        """Close every scenario's connections."""
        for world in self._worlds.values():
            world.close()
        self._worlds.clear()
