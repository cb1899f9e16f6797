"""Serving worlds over HTTP: leases on a socket, until a signal ends them."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import structlog

from envpool.server.app import App
from envpool.server.http_server import listening
from envpool.server.leases import Leases

log = structlog.get_logger()


@asynccontextmanager
async def serving(leases: Leases) -> AsyncIterator[str]:
    """A block in which the leases are served over HTTP; gives the base URL.

    Leaving it ends the calls in flight in order, and then the connections. Raises PoolError where
    the address cannot be had, or the loop is not asyncio's.
    """
    settings = leases.settings
    served = listening(
        App(leases), host=settings.host, port=settings.port, drain_s=settings.drain_s
    )
    async with served as url:
        if not settings.token and settings.host not in ("localhost", "127.0.0.1", "::1"):
            log.warning("served_without_token", host=settings.host)
        yield url


async def serve(leases: Leases, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT, then drain: no new worlds, and those that live are left
    `drain_s` seconds to be released. A second signal ends that wait.

    `ready` is told the base URL. Raises PoolError where the address cannot be had.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with serving(leases) as url, anyio.create_task_group() as group:
            ready(url)
            async for _ in signals:
                if leases.draining:
                    group.cancel_scope.cancel()
                else:
                    group.start_soon(_drain, leases, group.cancel_scope)


async def _drain(leases: Leases, then: anyio.CancelScope) -> None:
    await leases.drain()
    then.cancel()
