"""One request to an application, and what is sent in response."""

import asyncio
from typing import Any

MAX_ANSWER = 16 * 2**20  # bytes of a response's body


class AnswerTooLong(BaseException):
    """The response is longer than MAX_ANSWER. `except Exception` does not catch this."""


class Exchange:
    """Collects what the application sends, and provides it with the request's body."""

    __slots__ = ("_body", "_sent", "_size", "body", "complete", "headers", "status")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._sent = False
        self._size = 0
        self.status: int | None = None  # None: no response was begun
        self.headers: Any = ()
        self.body: list[bytes] = []
        self.complete: asyncio.Event | None = None  # None: nothing has needed it

    def take_body(self) -> bytes:
        """The body, which `receive` does not give any more."""
        self._sent = True
        return self._body

    async def receive(self) -> dict[str, Any]:
        """The next message of the request."""
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        if self.complete is None:
            self.complete = asyncio.Event()
        await self.complete.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        """Take a message of the response."""
        kind = message["type"]
        if kind == "http.response.start":
            assert self.status is None
            self.status = message["status"]
            self.headers = message.get("headers", ())
        elif kind == "http.response.body":
            if body := message.get("body", b""):
                self._size += len(body)
                if self._size > MAX_ANSWER:
                    raise AnswerTooLong
                self.body.append(body)
            if not message.get("more_body", False):
                if self.complete is None:
                    self.complete = asyncio.Event()
                self.complete.set()
