"""Sending requests to an OTLP collector over HTTP.

A collector that is busy (429, 502, 503, 504) or away is asked again, after its `Retry-After` or a
growing wait, until `patience_s` have passed; every other refusal is final (OTLP specification 1.x,
"OTLP/HTTP response"). Sending waits meanwhile: nothing is dropped.

Credentials are read from `OTEL_EXPORTER_OTLP_HEADERS`, as OpenTelemetry's own exporters do.
"""

import gzip
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

import aiohttp
import anyio
import structlog

from rehearsal_room.harness.chat.retry import Backoff, requested_wait
from rehearsal_room.harness.chat.transport import connection_fault, proxy_for
from rehearsal_room.harness.core.errors import CollectorError
from rehearsal_room.harness.core.terminal_text import shorten
from rehearsal_room.interop.otlp.encoding import refusal_in

_PATH = "/v1/traces"
_BUSY = frozenset({429, 502, 503, 504})
_TIMEOUT_S = 30.0
_MAX_ANSWER = 65_536  # bytes of an answer that are read
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_log = structlog.get_logger(__name__)


class _Failure(Exception):
    """One attempt failed. `away`: the collector cannot be reached; `busy`: it wants to be asked
    again, after `wait_s` if it named a wait; `refused`: it will not take the request."""

    def __init__(
        self, kind: Literal["away", "busy", "refused"], why: str, *, wait_s: float | None = None
    ) -> None:
        super().__init__(why)
        self.kind, self.wait_s = kind, wait_s


class OtlpSender(anyio.AsyncContextManagerMixin):
    """Sends requests to one collector, to be used in `async with`. Entering it sends an empty
    request, so that a wrong URL is found at once."""

    _session: aiohttp.ClientSession

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = 300.0,
        backoff: Backoff = Backoff(first_s=0.5, max_wait_s=30.0),  # noqa: B008  # frozen
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`url` is the collector's endpoint, with or without /v1/traces. Raises CollectorError."""
        self.url = traces_url(url)
        self.num_requests = 0  # that were accepted
        self._patience_s = patience_s
        self._backoff = backoff
        self._headers = headers_in(environment)
        self._rng = Random()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_for(self.url),
        ) as self._session:
            try:
                await self._post(b"")
            except _Failure as exc:
                if exc.kind != "busy":
                    raise CollectorError(f"{self.url}: {exc}") from exc
            yield self

    async def send(self, request: bytes) -> None:
        """Send a request until it is accepted. Raises CollectorError."""
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            try:
                await self._post(request)
            except _Failure as exc:
                waited = time.monotonic() - began
                if exc.kind == "refused":
                    raise CollectorError(f"{self.url}: {exc}") from exc
                wait_s = exc.wait_s
                if wait_s is None:
                    wait_s = self._rng.uniform(0.0, self._backoff.ceiling(attempt))
                if waited + wait_s > self._patience_s:
                    raise CollectorError(
                        f"{self.url}: {exc}; given up after {waited:.0f} s and {attempt} attempts"
                    ) from exc
                _log.warning("otlp_retry", url=self.url, why=str(exc), wait_s=round(wait_s, 2))
                await anyio.sleep(wait_s)
            else:
                self.num_requests += 1
                return

    async def _post(self, request: bytes) -> None:
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        try:
            async with self._session.post(
                self.url,
                data=gzip.compress(request, 1),
                headers=headers,
                allow_redirects=False,
            ) as response:
                body = await response.content.read(_MAX_ANSWER)
                status, found = response.status, response.headers
        except TimeoutError as exc:
            why = f"the collector did not answer within {_TIMEOUT_S:.0f} s"
            raise _Failure("away", why) from exc
        except aiohttp.ClientError as exc:
            fault = connection_fault(getattr(exc, "os_error", exc))
            raise _Failure("away", f"the collector cannot be reached: {fault}") from exc
        if status in _BUSY:
            named = {name.lower(): value for name, value in found.items()}
            wait_s = requested_wait(named, time.time())
            raise _Failure("busy", f"the collector is busy (status {status})", wait_s=wait_s)
        if status != 200:
            text = shorten(body.decode("utf-8", "replace"), 200)
            why = f"the collector refused the spans (status {status}): {text or 'no reason given'}"
            raise _Failure("refused", why)
        if refusal := refusal_in(body):
            _log.warning("otlp_partly_refused", url=self.url, why=refusal)


def traces_url(url: str) -> str:
    """The URL for traces of a collector's endpoint. Raises CollectorError.

    Example: "http://localhost:4318" -> "http://localhost:4318/v1/traces"
    Example: "https://cloud/api/public/otel" -> "https://cloud/api/public/otel/v1/traces"
    """
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise CollectorError(
            f"--otlp: {url!r} is not the URL of a collector (expected http[s]://host:port, for "
            "example http://localhost:4318)"
        )
    if parts.username or parts.password:
        raise CollectorError(
            "--otlp: the URL contains a user or password; put credentials into "
            "OTEL_EXPORTER_OTLP_HEADERS, for example 'Authorization=Basic ...'"
        )
    path = parts.path.rstrip("/")
    if not path.endswith(_PATH):
        path += _PATH
    return parts._replace(path=path, fragment="").geturl()


def headers_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The headers that the environment names for a collector. Raises CollectorError.

    Example: {"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b,tenant=x"}
    -> {"api-key": "a b", "tenant": "x"}
    """
    headers = {}
    for variable in _HEADERS:
        for item in filter(str.strip, environment.get(variable, "").split(",")):
            name, separator, value = item.partition("=")
            if not separator or not name.strip():
                raise CollectorError(f"{variable}: an item has no '=' (expected name=value)")
            headers[name.strip()] = unquote(value.strip())
    return headers
