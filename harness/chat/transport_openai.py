"""The transport over the openai package: its authentication, proxies, TLS and errors.

It costs about 6 ms of CPU a request, a hundred times the lean transport: choose it for endpoints
that need the package, not for throughput. This module is imported only when it is chosen, because
the package is optional and heavy.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, Self

import anyio
import msgspec
import openai

from rehearsal_room.harness.chat.answer_limits import AnswerBudget, AnswerMeter
from rehearsal_room.harness.chat.http1 import BodyWatch, coding_fault
from rehearsal_room.harness.chat.transport import (
    Endpoint,
    HttpResponse,
    TransportError,
    connection_fault,
    proxy_fault,
    proxy_for,
)

_watch: ContextVar[BodyWatch | None] = ContextVar("_watch", default=None)
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class PackageTransport(anyio.AsyncContextManagerMixin):
    """Sends requests by openai.AsyncOpenAI, without its own retries, which ChatClient counts."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._timeout_s = endpoint.timeout_s
        self._slots = anyio.Semaphore(endpoint.concurrency)
        self._budget = AnswerBudget(endpoint.answers)
        self._proxy = proxy_for(endpoint.base_url)
        self._has_key = endpoint.api_key is not None
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",  # the package requires one
            organization=endpoint.organization,
            project=endpoint.project,
            timeout=endpoint.timeout_s,
            max_retries=0,
            default_headers={"Accept-Encoding": "identity"},
            http_client=openai.DefaultAsyncHttpxClient(
                event_hooks={"response": [self._limit]}, follow_redirects=False
            ),
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            yield self

    async def post(self, body: bytes, watch: BodyWatch | None = None) -> HttpResponse:
        """Make one attempt. The package limits each read; `timeout_s` limits the whole attempt."""
        fields = _decode(body)
        model, messages = fields.pop("model"), fields.pop("messages")
        headers = None if self._has_key else {"Authorization": openai.Omit()}
        create = self._client.chat.completions.with_raw_response.create
        async with self._slots:
            try:
                _watch.set(watch)  # of this task; its response comes through `_limit`
                with anyio.fail_after(self._timeout_s):
                    raw = await create(
                        model=model, messages=messages, extra_body=fields, extra_headers=headers
                    )
                response = raw.http_response
            except openai.APIStatusError as exc:
                response = exc.response
            except (openai.APITimeoutError, TimeoutError) as exc:
                raise TransportError("timeout", f"no answer within {self._timeout_s:g} s") from exc
            except openai.APIConnectionError as exc:
                raise _transport_error(exc, self._proxy) from exc
            except _RefusedError as exc:
                raise TransportError("malformed", str(exc)) from exc
        return HttpResponse(response.status_code, response.headers, response.content)

    async def _limit(self, response: Any) -> None:
        """Limit a response, before its body is read. Raises _RefusedError."""
        if (fault := coding_fault(response.headers.get("content-encoding", ""))) is not None:
            raise _RefusedError(fault)
        kinds = type(response.stream).__mro__
        base = next(kind for kind in kinds if kind.__name__ == "AsyncByteStream")
        watch = _watch.get() if 200 <= response.status_code < 300 else None
        meter = AnswerMeter(self._budget)
        response.stream = _limited_stream(base)(response.stream, meter, watch)


class _RefusedError(Exception):
    """An answer is too long, or compressed: a small compressed one can become huge."""


@cache
def _limited_stream(base: Any) -> Any:
    """The class of a body of limited length. `base` is what the package's HTTP client requires; it
    is httpx's or httpx2's, by the version of the package."""

    class LimitedStream(base):  # type: ignore[misc]  # a class that is known at run time only
        def __init__(self, stream: Any, meter: AnswerMeter, watch: BodyWatch | None) -> None:
            self._stream = stream
            self._meter = meter
            self._watch = watch

        async def __aiter__(self) -> AsyncIterator[bytes]:
            length = 0
            async for piece in self._stream:
                length += len(piece)
                if (fault := self._meter.fault_at(length)) is not None:
                    raise _RefusedError(fault)
                if self._watch is not None:
                    self._watch.feed(piece)
                yield piece

        async def aclose(self) -> None:
            self._meter.end()
            await self._stream.aclose()

    return LimitedStream


def _transport_error(exc: openai.APIConnectionError, proxy: str | None) -> TransportError:
    """The error for a connection that failed, or an answer that was refused."""
    causes = list(_causes_of(exc))
    for cause in causes:
        if isinstance(cause, _RefusedError):
            return TransportError("malformed", str(cause))
    was_sent = all(type(cause).__name__ != "ConnectError" for cause in causes)
    fault = next((cause for cause in reversed(causes) if isinstance(cause, OSError)), None)
    text = f"{exc} {exc.__cause__ or ''}".strip() if fault is None else connection_fault(fault)
    if proxy is not None and not was_sent:
        return TransportError("proxy", proxy_fault(proxy, text), was_sent=False)
    return TransportError("connection", text, was_sent=was_sent)


def _causes_of(exc: BaseException) -> Iterator[BaseException]:
    """The exceptions that led to this one, the newest first; of a group, its first one."""
    cause: BaseException | None = exc
    while cause is not None:
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        else:
            cause = cause.__cause__ or cause.__context__
