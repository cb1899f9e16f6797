"""Fixtures of test folders whose tests fork workers: one warm fork server for a folder, since
starting it takes most of a second. A folder's conftest.py imports them."""

from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest

from envpool.workers.fork_client import ForkServerClient
from envpool.workers.pool import OpenSpawner


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
