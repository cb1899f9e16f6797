"""An OpenAI-compatible model server that answers at once: for benchmarks, in its own process.

    python -m benchmarks.model_server --calls 10 --script oracle.jsonl

It prints the base URL in its first line and serves until its standard input is closed. Every
episode gets `--calls` tool calls, one a turn, then the answer. Which turn it is follows from the
request alone: one past the number in the newest tool call's id, so truncated histories work.

Without a script it calls the first tool that needs no arguments. A line of the script is

    {"when": "cancel order 17", "calls": [{"name": "get_order", "arguments": {"id": 17}}],
     "answer": "Done."}

and the first line whose `when` occurs in the request's first user message is played: its calls,
again from the first when they run out before `--calls`, then its answer. `--calls 0` plays each
script once, to its end.

HTTP/1.1 with keep-alive and Content-Length only: it is no server for anything else.
"""

import argparse
import asyncio
import re
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import uvloop

_CALL_NUMBER = re.compile(r"\d+")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class PlayedCall(msgspec.Struct, frozen=True):
    """One call of a script."""

    name: str
    arguments: dict[str, Any] = {}


class Part(msgspec.Struct, frozen=True):
    """What is said in one episode; `when` is a text of its first user message."""

    when: str = ""
    calls: tuple[PlayedCall, ...] = ()
    answer: str = "Done."


class _Said(msgspec.Struct, frozen=True):
    role: str
    content: Any = None
    tool_call_id: str | None = None


class _Request(msgspec.Struct, frozen=True):
    messages: list[_Said]
    tools: msgspec.Raw = msgspec.Raw(b"[]")


class _Function(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] = {}


class _Tool(msgspec.Struct, frozen=True):
    function: _Function


class Oracle:
    """Answers requests by script. Raises LookupError when no line of the script fits."""

    def __init__(self, script: tuple[Part, ...], num_calls: int) -> None:
        self._script = script
        self._num_calls = num_calls
        self._decoder = msgspec.json.Decoder(_Request)
        self._default: dict[bytes, Part] = {}  # by the request's own `tools`

    def answer(self, body: bytes) -> bytes:
        """The response's body for a request's."""
        request = self._decoder.decode(body)
        part = self._part(request)
        turn = _turn(request.messages)
        total = self._num_calls or len(part.calls)
        if turn >= total or not part.calls:
            message: dict[str, Any] = {"role": "assistant", "content": part.answer}
        else:
            call = part.calls[turn % len(part.calls)]
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

    def _part(self, request: _Request) -> Part:
        if not self._script:
            return self._default_part(bytes(request.tools))
        said = next((str(m.content) for m in request.messages if m.role == "user"), "")
        for part in self._script:
            if part.when in said:
                return part
        raise LookupError(f"no line of the script fits {said[:200]!r}")

    def _default_part(self, tools: bytes) -> Part:
        part = self._default.get(tools)
        if part is None:
            functions = [tool.function for tool in msgspec.json.decode(tools, type=list[_Tool])]
            free = [f for f in functions if not f.parameters.get("required")]
            if functions and not free:
                raise LookupError("every tool of the request needs arguments: give a script")
            part = Part(calls=tuple(PlayedCall(f.name) for f in free[:1]))
            self._default[tools] = part
        return part


def _turn(messages: list[_Said]) -> int:
    """Which turn a request asks for.

    Example: the newest message answers `call-4` -> 5; no message answers a call -> 0
    """
    for message in reversed(messages):
        if message.tool_call_id is not None:
            number = _CALL_NUMBER.search(message.tool_call_id)
            if number is None:
                return sum(m.tool_call_id is not None for m in messages)
            return int(number.group()) + 1
    return 0


class _Connection(asyncio.Protocol):
    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by isinstance

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while (head := received.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(received, 0, head)
            end = head + 4 + (int(length.group(1)) if length else 0)
            if len(received) < end:
                return
            body = bytes(received[head + 4 : end])
            del received[:end]
            self._reply(body)

    def _reply(self, body: bytes) -> None:
        assert self._transport is not None
        try:
            status, content = b"200 OK", self._oracle.answer(body)
        except (LookupError, msgspec.MsgspecError) as exc:
            status = b"400 Bad Request"
            content = msgspec.json.encode({"error": {"message": str(exc)}})
        self._transport.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(content), content)
        )


async def serve(oracle: Oracle) -> None:
    """Serve on a free port of the loopback until standard input is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(oracle), "127.0.0.1", 0, backlog=4096)
    async with server:
        port = server.sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}/v1", flush=True)
        await loop.run_in_executor(None, sys.stdin.buffer.read)


def read_script(path: Path) -> tuple[Part, ...]:
    """The parts of a script, one a line."""
    return tuple(msgspec.json.Decoder(Part).decode_lines(path.read_bytes()))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=10, help="tool calls an episode")
    parser.add_argument("--script", type=Path, help="what to play, as JSON lines")
    options = parser.parse_args()
    script = read_script(options.script) if options.script else ()
    uvloop.run(serve(Oracle(script, options.calls)))


if __name__ == "__main__":
    main()
