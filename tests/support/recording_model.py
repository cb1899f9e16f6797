"""A chat endpoint on loopback that keeps the bytes of every request, and answers by a plan.

It has no model: what it says does not matter where the requests are the subject. `replies` are
messages of an assistant in OpenAI's form, in order; the last one is repeated. A request that asks
for a summary gets one, and one with a field of `refuses` status 400. With `tickets` each answer
waits for one: a model that is as slow as the test wants.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rehearsal_room.harness.history.summary import PROMPT


@dataclass
class RecordingModel:
    """The endpoint: its URL, and what it has answered."""

    url: str = ""
    replies: Sequence[dict[str, Any]] = ()
    refuses: frozenset[str] = frozenset()
    busy: int = 0  # requests that are answered with status 503 first
    status: int = 200  # of all requests, where it is not 200
    tickets: threading.Semaphore | None = None  # None: answers at once
    answered: list[bytes] = field(default_factory=list)  # bodies of status 200
    keys: list[str] = field(default_factory=list)  # the header Authorization of each

    def reply_to(self, body: dict[str, Any]) -> dict[str, Any]:
        """The message of the next reply."""
        if PROMPT in str(body["messages"][-1].get("content", "")):
            return {"role": "assistant", "content": "I have looked around so far."}
        at = min(self._next, len(self.replies) - 1)
        self._next += 1
        return {"role": "assistant", **self.replies[at]}

    _next: int = 0


def call_of(name: str, arguments: str, id: str = "call_1") -> dict[str, Any]:
    """A message with one call; `arguments` are a text."""
    function = {"name": name, "arguments": arguments}
    return {
        "content": None,
        "tool_calls": [{"id": id, "type": "function", "function": function}],
    }


@contextmanager
def recording_model(**plan: Any) -> Iterator[RecordingModel]:
    """The endpoint, for a block."""
    model = RecordingModel(**plan)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(200, {"object": "list", "data": [{"id": "m", "object": "model"}]})

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            body = json.loads(data)
            if model.status != 200:
                self._refuse(model.status, "Incorrect API key provided.")
            elif refused := sorted(model.refuses & body.keys()):
                self._refuse(400, f"Unrecognized request argument supplied: {refused[0]}")
            elif model.busy:
                model.busy -= 1
                self._refuse(503, "overloaded")
            else:
                if model.tickets:
                    model.tickets.acquire()
                model.answered.append(data)
                model.keys.append(self.headers.get("authorization", ""))
                self._answer(200, _completion(model.reply_to(body)))

        def _refuse(self, status: int, message: str) -> None:
            self._answer(status, {"error": {"message": message, "type": "x", "code": None}})

        def _answer(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _completion(message: dict[str, Any]) -> dict[str, Any]:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 900, "completion_tokens": 7, "total_tokens": 907}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": usage,
    }
