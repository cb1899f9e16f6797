"""A chat-completions server on loopback that plays the oracles of worlds, or does nothing.

    .venv/bin/python -m tests.integrations.oracle_model shop_support flight_desk  (prints its URL)

Model `oracle` makes the oracle calls of a task, one in a turn, and gives its answer; model `noop`
answers at once. The task is known by its instruction, which must be in a message of the user; the
turn by the number of results so far. Requests may be streamed.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from typing import Any

from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Task

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"


class OracleModel:
    """The replies of the models `oracle` and `noop`."""

    def __init__(self, worlds: Sequence[str]) -> None:
        self._tasks = {
            task.instruction.strip(): task for world in worlds for task in find(world).default_tasks
        }

    def message(self, request: dict[str, Any]) -> dict[str, Any]:
        """The assistant's message."""
        if request["model"].endswith("noop"):
            return {"role": "assistant", "content": "I have done nothing."}
        task = self._task(request["messages"])
        done = sum(message["role"] == "tool" for message in request["messages"])
        if done == len(task.oracle):
            return {"role": "assistant", "content": task.answer}
        call = task.oracle[done]
        names = [tool["function"]["name"] for tool in request.get("tools", [])]
        name = next(one for one in names if one == call.name or one.endswith(f"_{call.name}"))
        function = {"name": name, "arguments": json.dumps(call.arguments)}
        made = {"id": f"call_{done}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}

    def _task(self, messages: Sequence[dict[str, Any]]) -> Task:
        for message in messages:
            if message["role"] == "user":
                content = message["content"]
                parts = [content] if isinstance(content, str) else [one["text"] for one in content]
                for text in parts:
                    if (task := self._tasks.get(text.strip())) is not None:
                        return task
        raise ValueError("no message of the user is the instruction of a task")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").lower().splitlines()
                size = next(line for line in lines if line.startswith("content-length:"))
                request = json.loads(await reader.readexactly(int(size.partition(":")[2])))
                writer.write(self._response(request))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, StopIteration):
            pass
        finally:
            writer.close()

    def _response(self, request: dict[str, Any]) -> bytes:
        message = self.message(request)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        about = {"id": "chatcmpl-1", "created": 1, "model": request["model"]}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": finish}
            whole = {**about, "object": "chat.completion", "choices": [choice], "usage": usage}
            body = json.dumps(whole).encode()
            return _HEAD % (b"application/json", len(body), body)
        calls = [{"index": 0, **call} for call in message.get("tool_calls", [])]
        delta = {**message, **({"tool_calls": calls} if calls else {})}
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        chunk = {**about, "object": "chat.completion.chunk", "choices": choices, "usage": usage}
        body = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
        return _HEAD % (b"text/event-stream", len(body), body)


async def main(worlds: Sequence[str]) -> None:
    """Serve until the process is killed."""
    model = OracleModel(worlds)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
