"""Requests to one chat endpoint, one attempt at a time.

Promises:
- A refusal delays the request that was refused, and no other. Only where a server refuses more than
  every tenth request, fewer requests are in flight at once (see harness.model_servers.in_flight).
- Where the server is gone (see harness.model_servers.outage), a request raises ModelOutageError.

The caller decides whether a failed attempt is followed by another one, because it may have a better
request by then; this module decides how long to wait before it.
"""

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Literal, Self

import anyio
import msgspec
import structlog

from rehearsal_room.harness.chat.completions import read_completion, read_error
from rehearsal_room.harness.chat.request_metrics import (
    LatencyHistogram,
    RequestMetrics,
    RequestObserver,
)
from rehearsal_room.harness.chat.retry import AttemptFailure, Backoff, wait_before_retry
from rehearsal_room.harness.chat.transport import (
    Endpoint,
    HttpResponse,
    LeanTransport,
    ModelTransport,
    TransportError,
    proxy_for,
    shown_proxy,
)
from rehearsal_room.harness.chat.transport_aiohttp import AiohttpTransport
from rehearsal_room.harness.core.errors import ModelOutageError, SettingsError
from rehearsal_room.harness.core.messages import Reply, Usage
from rehearsal_room.harness.core.terminal_text import plural
from rehearsal_room.harness.model_servers.event_stream import EventStream, StreamLimits
from rehearsal_room.harness.model_servers.in_flight import InFlightLimit
from rehearsal_room.harness.model_servers.outage import OutageDetector
from rehearsal_room.scenarios.distribution import missing_package

ClientName = Literal["lean", "package"]
_log = structlog.get_logger(__name__)


class ChatClient(anyio.AsyncContextManagerMixin):
    """Sends the requests of all agents to one endpoint. An async context manager that owns its
    transport.

    At most `concurrency` requests are in flight. `name` is the server's in the message of an
    outage, which is after `max_connection_failures` (None: never). `now` returns Unix seconds, for
    a server's `Retry-After` date.
    """

    def __init__(
        self,
        transport: ModelTransport,
        backoff: Backoff,
        *,
        rng: Random,
        now: Callable[[], float] = time.time,
        concurrency: int = 1024,
        name: str = "the model server",
        max_connection_failures: int | None = None,
    ) -> None:
        self._transport = transport
        self._backoff = backoff
        self._rng = rng
        self._now = now
        self._name = name
        self._limit = InFlightLimit(concurrency)
        self._waiting: deque[_Waiter] = deque()
        self._outage = OutageDetector(max_connection_failures)
        self._counts = _Counts()
        self._metrics = RequestMetrics()
        self._observer: RequestObserver | None = None

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._transport:
            yield self

    def observe(self, observer: RequestObserver) -> None:
        """Let an observer see every attempt from now on. It decides how much the server is asked:
        refusals no longer lower the number of requests in flight."""
        self._observer = observer

    def wrap_transport(self, wrap: Callable[[ModelTransport], ModelTransport]) -> None:
        """Send all requests through what `wrap` makes of the transport; before it is open."""
        self._transport = wrap(self._transport)

    def statistics(self) -> dict[str, float]:
        """Counts since the start: requests, retries, rate_limited, failed, waited_s (all
        waits before retries, summed over callers), prompt_tokens, completion_tokens, paused_s (the
        part of waited_s after rate limits), lowest_limit (the fewest requests that overload left to
        be in flight at once), and those of `RequestMetrics.statistics`."""
        return {
            **msgspec.structs.asdict(self._counts),
            "lowest_limit": self._limit.lowest,
            **self._metrics.statistics(),
        }

    async def ask(
        self, body: bytes, attempt: int, stream: StreamLimits | None = None
    ) -> Reply | AttemptFailure:
        """Make one attempt and return the reply; `attempt` counts from 1, and `stream` has the
        limits of a reply that is asked for as a stream (None: it is not). Raises
        ModelOutageError."""
        content = await self.post(body, attempt, stream)
        return content if isinstance(content, AttemptFailure) else self.read(content, attempt)

    def read(self, content: bytes, attempt: int) -> Reply | AttemptFailure:
        """The reply in the body of a response of status 200, whose tokens are counted."""
        outcome = read_completion(content, attempts=attempt)
        if isinstance(outcome, Reply):
            self.count(outcome.usage)
        return outcome

    async def post(
        self, body: bytes, attempt: int, stream: StreamLimits | None = None
    ) -> bytes | AttemptFailure:
        """Make one attempt, once there is room for it, and return the body of a response of status
        200, put together where it was streamed; for the arguments see `ask`. Raises
        ModelOutageError."""
        observer = self._observer
        if observer is None:
            return await self._post(body, stream)
        observer.asked()
        began = time.perf_counter()
        content: bytes | AttemptFailure | None = None
        try:
            content = await self._post(body, stream)
        finally:
            if isinstance(content, bytes):
                observer.replied(time.perf_counter() - began)
            elif content is not None and content.is_too_much:
                observer.refused(attempt)
            else:
                observer.failed()
        return content

    async def _post(self, body: bytes, stream: StreamLimits | None) -> bytes | AttemptFailure:
        limit = self._limit
        if limit.is_full or self._waiting:
            generation = await self._wait_for_room()
        else:
            generation = limit.begin()
        self._counts.requests += 1
        began = self._metrics.begin()
        try:
            if stream is None:
                response = await self._transport.post(body)
            else:
                response = await self._streamed(body, stream, began)
        except TransportError as exc:
            failure = AttemptFailure(exc.kind, str(exc), was_sent=exc.was_sent)
            self._detect_outage(failure)
            return failure
        finally:
            self._metrics.end(began)
            limit.end()
            if self._waiting:
                self._fill_room()
        self._outage.answered()
        if not 200 <= response.status < 300:  # some gateways answer with 201
            failure = read_error(response.status, response.headers, response.body)
            if failure.is_overload and self._observer is None and limit.refused(generation):
                _log.info("requests_reduced", max_in_flight=limit.limit)
            return failure
        limit.answered()
        self._metrics.latency.add(time.perf_counter() - began)
        return response.body

    async def _streamed(self, body: bytes, limits: StreamLimits, began: float) -> HttpResponse:
        """The response to a request for a stream; what was streamed is put together. Raises
        TransportError."""
        with anyio.CancelScope() as scope:
            watch = _StreamWatch(scope, limits, self._metrics.first_part, began)
            response = await self._transport.post(body, watch)
        events = watch.events
        if scope.cancelled_caught:
            if not events.is_over_limit:
                fault = f"nothing arrived for {limits.stall_s:g} s in the middle of the reply"
                raise TransportError("timeout", fault)
            return HttpResponse(200, {}, events.completion(cut=True))
        if not events.is_stream or response.status >= 300:
            return response
        if watch.num_bytes != len(response.body):  # a fault on purpose
            return response
        completion = events.completion()
        if events.fault or not (events.has_ended or events.has_failed):
            fault = events.fault or "the stream ended before the reply did"
            raise TransportError("malformed", fault)
        return HttpResponse(200, response.headers, completion)

    def count(self, usage: Usage) -> None:
        """Add the tokens of a usable response to the statistics."""
        self._counts.prompt_tokens += usage.prompt_tokens
        self._counts.completion_tokens += usage.completion_tokens

    async def wait_to_retry(self, failure: AttemptFailure, attempt: int) -> bool:
        """Whether to make another attempt, after the wait before it."""
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
            counts.paused_s += wait
            _log.info("rate_limited", pause_s=round(wait, 3), attempt=attempt)
        else:
            _log.info("request_retried", reason=reason, attempt=attempt, wait_s=round(wait, 3))
        counts.waited_s += wait
        await anyio.sleep(wait)
        counts.retries += 1
        return True

    def _detect_outage(self, failure: AttemptFailure) -> None:
        """Raise ModelOutageError when this is one connection failure too many."""
        if failure.is_connection and self._outage.failed(anyio.current_time()):
            raise ModelOutageError(
                f"{self._name}: {plural(self._outage.num_failures, 'connection failure')} in a row"
                f" ({failure.message})"
            )

    async def _wait_for_room(self) -> int:
        """Wait until the limit lets one more request begin; return its generation."""
        waiter = _Waiter()
        self._waiting.append(waiter)
        try:
            await waiter.admitted.wait()
        except BaseException:
            if waiter.generation is None:
                self._waiting.remove(waiter)
            else:  # it was admitted and cancelled in the same moment
                self._limit.end()
                self._fill_room()
            raise
        assert waiter.generation is not None
        return waiter.generation

    def _fill_room(self) -> None:
        """Let waiting requests begin, the one that waits longest first."""
        while self._waiting and not self._limit.is_full:
            waiter = self._waiting.popleft()
            waiter.generation = self._limit.begin()
            waiter.admitted.set()


class _StreamWatch:
    """Puts one reply together while it arrives, and cancels `scope` where it has too many tokens,
    or stalls. Heartbeats count as signs of life."""

    __slots__ = ("_began", "_first_part", "_scope", "_stall_s", "events", "num_bytes")

    def __init__(
        self,
        scope: anyio.CancelScope,
        limits: StreamLimits,
        first_part: LatencyHistogram,
        began: float,
    ) -> None:
        self._scope = scope
        self._stall_s = limits.stall_s
        self._first_part: LatencyHistogram | None = first_part
        self._began = began
        self.events = EventStream(limits.max_tokens)
        self.num_bytes = 0

    def feed(self, data: bytes) -> None:
        events = self.events
        self.num_bytes += len(data)
        events.feed(data)
        if events.has_reply:
            if self._first_part is not None:
                self._first_part.add(time.perf_counter() - self._began)
                self._first_part = None
            if events.is_over_limit:
                self._scope.cancel()
            else:
                self._scope.deadline = anyio.current_time() + self._stall_s


class _Waiter:
    """A request that waits until fewer are in flight."""

    __slots__ = ("admitted", "generation")

    def __init__(self) -> None:
        self.admitted = anyio.Event()
        self.generation: int | None = None  # None: not admitted yet


class _Counts(msgspec.Struct):
    requests: int = 0
    retries: int = 0
    rate_limited: int = 0
    failed: int = 0
    waited_s: float = 0.0
    paused_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0


def transport_of(client: ClientName, endpoint: Endpoint) -> ModelTransport:
    """The transport that a setting names. Raises SettingsError."""
    proxy = proxy_for(endpoint.url)
    if proxy and "://" in proxy and not proxy.lower().startswith(("http://", "https://")):
        raise SettingsError(
            f"client: the environment names the proxy {shown_proxy(proxy)}, and only HTTP proxies"
            " are supported; name the server in NO_PROXY, or unset the proxy"
        )
    if client == "lean":
        return AiohttpTransport(endpoint) if proxy else LeanTransport(endpoint)
    try:  # the package is optional, and takes a second to import
        from rehearsal_room.harness.chat.transport_openai import PackageTransport
    except ModuleNotFoundError as exc:
        raise SettingsError(missing_package("client: 'package'", exc, "openai")) from exc
    return PackageTransport(endpoint)
