"""Requests to one chat endpoint, one attempt at a time; a rate limit pauses all of them together.

The caller decides whether a failed attempt is followed by another one, because it may have a better
request by then; this module decides how long to wait before it.
"""

import importlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Literal, Self

import anyio
import msgspec
import structlog

from harness.chat.request_metrics import RequestMetrics
from harness.chat.retry import Backoff, Failure, Pause, wait_before_retry
from harness.chat.transport import (
    Endpoint,
    LeanTransport,
    Transport,
    TransportError,
    proxy_for,
)
from harness.chat.wire import read_completion, read_error
from harness.core.errors import SettingsError
from harness.core.messages import Reply, Usage
from scenarios.distribution import missing_package

ClientName = Literal["lean", "package"]
_log = structlog.get_logger(__name__)


class ChatClient(anyio.AsyncContextManagerMixin):
    """Sends the requests of all agents to one endpoint. An async context manager that owns its
    transport.

    `now` returns Unix seconds, for a server's `Retry-After` date.
    """

    def __init__(
        self,
        transport: Transport,
        backoff: Backoff,
        *,
        rng: Random,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._transport = transport
        self._backoff = backoff
        self._rng = rng
        self._now = now
        self._pause = Pause()
        self._counts = _Counts()
        self._metrics = RequestMetrics()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._transport:
            yield self

    def statistics(self) -> dict[str, float]:
        """Return counts since the start: requests, retries, rate_limited, failed, waited_s (backoff
        and pauses, summed over all callers), prompt_tokens, completion_tokens, paused_s (in which
        rate limits let no request begin), and those of `RequestMetrics.statistics`."""
        return {
            **msgspec.structs.asdict(self._counts),
            "paused_s": self._pause.total_s,
            **self._metrics.statistics(),
        }

    async def ask(self, body: bytes, attempt: int) -> Reply | Failure:
        """Make one attempt, after any pause, and return the reply; `attempt` counts from 1."""
        content = await self.post(body)
        if isinstance(content, Failure):
            return content
        outcome = read_completion(content, attempts=attempt)
        if isinstance(outcome, Reply):
            self.count(outcome.usage)
        return outcome

    async def post(self, body: bytes) -> bytes | Failure:
        """Make one attempt, after any pause, and return the body of a response of status 200."""
        if self._pause.may_be_active:
            await self._wait_for_pause()
        self._counts.requests += 1
        began = self._metrics.begin()
        try:
            response = await self._transport.post(body)
        except TransportError as exc:
            return Failure(exc.kind, str(exc), was_sent=exc.was_sent)
        finally:
            self._metrics.end(began)
        if response.status != 200:
            return read_error(response.status, response.headers, response.body)
        self._metrics.latency.add(time.perf_counter() - began)
        return response.body

    def count(self, usage: Usage) -> None:
        """Add the tokens of a usable response to the statistics."""
        self._counts.prompt_tokens += usage.prompt_tokens
        self._counts.completion_tokens += usage.completion_tokens

    async def wait_to_retry(self, failure: Failure, attempt: int) -> bool:
        """Return whether to make another attempt, after the wait before it. After a rate limit all
        callers wait, inside `ask` and `post`."""
        counts = self._counts
        counts.rate_limited += failure.is_rate_limit
        wait = wait_before_retry(
            failure, attempt, backoff=self._backoff, rng=self._rng, now=self._now()
        )
        reason = failure.status or failure.kind
        if wait is None:
            counts.failed += 1
            _log.info("request_failed", reason=reason, attempt=attempt)
            return False
        if failure.is_rate_limit:
            if self._pause.extend(anyio.current_time(), wait):  # once for many requests
                _log.info("rate_limited", pause_s=round(wait, 3), attempt=attempt)
        else:
            _log.info("request_retried", reason=reason, attempt=attempt, wait_s=round(wait, 3))
            await self._sleep(wait)
        counts.retries += 1
        return True

    async def _wait_for_pause(self) -> None:
        """Wait until no pause is active."""
        while (seconds := self._pause.remaining(anyio.current_time(), self._rng)) > 0.0:
            await self._sleep(seconds)

    async def _sleep(self, seconds: float) -> None:
        self._counts.waited_s += seconds
        await anyio.sleep(seconds)


class _Counts(msgspec.Struct):
    requests: int = 0
    retries: int = 0
    rate_limited: int = 0
    failed: int = 0
    waited_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def transport_of(client: ClientName, endpoint: Endpoint) -> Transport:
    """Return the transport that a setting names. Raises SettingsError."""
    transport: Transport
    if client == "lean" and not proxy_for(endpoint.url):
        return LeanTransport(endpoint)
    if client == "lean":  # by name: aiohttp takes 0.1 s to import, and only proxies need it
        module = importlib.import_module("harness.chat.transport_aiohttp")
        transport = module.AiohttpTransport(endpoint)
        return transport
    try:  # by name: the package is optional, and takes a second to import
        module = importlib.import_module("harness.chat.transport_openai")
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("client: 'package'", exc, "openai")) from exc
    transport = module.PackageTransport(endpoint)
    return transport
