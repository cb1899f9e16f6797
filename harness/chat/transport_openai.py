"""The transport over the openai package: its authentication, proxies, TLS and errors.

It costs about 6 ms of CPU a request, a hundred times the lean transport: choose it for endpoints
that need the package, not for throughput. This module is imported only when it is chosen, because
the package is optional and heavy.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import msgspec
import openai

from harness.chat.transport import Endpoint, HttpResponse, TransportError

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class PackageTransport(anyio.AsyncContextManagerMixin):
    """Sends requests by openai.AsyncOpenAI, without its own retries, which ChatClient counts."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._timeout_s = endpoint.timeout_s
        self._slots = anyio.Semaphore(endpoint.concurrency)
        self._has_key = endpoint.api_key is not None
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",  # the package requires one
            organization=endpoint.organization,
            project=endpoint.project,
            timeout=endpoint.timeout_s,
            max_retries=0,
        )

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        async with self._client:
            yield self

    async def post(self, body: bytes) -> HttpResponse:
        """Make one attempt. The package limits each read; `timeout_s` limits the whole attempt."""
        fields = _decode(body)
        model, messages = fields.pop("model"), fields.pop("messages")
        headers = None if self._has_key else {"Authorization": openai.Omit()}
        create = self._client.chat.completions.with_raw_response.create
        async with self._slots:
            try:
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
                fault = f"{exc} {exc.__cause__ or ''}".strip()
                raise TransportError("connection", fault) from exc
        return HttpResponse(response.status_code, response.headers, response.content)
