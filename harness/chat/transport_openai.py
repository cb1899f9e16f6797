"""The openai package as transport: its authentication, proxies, TLS and errors.

It costs about 6 ms of CPU a request, a hundred times the lean transport, so it is the choice for
endpoints that need the package, not for throughput. Imported by name when it is chosen: it is
optional and heavy.
"""

from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
import openai

from harness.chat.transport import Answer, Endpoint, Unreachable

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class PackageTransport:
    """openai.AsyncOpenAI without its own retries, which the policy counts itself."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._timeout_s = endpoint.timeout_s
        self._slots = anyio.Semaphore(endpoint.concurrency)
        self._keyless = endpoint.api_key is None
        self._client = openai.AsyncOpenAI(
            base_url=endpoint.base_url,
            api_key=endpoint.api_key or "none",  # the package insists on one
            organization=endpoint.organization,
            project=endpoint.project,
            timeout=endpoint.timeout_s,
            max_retries=0,
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._client.__aexit__(kind, exc, trace)

    async def post(self, body: bytes) -> Answer:
        """One attempt. The package's timeouts are for each read, ours is for the whole."""
        fields = _decode(body)
        model, messages = fields.pop("model"), fields.pop("messages")
        headers = {"Authorization": openai.Omit()} if self._keyless else None
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
                raise Unreachable("timeout", f"no answer within {self._timeout_s:g} s") from exc
            except openai.APIConnectionError as exc:
                raise Unreachable("connection", f"{exc} {exc.__cause__ or ''}".strip()) from exc
        return Answer(response.status_code, response.headers, response.content)
