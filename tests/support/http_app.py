"""Requests that are passed to an ASGI application without a network."""

from typing import Any

import anyio
import msgspec


async def ask(
    app: Any, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, Any]:
    """Status and decoded body of an application's answer. What it raises is raised here: uvicorn
    would answer 500."""
    named = {"Host": "localhost", "Content-Type": "application/json", **headers}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in named.items()],
        "client": ("127.0.0.1", 1),
    }
    sent: list[Any] = []
    received = [{"type": "http.request", "body": body}]

    async def receive() -> dict[str, Any]:
        return received.pop() if received else await _never()

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    text = sent[1]["body"]
    return sent[0]["status"], msgspec.json.decode(text) if text else None


async def _never() -> dict[str, Any]:
    await anyio.sleep_forever()
    raise AssertionError("it sleeps forever")
