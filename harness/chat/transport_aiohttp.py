"""The transport over aiohttp, for endpoints behind a proxy."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Self

import aiohttp
import anyio

from rehearsal_room.harness.chat.answer_limits import AnswerBudget, AnswerMeter
from rehearsal_room.harness.chat.http1 import BodyWatch, coding_fault
from rehearsal_room.harness.chat.transport import (
    Endpoint,
    HttpResponse,
    TransportError,
    connection_fault,
    proxy_fault,
    proxy_for,
    shown_proxy,
)


class AiohttpTransport(anyio.AsyncContextManagerMixin):
    """Sends requests by aiohttp, on asyncio only; uses the proxy that the environment names when
    the transport is made."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._method = endpoint.method
        self._url = endpoint.url
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._budget = AnswerBudget(endpoint.answers)
        self._session: aiohttp.ClientSession | None = None
        self._proxy = proxy_for(endpoint.base_url)

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        endpoint = self._endpoint
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the slots limit the connections
            headers=endpoint.headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s),
            skip_auto_headers=("Accept-Encoding",),
            proxy=self._proxy,
            auto_decompress=False,  # a small compressed answer can become a huge one
        )
        async with session:
            self._session = session
            try:
                yield self
            finally:
                self._session = None

    async def post(self, body: bytes, watch: BodyWatch | None = None) -> HttpResponse:
        """Make one attempt. The wait for a free slot does not count against the timeout."""
        if self._session is None:
            raise RuntimeError("the model client is used outside of its `async with`")
        async with self._slots:
            try:
                request = self._session.request(
                    self._method, self._url, data=body, allow_redirects=False
                )
                async with request as response:
                    body = await self._read(response, watch)
                return HttpResponse(response.status, response.headers, body)
            except TimeoutError as exc:
                limit = self._endpoint.timeout_s
                raise TransportError("timeout", f"no answer within {limit:g} s") from exc
            except aiohttp.ClientProxyConnectionError as exc:
                fault = proxy_fault(self._proxy or "", connection_fault(exc.os_error))
                raise TransportError("proxy", fault, was_sent=False) from exc
            except aiohttp.ClientHttpProxyError as exc:
                proxy = shown_proxy(self._proxy or "")
                fault = f"the proxy {proxy} refuses the connection: status {exc.status}"
                raise TransportError("proxy", fault, was_sent=False) from exc
            except (aiohttp.ClientError, OSError) as exc:
                was_sent = not isinstance(exc, aiohttp.ClientConnectorError)
                fault = connection_fault(getattr(exc, "os_error", exc))
                raise TransportError("connection", fault, was_sent=was_sent) from exc

    async def _read(self, response: aiohttp.ClientResponse, watch: BodyWatch | None) -> bytes:
        """The body. Raises TransportError for one that is too long or compressed."""
        if (fault := coding_fault(response.headers.get("Content-Encoding", ""))) is not None:
            raise TransportError("malformed", fault)
        meter, body = AnswerMeter(self._budget), bytearray()
        try:
            async for piece in response.content.iter_any():
                body += piece
                if watch is not None and 200 <= response.status < 300:
                    watch.feed(piece)
                if (fault := meter.fault_at(len(body))) is not None:
                    response.close()
                    raise TransportError("malformed", fault)
        finally:
            meter.end()
        return bytes(body)
