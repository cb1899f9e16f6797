"""Serve an ASGI application over HTTP with uvicorn, from its socket to its graceful end.

uvicorn runs on asyncio only, and on uvloop where the caller does.
"""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.event_loop import require_asyncio
from rehearsal_room.envpool.server.http_protocol import expire_all, protocol_with
from rehearsal_room.envpool.server.settings import HttpLimits

_BACKLOG = 2_048  # connections that wait to be accepted


class _Uvicorn(uvicorn.Server):
    """uvicorn with an event for when it listens, with deadlines for incomplete requests, and
    without handlers for the process's signals."""

    def __init__(self, config: uvicorn.Config, limits: HttpLimits) -> None:
        super().__init__(config)
        self._pause_s = min(1.0, limits.headers_s / 4, limits.body_s / 4)
        self.listens = anyio.Event()
        self.stopping = anyio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        self.listens.set()

    async def main_loop(self) -> None:
        """Expire connections until `stopping` is set; uvicorn itself polls ten times a second."""
        await self.on_tick(0)
        while not self.stopping.is_set():
            with anyio.move_on_after(self._pause_s):
                await self.stopping.wait()
            expire_all(self.server_state.connections, anyio.current_time())

    async def run_on(self, listener: socket.socket) -> None:
        """Serve until `stopping` is set; a cancellation does not interrupt requests in flight."""
        with anyio.CancelScope(shield=True):
            await self.serve([listener])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the composition root."""
        yield


@asynccontextmanager
async def listening(
    app: Any,
    *,
    host: str,
    port: int,
    drain_s: float,
    limits: HttpLimits | None = None,
    max_message: int | None = None,
) -> AsyncIterator[str]:
    """Serve an application for the duration of the block; yields the base URL. `port` 0: any free
    port. `limits` None: their defaults. `max_message` is the size of the largest message of a
    WebSocket, in bytes; None: the application has no WebSockets.

    Leaving the block completes the requests in flight, then closes the connections. Raises
    PoolError where the address is not available, or the loop is not asyncio's.
    """
    require_asyncio()
    limits = limits or HttpLimits()
    listener = _listen(host, port)
    config = uvicorn.Config(
        app,
        http=protocol_with(limits),
        ws="none" if max_message is None else WebSocketsSansIOProtocol,
        ws_max_size=max_message or 1,
        ws_per_message_deflate=False,  # it costs more than the bytes, on the networks of a rollout
        lifespan="off",
        log_config=None,
        log_level="error",  # a bad request is not worth a line: clients could fill the log
        access_log=False,
        proxy_headers=False,  # a client is identified by its own address
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(drain_s)),
    )
    server = _Uvicorn(config, limits)
    failure: Exception | None = None  # of the block, raised unchanged, not in a group
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(server.run_on, listener)
            await server.listens.wait()
            try:
                yield _url(host, listener)
            except Exception as exc:
                failure = exc
            finally:
                server.stopping.set()
    finally:
        listener.close()
    if failure is not None:
        raise failure


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named; with the algorithm, a
    # response in two pieces takes 44 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(_BACKLOG)
    except OSError as exc:
        listener.close()
        raise PoolError(f"{host}:{port}: cannot listen there: {exc.strerror or exc}") from exc
    return listener


def _url(host: str, listener: socket.socket) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # nosec B104
    name = f"[{host}]" if ":" in host and host[0] != "[" else host
    return f"http://{name}:{listener.getsockname()[1]}"
