"""How request bodies reach a chat-completions endpoint: the seam, and its aiohttp side.

A transport makes one attempt and says what came of it; whether to try again is decided above it.
"""

import asyncio
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec


class Endpoint(msgspec.Struct, frozen=True):
    """Where the model is."""

    base_url: str  # without a slash at its end, as in `https://api.openai.com/v1`
    api_key: str | None  # None: no Authorization header is sent
    organization: str | None
    project: str | None
    timeout_s: float  # for one attempt, from sending to the last byte
    concurrency: int  # requests in flight at once

    @property
    def url(self) -> str:
        """Where chat completions are asked for."""
        return self.base_url + "/chat/completions"

    @property
    def headers(self) -> dict[str, str]:
        """The request headers that do not depend on the body."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if self.organization is not None:
            headers["OpenAI-Organization"] = self.organization
        if self.project is not None:
            headers["OpenAI-Project"] = self.project
        return headers


class Answer(msgspec.Struct, frozen=True, gc=False):
    """One response, whole."""

    status: int
    headers: Mapping[str, str]  # looked up by lower-case names
    body: bytes


class Unreachable(Exception):
    """No whole response came."""

    def __init__(self, kind: Literal["connection", "timeout"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Transport(Protocol):
    """Sends requests to one endpoint. An async context manager that owns its connections."""

    async def post(self, body: bytes) -> Answer:
        """One attempt. Raises Unreachable. Cancelled: the request is given up."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class AiohttpTransport:
    """aiohttp: on asyncio only; proxies as the environment says when it is opened."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
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
                async with self._session.post(self._url, data=body) as response:
                    return Answer(response.status, response.headers, await response.read())
            except TimeoutError as exc:
                limit = self._endpoint.timeout_s
                raise Unreachable("timeout", f"no answer within {limit:g} s") from exc
            except (aiohttp.ClientError, OSError, ssl.SSLError) as exc:
                raise Unreachable("connection", f"{type(exc).__name__}: {exc}") from exc


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for a URL (`HTTPS_PROXY`, `NO_PROXY`, ...)."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    proxies = getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
