"""A pair of connected sockets in memory, for the simulated event loop: what one end sends arrives
at the other in order, after a delay that the choices give."""

import asyncio
from collections import deque
from collections.abc import Callable

from tests.devtools.simulation.parts.choices import Choices

_LATE = 0.01  # share of the writes that travel long
_LATEST_S = 0.5


class _Line:
    """One direction."""

    def __init__(self) -> None:
        self.data: deque[bytes] = deque()  # arrived, not read
        self.is_closed = False  # nothing more will arrive
        self.arrived: Callable[[], None] = lambda: None
        self.sent: deque[Callable[[], None]] = deque()  # what is on its way
        self.last_at = 0.0  # when the last of it arrives


class MemorySocket:
    """One end. It has what the loop and the workers' pool use of a socket."""

    def __init__(self, incoming: _Line, outgoing: _Line, choices: Choices) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._choices = choices
        self._is_closed = False

    @classmethod
    def pair(cls, choices: Choices) -> tuple["MemorySocket", "MemorySocket"]:
        """Two connected ends."""
        one, other = _Line(), _Line()
        return cls(one, other, choices), cls(other, one, choices)

    def setblocking(self, blocking: bool) -> None:
        """It never blocks."""

    def dup(self) -> "MemorySocket":
        """Another descriptor of this end; closing it closes nothing."""
        return MemorySocket(self._incoming, _Line(), self._choices)

    def on_arrival(self, arrived: Callable[[], None]) -> None:
        """Call a function whenever something has arrived or the other end was closed."""
        self._incoming.arrived = arrived

    def send(self, data: bytes) -> None:
        """Send data, unless an end is closed."""
        if not self._is_closed and not self._outgoing.is_closed:
            self._at_arrival(lambda: self._outgoing.data.append(data))

    def recv(self, limit: int) -> bytes:
        """What has arrived; empty when the other end is closed. Raises BlockingIOError when nothing
        has."""
        if self._incoming.data:
            return self._incoming.data.popleft()
        if self._incoming.is_closed:
            return b""
        raise BlockingIOError

    def close(self) -> None:
        """Close this end. What was sent before arrives."""
        if not self._is_closed:
            self._is_closed = True
            self._at_arrival(self._end_outgoing)

    def _end_outgoing(self) -> None:
        self._outgoing.is_closed = True

    def _at_arrival(self, change: Callable[[], None]) -> None:
        loop, line = asyncio.get_running_loop(), self._outgoing
        late = self._choices.amount("late_write", _LATEST_S, rate=_LATE)
        line.last_at = max(line.last_at, loop.time() + late)

        line.sent.append(change)

        def arrive() -> None:
            line.sent.popleft()()  # timers of one moment come in any order
            line.arrived()

        loop.call_at(line.last_at, arrive)


class MemoryTransport(asyncio.Transport):
    """The transport of a protocol on a memory socket."""

    def __init__(self, sock: MemorySocket, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._sock = sock
        self._protocol = protocol
        self._is_over = False
        sock.on_arrival(self._read)
        protocol.connection_made(self)
        asyncio.get_running_loop().call_soon(self._read)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._sock.send(bytes(data))

    def abort(self) -> None:
        """Close the socket; the protocol gets nothing more."""
        if not self._is_over:
            self._is_over = True
            self._sock.close()

    def close(self) -> None:
        self.abort()

    def _read(self) -> None:
        while not self._is_over:
            try:
                data = self._sock.recv(0)
            except BlockingIOError:
                return
            if data:
                self._protocol.data_received(data)
            else:
                self.abort()
                self._protocol.connection_lost(None)
