"""What the coordinator needs of a worker, and a worker that is a process of this machine."""

from typing import Protocol

import anyio

from rehearsal_room.harness.fleet.connection import FrameConnection
from rehearsal_room.harness.fleet.fork_server import ForkServer
from rehearsal_room.harness.fleet.messages import FromWorker, ToWorker, from_worker

_GRACE = 0.5  # seconds


class WorkerHandle(Protocol):
    """One worker, wherever it runs. A worker that replaces it has another handle, so nothing that a
    dead worker sent late is taken for the new one's."""

    number: int  # of its share of the run
    ahead: int  # how many episodes wait with it for each that it plays, while many are left

    @property
    def name(self) -> str:
        """The worker in messages, for example "rollout process 2 (pid 4711)"."""

    def put(self, message: ToWorker) -> None:
        """Queue a message; never waits."""

    async def send_all(self) -> None:
        """Send what is queued, until cancelled or the worker is gone."""

    async def receive(self, within: float) -> FromWorker:
        """The next message. Raises anyio.EndOfStream when the worker has ended or closed, and
        TimeoutError when it sent nothing within so many seconds."""

    def end(self) -> str:
        """Kill the worker, if it still lives, and free what belongs to it; returns how it
        ended. Later calls return the same."""


class ProcessWorker:
    """A WorkerHandle of a process of this machine."""

    ahead = 1

    def __init__(self, server: ForkServer, number: int) -> None:
        """Start it. Raises OSError when there can be no further process."""
        self.number = number
        self._server = server
        self.pid, sock = server.spawn(number)
        self._connection = FrameConnection(sock)
        self._how: str | None = None  # how it ended

    @property
    def name(self) -> str:
        """See WorkerHandle."""
        return f"rollout process {self.number + 1} (pid {self.pid})"

    def put(self, message: ToWorker) -> None:
        """See WorkerHandle."""
        self._connection.put(message)

    async def send_all(self) -> None:
        """See WorkerHandle."""
        await self._connection.send_all()

    async def receive(self, within: float) -> FromWorker:
        """See WorkerHandle. Where this process was itself stopped (Ctrl-Z), all that comes late was
        not silent: the worker gets a little more time once this process runs."""
        for seconds in (within, _GRACE):
            with anyio.move_on_after(seconds):
                message: FromWorker = from_worker(await self._connection.receive())
                return message
        raise TimeoutError

    def end(self) -> str:
        """See WorkerHandle."""
        if self._how is None:
            self._connection.close()
            self._how = self._server.end(self.pid)
        return self._how
