"""A chat-completions server on loopback that plays the oracles of worlds, or does nothing.

    .venv/bin/python -m tests.integrations.oracle_model shop_support flight_desk  (prints its URL)

Model `oracle` makes the oracle calls of a task, one in a turn, and gives its answer; in a dialogue
it says what the oracle says, by the tool `talk_to_user` where it has one. Model `mixed` does so in
every third task, plays a mutant in others, and in others begins with a call that fails. Model
`noop` answers at once. The task is known by its instruction, which must be in a message of the
user; the turn by the ids of earlier calls, wherever they stand. A request without tools, such as
one for a title, gets a few words. Requests may be streamed.

`GET /account` has the numbers of requests and tokens that were answered; a token is four bytes.
"""

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from rehearsal_room.harness.policies.mutants import mutants_of
from rehearsal_room.scenarios.catalogue import find
from rehearsal_room.scenarios.format import Call, Scenario, Task, Utterance

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
_call_ids = re.compile(r"call_(\d+)\b").findall
Move = Call | str  # a call, or something that is said


class OracleModel:
    """The replies of the models `oracle`, `mixed` and `noop`."""

    def __init__(self, worlds: Sequence[str]) -> None:
        self._moves: dict[str, dict[str, list[Move]]] = {"oracle": {}, "mixed": {}}
        for scenario in map(find, worlds):
            for number, task in enumerate(scenario.tasks):
                about = task.instruction.strip()
                self._moves["oracle"][about] = _moves(task.oracle, task.utterances, task.answer)
                self._moves["mixed"][about] = _mixed(scenario, task, number)
        self.account = {"requests": 0, "prompt_tokens": 0, "completion_tokens": 0}

    def message(self, request: dict[str, Any]) -> dict[str, Any]:
        """The assistant's message."""
        model = request["model"].rpartition("/")[2]
        if model.endswith("noop"):
            return {"role": "assistant", "content": "I have done nothing."}
        names = [tool["function"]["name"] for tool in request.get("tools") or ()]
        if not names:
            return {"role": "assistant", "content": "A few words"}
        moves = self._moves_of(request["messages"], model)
        done = _num_moves_in(request["messages"])
        move = moves[min(done, len(moves) - 1)]
        if isinstance(move, str):
            tool, argument = ("final_answer", "answer")
            if done < len(moves) - 1:
                tool, argument = ("talk_to_user", "text")
            if _named(tool, names) is None:
                return {"role": "assistant", "content": move}
            move = Call(tool, {argument: move})
        name = _named(move.name, names) or move.name
        function = {"name": name, "arguments": json.dumps(move.arguments)}
        made = {"id": f"call_{done}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [made]}

    def _moves_of(self, messages: Sequence[dict[str, Any]], model: str) -> list[Move]:
        """The moves of the task whose instruction is in a message of the user."""
        said = [_text_of(message) for message in messages if message["role"] == "user"]
        known = self._moves[model]
        found = [about for about in known if any(about in text for text in said)]
        if not found:
            raise ValueError("no message of the user has the instruction of a task")
        return known[max(found, key=len)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if head.startswith(b"GET "):
                    body = json.dumps(self.account).encode()
                    writer.write(_HEAD % (b"application/json", len(body), body))
                    continue
                lines = head.decode("latin-1").lower().splitlines()
                size = next(line for line in lines if line.startswith("content-length:"))
                sent = await reader.readexactly(int(size.partition(":")[2]))
                writer.write(self._response(sent))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, StopIteration):
            pass
        finally:
            writer.close()

    def _response(self, sent: bytes) -> bytes:
        request = json.loads(sent)
        message = self.message(request)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        about = {"id": "chatcmpl-1", "created": 1, "model": request["model"]}
        asked, given = len(sent) // 4, len(json.dumps(message)) // 4
        usage = {
            "prompt_tokens": asked,
            "completion_tokens": given,
            "total_tokens": asked + given,
        }
        self.account["requests"] += 1
        for name in ("prompt_tokens", "completion_tokens"):
            self.account[name] += usage[name]
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


def _moves(calls: Sequence[Call], says: Sequence[Utterance], answer: str) -> list[Move]:
    moves: list[Move] = []
    for number in range(len(calls) + 1):
        moves += [one.text for one in says if one.after == number]
        moves += calls[number : number + 1]
    return [*moves, answer]


def _mixed(scenario: Scenario, task: Task, number: int) -> list[Move]:
    """The moves of model `mixed`: those of the oracle, of a mutant, or after a call that fails."""
    moves = _moves(task.oracle, task.utterances, task.answer)
    mutants = mutants_of(task, [True] * len(task.oracle))
    if number % 3 == 1 and mutants:
        mutant = mutants[number % len(mutants)]
        return _moves(mutant.calls, mutant.utterances, mutant.answer)
    if number % 3 == 2:
        return [*_failing(task.oracle), *moves]
    return moves


def _failing(calls: Sequence[Call]) -> list[Move]:
    """The first call that has a number, with one that nothing in the world has."""
    for call in calls:
        for name, value in call.arguments.items():
            if type(value) is int:
                return [Call(call.name, {**call.arguments, name: 987_654})]
    return []


def _num_moves_in(messages: Sequence[dict[str, Any]]) -> int:
    """How many moves were made before a request. Its oldest ones may not be in it."""
    made = 0
    for message in messages:
        if message["role"] == "assistant":
            ids = _call_ids(json.dumps(message))
            made = max(map(int, ids)) + 1 if ids else made + 1
    return max(made, sum(message["role"] == "tool" for message in messages))


def _named(wanted: str, names: Sequence[str]) -> str | None:
    """The tool of that name, which may have a prefix."""
    return next((one for one in names if one == wanted or one.endswith(f"_{wanted}")), None)


def _text_of(message: dict[str, Any]) -> str:
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join([part.get("text", "") for part in content])


async def main(worlds: Sequence[str]) -> None:
    """Serve until the process is killed."""
    model = OracleModel(worlds)
    server = await asyncio.start_server(model.serve, "127.0.0.1", 0, limit=1 << 20)
    port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}/v1\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
