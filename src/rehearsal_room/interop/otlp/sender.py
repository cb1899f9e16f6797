"""Sending spans to an OTLP collector over HTTP, by the exporter of the OpenTelemetry SDK.

The exporter asks a collector that is busy (429, 502, 503, 504) or away again for half a minute.
Here it is asked on until `patience_s` have passed, so that nothing is dropped; every other refusal
is final (OTLP specification 1.x, "OTLP/HTTP response"). The exporter says only whether it
succeeded, so its HTTP session remembers what the collector answered.

Credentials are read from `OTEL_EXPORTER_OTLP_HEADERS`, as OpenTelemetry's own exporters do.
"""

import gzip
import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
import requests
import structlog
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from rehearsal_room.harness.chat.retry import Backoff, requested_wait
from rehearsal_room.harness.core.errors import CollectorError
from rehearsal_room.harness.core.terminal_text import shorten
from rehearsal_room.interop.otlp.encoding import SpanRequest, refusal_in

_PATH = "/v1/traces"
_BUSY = frozenset({429, 502, 503, 504})
_TIMEOUT_S = 30.0
_HEADERS = ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")
_log = structlog.get_logger(__name__)


class _Session(requests.Session):
    """Remembers the collector's last answer, or why there was none."""

    answer: requests.Response | None = None
    fault: requests.RequestException | None = None

    def request(self, *args: Any, **options: Any) -> requests.Response:
        """Send a request."""
        self.answer = self.fault = None
        try:
            self.answer = super().request(*args, **{**options, "allow_redirects": False})
        except requests.RequestException as exc:
            self.fault = exc
            raise
        return self.answer


class OtlpSender(anyio.AsyncContextManagerMixin):
    """Sends spans to one collector, to be used in `async with`. Entering it sends an empty request,
    so that a wrong URL is found at once."""

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = 300.0,
        timeout_s: float = _TIMEOUT_S,
        backoff: Backoff = Backoff(first_s=0.5, max_wait_s=30.0),  # noqa: B008  # frozen
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`url` is the collector's endpoint, with or without /v1/traces; `timeout_s` bounds one
        call of the exporter, with its own retries. Raises CollectorError."""
        self.url = traces_url(url)
        self.num_requests = 0  # that were accepted
        self._patience_s = patience_s
        self._timeout_s = timeout_s
        self._backoff = backoff
        self._headers = headers_in(environment)
        self._rng = Random()
        self._session = _Session()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        # What it would print is in our errors and warnings.
        logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
        self._exporter = OTLPSpanExporter(
            self.url,
            headers=self._headers,
            timeout=self._timeout_s,
            compression=Compression.Gzip,
            session=self._session,
        )
        try:
            await anyio.to_thread.run_sync(self._greet)
            if (why := self._refusal()) is not None and not self._is_busy:
                raise CollectorError(f"{self.url}: {why}")
            yield self
        finally:
            self._exporter.shutdown()  # type: ignore[no-untyped-call]  # it has no annotations

    async def send(self, request: SpanRequest) -> None:
        """Send spans until they are accepted. Raises CollectorError."""
        began, attempt = time.monotonic(), 0
        while True:
            attempt += 1
            await anyio.to_thread.run_sync(self._exporter.export, request, abandon_on_cancel=True)
            if (why := self._refusal()) is None:
                break
            waited = time.monotonic() - began
            if not (self._is_busy or self._session.fault is not None):
                raise CollectorError(f"{self.url}: {why}")
            wait_s = self._wait_s(attempt)
            if waited + wait_s > self._patience_s:
                raise CollectorError(
                    f"{self.url}: {why}; given up after {waited:.0f} s and {attempt} attempts"
                )
            _log.warning("otlp_retry", url=self.url, why=why, wait_s=round(wait_s, 2))
            await anyio.sleep(wait_s)
        self.num_requests += 1
        assert self._session.answer is not None
        if partly := refusal_in(self._session.answer.content):
            _log.warning("otlp_partly_refused", url=self.url, why=partly)

    def _greet(self) -> None:
        """Send an empty request, once: the exporter would wait for a collector that is away."""
        headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
        try:
            self._session.post(
                self.url,
                data=gzip.compress(b""),
                headers=headers | self._headers,
                timeout=self._timeout_s,
            )
        except requests.RequestException:
            return  # the session remembers it

    @property
    def _is_busy(self) -> bool:
        answer = self._session.answer
        return answer is not None and answer.status_code in _BUSY

    def _refusal(self) -> str | None:
        """Why the last request was not accepted; None: it was."""
        answer = self._session.answer
        if answer is None:
            return f"the collector cannot be reached: {_fault_of(self._session.fault)}"
        if answer.status_code == 200:
            return None
        if self._is_busy:
            return f"the collector is busy (status {answer.status_code})"
        text = shorten(answer.content.decode("utf-8", "replace"), 200)
        status = answer.status_code
        return f"the collector refused the spans (status {status}): {text or 'no reason given'}"

    def _wait_s(self, attempt: int) -> float:
        """The wait before the next attempt: the collector's own, else a growing one."""
        if self._session.answer is not None:
            named = {name.lower(): value for name, value in self._session.answer.headers.items()}
            if (wait_s := requested_wait(named, time.time())) is not None:
                return wait_s
        return self._rng.uniform(0.0, self._backoff.ceiling(attempt))


def _fault_of(fault: BaseException | None) -> str:
    """The first cause of a connection's failure, in the system's words."""
    found: BaseException | None = fault
    while found is not None:
        if isinstance(found, OSError) and found.strerror:
            return found.strerror.lower()
        inner = found.__cause__ or found.__context__
        reasons = [one for one in found.args if isinstance(one, BaseException)]
        found = inner or next(iter(reasons), None) or getattr(found, "reason", None)
    return "it did not answer in time" if isinstance(fault, requests.Timeout) else str(fault)


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
