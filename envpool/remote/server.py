"""Serving worlds over HTTP: the application on uvicorn, from its socket to its graceful end.

uvicorn runs on asyncio only, and on uvloop where the caller's loop is one.
"""

import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import structlog
import uvicorn

from envpool.errors import PoolError
from envpool.remote.app import App
from envpool.remote.leases import Leases
from envpool.remote.loop import need_asyncio
from envpool.remote.settings import ServeSettings

log = structlog.get_logger()
_BACKLOG = 2_048  # connections that wait to be taken


class _Uvicorn(uvicorn.Server):
    """uvicorn that says when it listens and leaves the process's signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listens = anyio.Event()
        self.stopping = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        self.listens.set()

    async def main_loop(self) -> None:
        """Until it is told to stop; uvicorn itself looks ten times a second."""
        await self.on_tick(0)
        await self.stopping.wait()

    async def run_on(self, listener: socket.socket) -> None:
        """Serve until `stopping` is set; a cancellation does not cut the calls in flight short."""
        with anyio.CancelScope(shield=True):
            await self.serve([listener])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are the roof's."""
        yield


@asynccontextmanager
async def serving(leases: Leases) -> AsyncIterator[str]:
    """A block in which the leases are served over HTTP; gives the base URL.

    Leaving it ends the calls in flight in order, and then the connections. Raises PoolError where
    the address cannot be had, or the loop is not asyncio's.
    """
    need_asyncio()
    settings = leases.settings
    listener = _listen(settings)
    config = uvicorn.Config(
        App(leases),
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # a client is the address that it comes from
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(settings.drain_s)),
    )
    server = _Uvicorn(config)
    if not settings.token and settings.host not in ("localhost", "127.0.0.1", "::1"):
        log.warning("served_without_token", host=settings.host)
    failure: Exception | None = None  # of the block: it is raised as it is, in no group
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(server.run_on, listener)
            await server.listens.wait()
            try:
                yield _url(settings, listener)
            except Exception as exc:
                failure = exc
            finally:
                server.stopping.set()
    finally:
        listener.close()
    if failure is not None:
        raise failure


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


def _listen(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio switches Nagle's algorithm off where the protocol is named; with it on, an answer in
    # two pieces takes 44 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host.strip("[]"), settings.port))
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise PoolError(f"{where}: cannot be listened on: {exc.strerror or exc}") from exc
    return listener


def _url(settings: ServeSettings, listener: socket.socket) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.host, settings.host)
    name = f"[{host}]" if ":" in host and host[0] != "[" else host
    return f"http://{name}:{listener.getsockname()[1]}"
