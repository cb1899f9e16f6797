"""A world server on loopback, for tests, and a remote pool that leases from it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from rehearsal_room.envpool.client.pool import RemotePool
from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.event_loop import require_asyncio
from rehearsal_room.envpool.inprocess.pool import LocalPool
from rehearsal_room.envpool.remote_execution.env import RemoteExecutionScenario
from rehearsal_room.envpool.server.leases import Leases
from rehearsal_room.envpool.server.serve import serving
from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.envpool.store.pool_protocol import Pool
from rehearsal_room.scenarios.format import Scenario


@asynccontextmanager
async def served(
    scenarios: Iterable[Scenario] = (), settings: WorldServerSettings | None = None
) -> AsyncIterator[tuple[Leases, str]]:
    """Leases on a local pool, served on a free port; yields them and the base URL."""
    pool = LocalPool()
    settings = settings or WorldServerSettings(port=0)
    try:
        async with Leases(pool, scenarios, settings) as leases, serving(leases) as url:
            yield leases, url
    finally:
        pool.close()


class _AnnouncingPool(RemotePool):
    """A remote pool that adds each scenario to its server before it hosts it."""

    def __init__(self, url: str, leases: Leases) -> None:
        super().__init__(url)
        self._leases = leases

    async def host(self, scenario: Scenario) -> RemoteExecutionScenario:
        self._leases.scenarios[scenario.name] = scenario
        return await super().host(scenario)


@asynccontextmanager
async def remote() -> AsyncIterator[Pool]:
    """A remote pool for the contract suite. Skips the test where the loop is not asyncio's."""
    try:
        require_asyncio()
    except PoolError as exc:
        pytest.skip(str(exc))
    async with served() as (leases, url), _AnnouncingPool(url, leases) as pool:
        yield pool
