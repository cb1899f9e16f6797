"""Requests of the chat API that cannot be read, and clients that show no token."""

import json
from typing import Any

import msgspec
import pytest
from anyio.to_thread import run_sync

from rehearsal_room.envpool.server.settings import WorldServerSettings
from rehearsal_room.harness.serving.http_server import PolicyApp
from rehearsal_room.harness.tokenization.chat_tokenizer import ChatTokenizer
from tests.support.bad_clients import HOST, BadClient, status_of
from tests.support.http_app import ask
from tests.support.scripted_tokens import ScriptedTokens
from tests.support.served_models import HELLO, TOOL, card_of, served, service_of

DIGITS = b"7" * 5_000
BAD = {
    "text": b'"\xff\xfe"',
    "name": b'{"\xff": 1}',
    "digits": DIGITS,
    "negative digits": b"-" + DIGITS,
    "float": b"1e999",
    "half a pair": b'"\\ud800"',
    "depth": b"[" * 5_000 + b"]" * 5_000,
}
# In a whole request, each string "HERE" is replaced in turn by a value that cannot be read.
CALL = {"id": "HERE", "type": "function", "function": {"name": "HERE", "arguments": "HERE"}}
REQUEST = {
    "model": "HERE",
    "messages": [
        {"role": "user", "content": "HERE"},
        {"role": "user", "content": [{"type": "text", "text": "HERE"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "x", "tool_call_id": "HERE"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "t", "description": "HERE", "parameters": "HERE"}}
    ],
    "temperature": "HERE",
    "top_p": "HERE",
    "max_tokens": "HERE",
    "seed": "HERE",
    "stream": "HERE",
    "stream_options": "HERE",
    "tool_choice": "HERE",
    "response_format": {"type": "HERE"},
    "rehearsal": {"history": "HERE", "dialect": "HERE"},
    "unknown": "HERE",
}


def with_one(value: Any, bad: bytes) -> list[bytes]:
    """The value as JSON, once for each place of the bad one; the other places have a plain text."""
    parts = json.dumps(value).encode().split(b'"HERE"')
    return [b'"x"'.join(parts[:at]) + bad + b'"x"'.join(parts[at:]) for at in range(1, len(parts))]


def simplest(field: str, value: Any) -> Any:
    """A request that is valid but for one field."""
    return {**HELLO, "tools": [TOOL], field: value}


@pytest.mark.parametrize("bad", BAD)
async def test_what_cannot_be_read_is_refused(chat: ChatTokenizer, bad: str) -> None:
    """Wherever a request has bytes that are not text, or a number that Python does not read: the
    answer is 400 with the reason, or 200 where the field does not matter; never 500."""
    backend = ScriptedTokens(chat, ["ok"] * 100)
    app = PolicyApp(service_of(backend, chat, card_of(chat)), WorldServerSettings())
    bodies = [BAD[bad]]
    for field, value in REQUEST.items():
        bodies += with_one(simplest(field, value), BAD[bad])
    for body in bodies:
        status, content = await ask(app, "POST", "/v1/chat/completions", body)
        assert status in (200, 400, 404), (body[:300], content)
        if status != 200:
            assert isinstance(content["error"]["message"], str)
    arguments = msgspec.json.encode(BAD[bad].decode("latin-1"))  # a text that is not valid JSON
    called = {**CALL, "id": "c", "function": {"name": "t", "arguments": "HERE"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "content": "x", "tool_call_id": "c"},
    ]
    (body,) = with_one(simplest("messages", messages), arguments)
    status, content = await ask(app, "POST", "/v1/chat/completions", body)
    assert status == 200, content


async def test_no_body_is_read_without_the_token(chat: ChatTokenizer) -> None:
    """A client without the token is refused when its headers are complete, not when its body is."""
    service = service_of(ScriptedTokens(chat, []), chat, card_of(chat))

    def half_a_body(port: int) -> int:
        with BadClient(port) as client:
            head = b"POST /v1/chat/completions HTTP/1.1\r\n" + HOST
            client.send(head + b"content-length: 1000000\r\n\r\n{")
            return status_of(client.reply())

    async with served(service, WorldServerSettings(token="s3")) as url:
        port = int(url.removesuffix("/v1").rpartition(":")[2])
        assert await run_sync(half_a_body, port) == 401
