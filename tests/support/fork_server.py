"""Fixtures of test folders whose tests fork workers: one warm fork server for a folder, since
starting it takes 1.5 s of CPU. A folder's conftest.py imports them.

`kept_fork_servers` is for tests that call whole commands: their pools, each in an event loop of its
own, find the fork servers of the commands before. Workers are new in each pool.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from typing import Self

import anyio
import pytest

from rehearsal_room.envpool.workers import pool
from rehearsal_room.envpool.workers.fork_client import ForkServerClient, ForkServerSettings
from rehearsal_room.envpool.workers.pool import OpenSpawner


class KeptForkServer(ForkServerClient):
    """A fork server that stays when its block ends, and serves the next block, in whatever event
    loop. The workers of a block end with it."""

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        if self.level:
            asyncio.get_running_loop().add_reader(self._control.fileno(), self._read)
        else:
            await self._open()
        try:
            yield self
        finally:
            with anyio.CancelScope(shield=True):
                for worker in tuple(self._workers.values()):
                    worker.kill()
                    await worker.wait()
            asyncio.get_running_loop().remove_reader(self._control.fileno())

    async def end(self) -> None:
        """End the process."""
        if self.level:
            asyncio.get_running_loop().add_reader(self._control.fileno(), self._read)
        await self._close()


@pytest.fixture(scope="session")
def kept_servers() -> Iterator[dict[ForkServerSettings, KeptForkServer]]:
    kept: dict[ForkServerSettings, KeptForkServer] = {}
    yield kept
    for server in kept.values():
        asyncio.run(server.end())


@pytest.fixture
def kept_fork_servers(
    kept_servers: dict[ForkServerSettings, KeptForkServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pools of this process use one fork server for each way of confining workers."""

    def client(settings: ForkServerSettings) -> KeptForkServer:
        server = kept_servers.get(settings)
        if server is None or server._fault:
            server = kept_servers[settings] = KeptForkServer(settings)
        return server

    monkeypatch.setattr(pool, "ForkServerClient", client)


@pytest.fixture(scope="package")
def anyio_backend() -> str:
    """Workers need asyncio."""
    return "asyncio"


@pytest.fixture(scope="package")
async def fork_server(anyio_backend: str) -> AsyncIterator[ForkServerClient]:
    """Forks workers with the default limits."""
    async with ForkServerClient() as fork_server:
        yield fork_server


@pytest.fixture
def open_spawner(fork_server: ForkServerClient) -> OpenSpawner:
    """Lets a pool fork its workers from the shared server."""
    return lambda _: nullcontext(fork_server)
