"""Serve worlds over HTTP: leases on a socket, until a signal ends them."""

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import structlog

from rehearsal_room.envpool.server.app import App, Protocols
from rehearsal_room.envpool.server.http_server import listening
from rehearsal_room.envpool.server.leases import Leases

log = structlog.get_logger()


@asynccontextmanager
async def serving(leases: Leases, protocols: Protocols | None = None) -> AsyncIterator[str]:
    """Serve the leases over HTTP for the duration of the block; yields the base URL. `protocols`
    are those beside MCP (None: there are none).

    Leaving the block completes the calls in flight, then closes the connections. Raises PoolError
    where the address is not available, or the loop is not asyncio's.
    """
    settings = leases.settings
    server = listening(
        App(leases, protocols),
        host=settings.host,
        port=settings.port,
        drain_s=settings.drain_s,
        limits=settings.http_limits,
        max_message=None if protocols is None else settings.max_body,
    )
    async with server as url:
        if not (settings.token or settings.token_file) and settings.host not in (
            "localhost",
            "127.0.0.1",
            "::1",
        ):
            log.warning("served_without_token", host=settings.host)
        yield url


async def serve(
    leases: Leases, ready: Callable[[str], None], protocols: Protocols | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, then drain: lease no new worlds, and wait up to `drain_s`
    seconds until the live ones are released. A second signal ends that wait.

    `ready` is called with the base URL. Raises PoolError where the address is not available.
    """
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with serving(leases, protocols) as url, anyio.create_task_group() as group:
            ready(url)
            async for _ in signals:
                if leases.draining:
                    group.cancel_scope.cancel()
                else:
                    group.start_soon(_drain, leases, group.cancel_scope)


async def _drain(leases: Leases, scope: anyio.CancelScope) -> None:
    await leases.drain()
    scope.cancel()
