"""How messages travel between the coordinator and a worker: what the worker needs of it, and an end
whose messages something else carries. `rehearsal_room.harness.fleet.connection` is the end of a
socket."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable
from typing import Protocol

import anyio

from rehearsal_room.harness.fleet.messages import FromWorker, ToWorker, content_of

_GATHER_S = 0.02  # seconds from the first message of a batch until the batch is given, at least
_MAX_BATCH = 2**20  # bytes, one message more at most


class Transport(Protocol):
    """One end. Messages arrive in the order in which they were put, each once, until the other end
    is gone."""

    max_queued: int  # messages, behind which a sender of many shall wait

    def put(self, message: ToWorker | FromWorker) -> None:
        """Queue a message; never waits."""

    def hurry(self, on: bool) -> None:
        """Whether messages shall go at once, or may wait for others to share the way with."""

    async def send_all(self) -> None:
        """Send what is queued, until cancelled or the other end is gone."""

    async def wait_until_sent(self, at_most: int = 0) -> None:
        """Return when at most so many messages are queued."""

    async def receive(self) -> bytes:
        """The next message's content. Raises anyio.EndOfStream when the other end is gone."""


class CarriedTransport:
    """A Transport whose owner carries the messages: it takes them from `batches`, and gives what
    came from the other end to `deliver`. Everything is called in one event loop."""

    max_queued = 64

    def __init__(self, gather_s: float = _GATHER_S) -> None:
        """`gather_s`: seconds for which messages may wait, so that a batch has more of them."""
        self._gather_s = gather_s
        self._received: deque[bytes] = deque()
        self._outgoing: deque[bytes] = deque()
        self._num_given = 0  # in the batch that is on its way
        self._is_closed = False
        self._arrived = anyio.Event()
        self._work = anyio.Event()
        self._hurry = anyio.Event()
        self._sent = anyio.Event()
        self._closed = anyio.Event()

    def put(self, message: ToWorker | FromWorker) -> None:
        """See Transport."""
        self._outgoing.append(content_of(message))
        self._work.set()

    def hurry(self, on: bool) -> None:
        """See Transport."""
        if on:
            self._hurry.set()
        elif self._hurry.is_set() and not self._is_closed:
            self._hurry = anyio.Event()

    async def send_all(self) -> None:
        """See Transport: the task that runs `batches` sends."""
        await self._closed.wait()

    async def wait_until_sent(self, at_most: int = 0) -> None:
        """See Transport. A message is sent when the next batch is asked for."""
        while len(self._outgoing) + self._num_given > at_most:
            await self._sent.wait()

    async def receive(self) -> bytes:
        """See Transport."""
        while not self._received:
            if self._is_closed:
                raise anyio.EndOfStream
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._received.popleft()

    def deliver(self, contents: Iterable[bytes]) -> None:
        """Take messages that came from the other end."""
        self._received += contents
        self._arrived.set()

    def close(self) -> None:
        """End `receive` and, when everything is sent, `batches`."""
        self._is_closed = True
        for event in (self._arrived, self._work, self._hurry, self._closed):
            event.set()

    async def batches(self) -> AsyncGenerator[list[bytes]]:
        """The contents of what is put, several at a time, until closed."""
        while True:
            await self._work.wait()
            if not self._is_closed:
                await self._gather()
                self._work = anyio.Event()
            is_full = True  # what is left may wait for others, too
            while self._outgoing and (is_full or self._is_closed):
                batch = self._take()
                is_full = sum(map(len, self._outgoing)) >= _MAX_BATCH
                self._num_given = len(batch)
                yield batch
                self._num_given = 0
                sent, self._sent = self._sent, anyio.Event()
                sent.set()
            if self._is_closed:
                return
            if self._outgoing:
                self._work.set()

    async def _gather(self) -> None:
        await anyio.sleep(_GATHER_S)
        if self._gather_s > _GATHER_S and not self._hurry.is_set():
            with anyio.move_on_after(self._gather_s - _GATHER_S):
                await self._hurry.wait()

    def _take(self) -> list[bytes]:
        batch, size = [], 0
        while self._outgoing and size < _MAX_BATCH:
            batch.append(self._outgoing.popleft())
            size += len(batch[-1])
        return batch
