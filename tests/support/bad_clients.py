"""Clients that speak bad HTTP over plain sockets, and what they make a server hold."""

import contextlib
import select
import socket
from collections.abc import Iterator
from typing import Any

HOST = b"Host: localhost\r\n"
MANY_HEADERS = b"a: b\r\n" * 10_000  # 60 KB


class BadClient:
    """A connection to a server on loopback."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def __enter__(self) -> "BadClient":
        return self

    def __exit__(self, *exc: Any) -> None:
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Send; returns whether the server still takes bytes."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; returns whether the server answered or closed the connection."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def answer(self) -> bytes:
        """What the server sends until it closes the connection. Raises TimeoutError where it does
        not."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while data := self._socket.recv(65_536):
                received += data
        return received

    def reply(self) -> bytes:
        """What the server sends first."""
        return self._socket.recv(65_536)


def status_of(answer: bytes) -> int:
    """The status of an HTTP response; 0: there is none."""
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@contextlib.contextmanager
def half_requests(port: int, number: int) -> Iterator[list[BadClient]]:
    """Clients that have each sent half of a request's headers."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(BadClient(port)) for _ in range(number)]
        for client in clients:
            client.send(b"GET /worlds HTTP/1.1\r\nHost: local")
        yield clients
