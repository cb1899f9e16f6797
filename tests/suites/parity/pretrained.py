"""A pretrained model behind a server of chat completions, for two runners that are compared.

The model answers at temperature 0, one request at a time. A request that is equal as the two sides
are compared gets the reply that the first one got, whichever side sends it: a server's cache
changes the order of its sums, and so, now and then, a token. Where the server parsed no call and
the text is one (`{"name": …, "arguments": …}`, as Qwen2.5-Coder writes it), it is made a call,
which a server's tool parser does elsewhere: otherwise no entry would have any.
"""

import json
import re
import threading
import urllib.error
import urllib.request
from hashlib import sha256
from typing import Any

from tests.suites.parity.behaviours import Message
from tests.suites.parity.fake_model import plain_body

_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_SECONDS = 900  # for a reply
_MAX_TOKENS = 64


class Pretrained:
    """Asks the server at `url` (with /v1) for replies."""

    def __init__(self, url: str, model: str) -> None:
        self._url, self._model = f"{url}/chat/completions", model
        self._known: dict[str, Message] = {}
        self._lock = threading.Lock()

    def reply(self, body: dict[str, Any]) -> Message:
        """The model's reply to a request. A refusal by the server is the error that it sent."""
        asked = {**body, "model": self._model, "temperature": 0, "max_tokens": _MAX_TOKENS}
        key = json.dumps(plain_body(body), sort_keys=True)
        with self._lock:
            if key not in self._known:
                # Ids are unique in a talk, as those of servers are: ours renames one that repeats.
                self._known[key] = self._ask(asked, sha256(key.encode()).hexdigest()[:12])
            return self._known[key]

    def _ask(self, body: dict[str, Any], name: str) -> Message:
        request = urllib.request.Request(
            self._url, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # nosec: loopback
                choice = json.load(answer)["choices"][0]
        except urllib.error.HTTPError as exc:
            return {"error": json.load(exc)["error"]}
        message = choice["message"]
        calls = message.get("tool_calls") or _calls_of(message.get("content") or "", name)
        found: Message = {"content": message.get("content")}
        if calls:
            found |= {"tool_calls": calls, "content": None}
        return found


def _calls_of(text: str, name: str) -> list[dict[str, Any]]:
    """The calls that a text consists of; `name` begins their ids."""
    texts = _FENCED.findall(text) or text.strip().splitlines()
    calls = []
    for number, one in enumerate(texts):
        try:
            call = json.loads(one)
            function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
        except (ValueError, KeyError, TypeError):
            return []
        calls.append({"id": f"call_{name}_{number}", "type": "function", "function": function})
    return calls
