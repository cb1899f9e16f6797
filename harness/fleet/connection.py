"""One end of the socket between the coordinator and a rollout process."""

import socket
from collections import deque

import anyio

from rehearsal_room.harness.fleet.messages import FleetFrames, FromWorker, ToWorker, frame_of

_READ_BYTES = 2**18  # at a time


class FrameConnection:
    """Sends frames in the order of `put`, and receives frames. `send_all` is its task."""

    max_queued = 4

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._frames = FleetFrames()
        self._received: deque[bytes] = deque()
        self._outgoing: deque[bytes] = deque()
        self._work = anyio.Event()
        self._sent = anyio.Event()

    def put(self, message: ToWorker | FromWorker) -> None:
        """Queue a message; never waits."""
        self._outgoing.append(frame_of(message))
        self._work.set()

    def hurry(self, on: bool) -> None:
        """See Transport: everything goes at once."""

    async def send_all(self) -> None:
        """Send what is queued, until cancelled or the other end is closed."""
        while True:
            await self._work.wait()
            self._work = anyio.Event()
            while self._outgoing:
                if not await self._send(self._outgoing[0]):
                    return
                self._outgoing.popleft()
            self._sent.set()
            self._sent = anyio.Event()

    async def wait_until_sent(self, at_most: int = 0) -> None:
        """Return when at most so many messages are queued."""
        while len(self._outgoing) > at_most:
            await self._sent.wait()

    async def receive(self) -> bytes:
        """The next frame's content. Raises anyio.EndOfStream when the other end is closed."""
        while not self._received:
            if not self._read():
                await anyio.wait_readable(self._socket)
        return self._received.popleft()

    def _read(self) -> bool:
        """Read what the kernel holds; False: nothing. Raises anyio.EndOfStream."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            raise anyio.EndOfStream
        self._received += self._frames.feed(data)
        return True

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    async def _send(self, data: bytes) -> bool:
        """Send one frame; False: the other end is closed."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)
            except OSError:
                return False
        return True
