"""A proxy on loopback between clients and a model server, which keeps what goes through it.

It adds fields to chat requests on their way. With `return_token_ids` vLLM returns the token ids of
the prompt that it made of the messages, and of the reply before its tool parser read it, so what a
client logged can be compared with what the model wrote.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web
from anyio import AsyncContextManagerMixin

from rehearsal_room.harness.vllm.routes import root_of

_MOST_BYTES = 64 * 2**20


class Exchange(msgspec.Struct, frozen=True):
    """One chat request as the client sent it, and the answer as the server gave it."""

    request: bytes
    answer: dict[str, Any]

    @property
    def calls(self) -> list[tuple[str, Any]]:
        """Names and arguments of the calls that the server's tool parser found."""
        sent = self.answer["choices"][0]["message"].get("tool_calls") or ()
        return [(one["function"]["name"], _decoded(one["function"]["arguments"])) for one in sent]

    @property
    def text(self) -> str:
        """The text that the server left of the reply."""
        return self.answer["choices"][0]["message"].get("content") or ""

    @property
    def prompt_ids(self) -> list[int]:
        """The ids of the prompt."""
        return self.answer["prompt_token_ids"]

    @property
    def reply_ids(self) -> list[int]:
        """The ids that the model sampled."""
        return self.answer["choices"][0]["token_ids"]


def _decoded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


class Recorder(AsyncContextManagerMixin):
    """The proxy, which listens inside its `async with`. `server_url` is the server's base URL, and
    `base_url` its own. `is_forced`: requests with tools must be answered by a call."""

    def __init__(self, server_url: str) -> None:
        self._root = root_of(server_url)
        self.base_url = ""
        self.is_forced = False
        self._exchanges: list[Exchange] = []

    def take(self) -> list[Exchange]:
        """The exchanges since the last call, in the order of the answers. Each had status 200."""
        taken, self._exchanges = self._exchanges, []
        return taken

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        app = web.Application(client_max_size=_MOST_BYTES)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = web.AppRunner(app)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(timeout=timeout) as self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.base_url = f"http://{host}:{port}/v1"
            try:
                yield self
            finally:
                await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.Response:
        sent = await request.read()
        body, is_chat = sent, request.path.endswith("/chat/completions")
        if is_chat:
            body = self._with_fields(sent)
        async with self._session.request(
            request.method,
            self._root + request.path_qs,
            data=body or None,
            headers={"Content-Type": request.content_type},
        ) as response:
            answer = await response.read()
            if is_chat and response.status == 200:
                self._exchanges.append(Exchange(sent, json.loads(answer)))
            return web.Response(
                body=answer, status=response.status, content_type=response.content_type
            )

    def _with_fields(self, sent: bytes) -> bytes:
        fields = json.loads(sent) | {"return_token_ids": True}
        if self.is_forced and fields.get("tools"):
            fields["tool_choice"] = "required"
        return json.dumps(fields).encode()
