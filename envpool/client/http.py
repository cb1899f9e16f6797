"""The HTTP client of the remote pool: one request, repeated where that is harmless and helps.

Every request of the pool may be repeated: a call has an id that is executed once, and the server
releases a leased world whose response was lost, once it is idle.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.event_loop import require_asyncio

_PAUSES_S = (0.05, 0.2, 1.0)  # before each repetition after a lost connection
_RETRY_LATER = (429, 503)  # statuses of a busy server
_MAX_RETRIES = 60  # after such a status


class HttpReply(msgspec.Struct, frozen=True):
    """The answer to a request."""

    status: int
    body: bytes


class NoReply(Exception):
    """The server was not reached, or did not answer in time."""


class HttpConnection(AsyncContextManagerMixin):
    """Connections to one server, opened on demand and kept. Use it in `async with`.

    A reply may take `timeout_s` seconds. Entering raises PoolError where the loop is not asyncio's.
    """

    def __init__(self, url: str, *, token: str, connections: int, timeout_s: float) -> None:
        self._url = url
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=timeout_s)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        require_asyncio()
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            headers=self._headers,
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self._session:
            yield self

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HttpReply:
        """The reply to a request. Raises NoReply."""
        for _ in range(_MAX_RETRIES):
            reply, wait_s = await self._send(method, path, body, headers)
            if reply.status not in _RETRY_LATER:
                return reply
            await anyio.sleep(wait_s)
        return reply

    async def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> tuple[HttpReply, float]:
        assert self._session is not None
        for pause_s in (*_PAUSES_S, None):
            try:
                async with self._session.request(
                    method, self._url + path, data=body, headers=headers, allow_redirects=False
                ) as response:
                    after = response.headers.get("Retry-After", "1")
                    wait_s = float(after) if after.isdecimal() else 1.0
                    return HttpReply(response.status, await response.read()), wait_s
            except TimeoutError as exc:
                raise NoReply(f"no reply within {self._timeout.sock_read:g} s") from exc
            except (aiohttp.ClientError, OSError) as exc:
                if pause_s is None:
                    raise NoReply(str(exc) or type(exc).__name__) from exc
            await anyio.sleep(pause_s)
        raise AssertionError("the last try returns or raises")
