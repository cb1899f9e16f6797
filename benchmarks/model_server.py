"""Serve an OpenAI-compatible model that answers at once, for benchmarks, in a separate process.

    python -m benchmarks.model_server --calls 10 --script oracle.jsonl

It prints the base URL in its first line and serves until its standard input is closed. Every
episode gets `--calls` tool calls, one for each turn, then the answer. The turn follows from the
request alone: one past the number in the newest tool call's id, so truncated histories work.

Without a script file it calls the first tool that needs no arguments. A line of the file is

    {"when": "cancel order 17", "calls": [{"name": "get_order", "arguments": {"id": 17}}],
     "answer": "Done."}

The first line whose `when` occurs in the request's first user message is used: its calls, again
from the first when there are fewer than `--calls`, then its answer. `--calls 0` makes each line's
calls once.

With `--latency` each reply comes after so many seconds. With `--refused` that share of the requests
gets status 429 at once, with `Retry-After: 1`; which ones follows from the request and from how
often it came before.

With `--capacity` the server has a load that it likes best: with more requests at once, all of them
take longer, by the square of their number, so that it answers fewer per second. With `--most` it
refuses, with status 429 and no `Retry-After`, what comes while so many are there.

It speaks HTTP/1.1 with keep-alive and Content-Length only, so it is not a server for anything else.
"""

import asyncio
import re
import sys
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any, cast

import click
import msgspec
import uvloop

from benchmarks.options import SETTINGS, help_text

_CALL_NUMBER = re.compile(r"\d+")
_LISTING = b'{"object":"list","data":[{"id":"instant"}]}'
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class ScriptedCall(msgspec.Struct, frozen=True):
    """One call of a script."""

    name: str
    arguments: dict[str, Any] = {}


class Script(msgspec.Struct, frozen=True):
    """The replies of one episode; `when` is a text that its first user message contains."""

    when: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    answer: str = "Done."


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: Any = None
    tool_call_id: str | None = None


class _Request(msgspec.Struct, frozen=True):
    messages: list[_Message]
    tools: msgspec.Raw = msgspec.Raw(b"[]")


class _Function(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] = {}


class _Tool(msgspec.Struct, frozen=True):
    function: _Function


class Oracle:
    """Answers requests by scripts (none: it calls tools). Raises LookupError when none applies."""

    def __init__(self, scripts: tuple[Script, ...], num_calls: int) -> None:
        self._scripts = scripts
        self._num_calls = num_calls
        self._decoder = msgspec.json.Decoder(_Request)
        self._default: dict[bytes, Script] = {}  # by the request's `tools`

    def answer(self, body: bytes) -> bytes:
        """The response's body for a request's body."""
        request = self._decoder.decode(body)
        script = self._script_for(request)
        turn = _turn(request.messages)
        total = self._num_calls or len(script.calls)
        if turn >= total or not script.calls:
            message: dict[str, Any] = {"role": "assistant", "content": script.answer}
        else:
            call = script.calls[turn % len(script.calls)]
            arguments = msgspec.json.encode(call.arguments).decode()
            function = {"name": call.name, "arguments": arguments}
            calls = [{"id": f"call-{turn}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        finish = "tool_calls" if "tool_calls" in message else "stop"
        return msgspec.json.encode(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 0,
                "model": "instant",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": len(body) // 4, "completion_tokens": 20},
            }
        )

    def _script_for(self, request: _Request) -> Script:
        if not self._scripts:
            return self._default_script(bytes(request.tools))
        text = next((str(m.content) for m in request.messages if m.role == "user"), "")
        for script in self._scripts:
            if script.when in text:
                return script
        raise LookupError(f"no line of the script has a 'when' that occurs in {text[:200]!r}")

    def _default_script(self, tools: bytes) -> Script:
        script = self._default.get(tools)
        if script is None:
            functions = [tool.function for tool in msgspec.json.decode(tools, type=list[_Tool])]
            free = [f for f in functions if not f.parameters.get("required")]
            if functions and not free:
                raise LookupError("every tool of the request needs arguments: pass --script")
            script = Script(calls=tuple(ScriptedCall(f.name) for f in free[:1]))
            self._default[tools] = script
        return script


def _turn(messages: list[_Message]) -> int:
    """The number of the turn that a request asks for.

    Example: the newest message answers `call-4` -> 5; no message answers a call -> 0
    """
    for message in reversed(messages):
        if message.tool_call_id is not None:
            number = _CALL_NUMBER.search(message.tool_call_id)
            if number is None:
                return sum(m.tool_call_id is not None for m in messages)
            return int(number.group()) + 1
    return 0


class Behaviour:
    """How the server answers, beside what. `latency` is in seconds, `refused` a share, `capacity`
    and `most` are requests at once (0: it has no such limit)."""

    def __init__(
        self,
        oracle: Oracle,
        *,
        latency: float = 0.0,
        refused: float = 0.0,
        capacity: int = 0,
        most: int = 0,
    ) -> None:
        self.oracle = oracle
        self._latency = latency
        self._refused = refused
        self._capacity = capacity
        self._most = most
        self._num_there = 0  # requests
        self._asked: Counter[bytes] = Counter()  # requests by their digest

    @property
    def is_full(self) -> bool:
        """Whether a further request gets status 429."""
        return bool(self._most) and self._num_there >= self._most

    def begin(self) -> float:
        """Take a request; return the seconds until its reply."""
        self._num_there += 1
        if not self._capacity:
            return self._latency
        return self._latency * max(1.0, self._num_there / self._capacity) ** 2

    def end(self) -> None:
        """A request is answered."""
        self._num_there -= 1

    def refuses(self, body: bytes) -> bool:
        """Whether this request gets status 429."""
        if not self._refused:
            return False
        digest = blake2b(body, digest_size=8).digest()
        self._asked[digest] += 1
        drawn = blake2b(digest + b"%d" % self._asked[digest], digest_size=8).digest()
        return int.from_bytes(drawn) < self._refused * 2**64


class _Connection(asyncio.Protocol):
    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's class does not pass isinstance

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while (head := received.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(received, 0, head)
            end = head + 4 + (int(length.group(1)) if length else 0)
            if len(received) < end:
                return
            body, is_listing = bytes(received[head + 4 : end]), received.startswith(b"GET ")
            del received[:end]
            self._reply(None if is_listing else body)

    def _reply(self, body: bytes | None) -> None:
        """Answer a request; None: it asks for the list of models."""
        behaviour = self._behaviour
        if body is not None and behaviour.refuses(body):
            self._write(b"429 Too Many Requests\r\nRetry-After: 1", b"{}")
            return
        if body is not None and behaviour.is_full:
            self._write(b"429 Too Many Requests", b"{}")
            return
        try:
            answer = _LISTING if body is None else behaviour.oracle.answer(body)
            status, content = b"200 OK", answer
        except (LookupError, msgspec.MsgspecError) as exc:
            status = b"400 Bad Request"
            content = msgspec.json.encode({"error": {"message": str(exc)}})
        if body is None or not (seconds := behaviour.begin()):
            self._write(status, content)
            return
        asyncio.get_running_loop().call_later(seconds, self._finish, status, content)

    def _finish(self, status: bytes, content: bytes) -> None:
        self._behaviour.end()
        self._write(status, content)

    def _write(self, status: bytes, content: bytes) -> None:
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(content), content)
        )


async def serve(behaviour: Behaviour) -> None:
    """Serve on a free port of the loopback until standard input is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(behaviour), "127.0.0.1", 0, backlog=4096)
    async with server:
        port = server.sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}/v1", flush=True)
        await loop.run_in_executor(None, sys.stdin.buffer.read)


def read_scripts(path: Path) -> tuple[Script, ...]:
    """The scripts of a file, one for each line."""
    return tuple(msgspec.json.Decoder(Script).decode_lines(path.read_bytes()))


@click.command(help=help_text(__doc__), context_settings=SETTINGS)
@click.option("--calls", type=click.IntRange(min=0), default=10, help="Tool calls of an episode.")
@click.option(
    "--script",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the replies, one JSON object in each line.",
)
@click.option("--latency", type=click.FloatRange(min=0), default=0.0, help="Seconds of each reply.")
@click.option("--refused", type=click.FloatRange(0, 1), default=0.0, help="Share of status 429.")
@click.option("--capacity", type=click.IntRange(min=0), default=0, help="Best number at once.")
@click.option("--most", type=click.IntRange(min=0), default=0, help="Largest number at once.")
def main(
    calls: int, script: Path | None, latency: float, refused: float, capacity: int, most: int
) -> None:
    """The command line."""
    oracle = Oracle(read_scripts(script) if script else (), calls)
    behaviour = Behaviour(oracle, latency=latency, refused=refused, capacity=capacity, most=most)
    uvloop.run(serve(behaviour))


if __name__ == "__main__":
    main()
