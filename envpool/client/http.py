"""The HTTP client of the remote pool: one request, asked again where that is harmless and helps.

Every request of ours may be asked again: a call bears an id that is answered once, and a world that
was leased and lost on the way is given back by the server when it is idle.
"""

from collections.abc import Mapping

import aiohttp
import anyio
import msgspec

from envpool.server.event_loop import need_asyncio

_PAUSES_S = (0.05, 0.2, 1.0)  # before asking again where the connection was lost
_PUT_OFF = (429, 503)  # statuses that say: later
_MAX_PUT_OFF = 60  # times


class Reply(msgspec.Struct, frozen=True):
    """What was answered."""

    status: int
    body: bytes


class NoReply(Exception):
    """The server was not reached, or did not answer in time."""


class Connection:
    """Connections to one server, opened as they are needed and kept.

    `patience_s` is how long a reply may take. `open` and `close` stand around its use.
    """

    def __init__(self, url: str, *, token: str, connections: int, patience_s: float) -> None:
        self._url = url
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=patience_s)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Get ready; nothing is connected yet. Raises PoolError where the loop is not asyncio's."""
        need_asyncio()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            headers=self._headers,
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """The reply to a request. Raises NoReply."""
        for _ in range(_MAX_PUT_OFF):
            reply, wait_s = await self._reached(method, path, body, headers)
            if reply.status not in _PUT_OFF:
                return reply
            await anyio.sleep(wait_s)
        return reply

    async def _reached(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str] | None
    ) -> tuple[Reply, float]:
        assert self._session is not None
        for pause_s in (*_PAUSES_S, None):
            try:
                async with self._session.request(
                    method, self._url + path, data=body, headers=headers
                ) as response:
                    after = response.headers.get("Retry-After", "1")
                    wait_s = float(after) if after.isdecimal() else 1.0
                    return Reply(response.status, await response.read()), wait_s
            except TimeoutError as exc:
                raise NoReply(f"nothing came within {self._timeout.sock_read:g} s") from exc
            except (aiohttp.ClientError, OSError) as exc:
                if pause_s is None:
                    raise NoReply(str(exc) or type(exc).__name__) from exc
            await anyio.sleep(pause_s)
        raise AssertionError("the last try returns or raises")
