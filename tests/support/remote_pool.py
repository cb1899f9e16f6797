"""A world server on loopback, for tests, and a remote pool that leases from it."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest

from envpool.client.pool import RemotePool
from envpool.core.errors import PoolError
from envpool.core.event_loop import require_asyncio
from envpool.inprocess.pool import LocalPool
from envpool.offloaded.env import OffloadedScenario
from envpool.server.leases import Leases
from envpool.server.serve import serving
from envpool.server.settings import ServeSettings
from envpool.store.pool_protocol import Pool
from scenarios.format import Scenario


@asynccontextmanager
async def served(
    scenarios: Iterable[Scenario] = (), settings: ServeSettings | None = None
) -> AsyncIterator[tuple[Leases, str]]:
    """Leases on a local pool, served on a free port; yields them and the base URL."""
    pool = LocalPool()
    settings = settings or ServeSettings(port=0)
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

    async def host(self, scenario: Scenario) -> OffloadedScenario:
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
