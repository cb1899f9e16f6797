"""Sessions of a client with an MCP server through `rehearse new recording`, in processes."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT

REHEARSE = (sys.executable, "-m", "rehearsal_room.cli.main")
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a client", "version": "1"},
}
Calls = Sequence[tuple[str, dict[str, Any]]]


def environment() -> dict[str, str]:
    """The variables of a process that runs `rehearse`."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def recording(file: Path, *server: str) -> tuple[str, ...]:
    """The words that stand in the server's place."""
    return (*REHEARSE, "new", "recording", str(file), "--", *server)


def line(request: int | None, method: str, params: dict[str, Any]) -> bytes:
    """A message of a client; without a request it is a notification."""
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    return json.dumps(message if request is None else {**message, "id": request}).encode() + b"\n"


class Session:
    """A client of a server, which speaks line by line. To be used in `with`."""

    def __init__(self, words: Sequence[str], folder: Path | None = None) -> None:
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=folder,
            start_new_session=True,
        )
        self._last = 0

    def __enter__(self) -> "Session":
        self.ask("initialize", HELLO)
        self.send(line(None, "notifications/initialized", {}))
        self.ask("tools/list", {})
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=30)

    def send(self, data: bytes) -> None:
        """Send bytes."""
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request, and wait for its answer."""
        self._last += 1
        self.send(line(self._last, method, params))
        assert self.process.stdout is not None
        while found := self.process.stdout.readline():
            message: dict[str, Any] = json.loads(found)
            if message.get("id") == self._last:
                return message
        raise EOFError(method)

    def call(self, name: str, **arguments: Any) -> Any:
        """Make a call; its text, as JSON where it is JSON."""
        result = self.ask("tools/call", {"name": name, "arguments": arguments})["result"]
        text = result["content"][0]["text"] if result["content"] else ""
        try:
            return json.loads(text)
        except ValueError:
            return text


def with_pause(file: Path, before: str, seconds: float = 300.0) -> None:
    """Move the calls of a recording from the first one of a tool on into the future, as if the
    client had waited before it."""
    shift, lines = 0.0, []
    for raw in file.read_text().splitlines():
        found = json.loads(raw)
        if found.get("name") == before:
            shift = seconds
        if "at" in found:
            found["at"] += shift
        lines.append(json.dumps(found))
    file.write_text("\n".join(lines) + "\n")
