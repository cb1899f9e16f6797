"""The aiohttp side of the transport seam, for endpoints behind a proxy."""

import asyncio
from types import TracebackType
from typing import Self

import aiohttp

from harness.chat.transport import Answer, Endpoint, Unreachable, proxy_for


class AiohttpTransport:
    """aiohttp: on asyncio only; proxies as the environment says when it is opened."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._method = endpoint.method
        self._url = endpoint.url
        self._slots = asyncio.Semaphore(endpoint.concurrency)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        endpoint = self._endpoint
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # the slots bound them
            headers=endpoint.headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout_s),
            skip_auto_headers=("Accept-Encoding",),
            proxy=proxy_for(endpoint.base_url),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(self, body: bytes) -> Answer:
        """One attempt. The wait for a free slot is not counted in its timeout."""
        if self._session is None:
            raise RuntimeError("the model client is used outside of its `async with`")
        async with self._slots:
            try:
                asked = self._session.request(self._method, self._url, data=body)
                async with asked as response:
                    return Answer(response.status, response.headers, await response.read())
            except TimeoutError as exc:
                limit = self._endpoint.timeout_s
                raise Unreachable("timeout", f"no answer within {limit:g} s") from exc
            except (aiohttp.ClientError, OSError) as exc:
                was_sent = not isinstance(exc, aiohttp.ClientConnectorError)
                fault = f"{type(exc).__name__}: {exc}"
                raise Unreachable("connection", fault, was_sent=was_sent) from exc
