"""A deterministic model on loopback, for two runners that are compared.

It has the chat-completions API at /SIDE/CATEGORY/v1. The messages of a request say which entry it
is, and which turn and step; where they do not, the names of its tools do. The body of each
request is kept by side and entry.
"""

import json
import threading
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.suites.parity.behaviours import CRASH, Message

Answers = Callable[[str, dict[str, Any]], tuple[str, Message] | None]


class FakeModel:
    """The server. `answers` gives entry and reply for a category and the body of a request;
    None: it belongs to no entry."""

    def __init__(
        self, answers: Answers, *, canonical: Callable[[dict[str, Any]], Any] | None = None
    ) -> None:
        """`canonical`: the form in which bodies are compared; None: that of tool calling."""
        self._answers = answers
        self._canonical = canonical or plain_body
        self._lock = threading.Lock()
        self.bodies: dict[str, dict[str, Counter[str]]] = defaultdict(
            lambda: defaultdict(Counter)
        )  # side -> entry -> digests of bodies
        self.texts: dict[str, bytes] = {}  # digest -> body, compressed
        self.strange: list[str] = []  # requests that belong to no entry
        self.url = ""

    @contextmanager
    def served(self) -> Iterator["FakeModel"]:
        """Answer requests inside of the block."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                self._send(200, {"object": "list", "data": [{"id": "parity", "object": "model"}]})

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                _, side, category, *_ = self.path.split("/")
                self._send(*model.answer(side, category, body))

            def _send(self, status: int, value: dict[str, Any]) -> None:
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                """Write nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()

    def answer(self, side: str, category: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of the answer to a request."""
        found = self._answers(category, body)
        entry, said = found or ("", {"content": "Who is it?"})
        text = json.dumps(self._canonical(body), sort_keys=True)
        digest = blake2b(text.encode(), digest_size=12).hexdigest()
        with self._lock:
            if found is None:
                self.strange.append(f"{side}: {text[:300]}")
            self.bodies[side][entry][digest] += 1
            if digest not in self.texts:
                self.texts[digest] = zlib.compress(text.encode(), 1)
        if said is CRASH:
            return 400, {"error": {"message": "the model failed", "type": "invalid_request"}}
        if "error" in said:
            return 400, {"error": said["error"]}
        said = dict(said)
        finish = said.pop("finish_reason", "tool_calls" if said.get("tool_calls") else "stop")
        choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        completion = {"id": "c", "object": "chat.completion", "created": 1, "model": "parity"}
        return 200, {**completion, "choices": [choice], "usage": usage}

    def body(self, digest: str) -> Any:
        """The body of a request, as it is compared."""
        return json.loads(zlib.decompress(self.texts[digest]))


def plain_body(body: dict[str, Any]) -> dict[str, Any]:
    """A body in the form in which two are compared. The name of the model is left out; an empty
    content of an assistant is none, as is an empty list of calls; the arguments of calls are
    compared as values, so that white space in them does not count."""
    messages = []
    for one in body["messages"]:
        kept = {name: value for name, value in one.items() if name != "tool_calls"}
        if one["role"] == "assistant" and not kept.get("content"):
            kept.pop("content", None)
        if calls := one.get("tool_calls"):
            kept["tool_calls"] = [_plain(call) for call in calls]
        messages.append(kept)
    return {**body, "model": "", "messages": messages}


def _plain(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return call
    return {**call, "function": {**function, "arguments": arguments}}
