"""The pool's connection to one worker: its socket, the jobs it received, the jobs that wait.

A worker answers in order, so its oldest unanswered request is the one that it executes.

Invariant: the first job decides for which scenario a worker works, and it gets jobs of no other.
One that runs a verifier gets no second job.
"""

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import Protocol, cast

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.workers.messages.codec import WorkerFrames, frame, reply_of
from rehearsal_room.envpool.workers.messages.jobs import Job, SentJob
from rehearsal_room.envpool.workers.messages.wire import Forget, WorkerReply

_READ_BYTES = 2**18  # at a time
_MAX_FORGOTTEN = 64  # worlds named in one Forget


class ProcessHandle(Protocol):
    """A worker's process, as the fork server client provides it (envpool.workers.fork_client)."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def socket(self) -> socket.socket:
        """The pool's end of its socket; the caller of `spawn` closes it."""

    def kill(self) -> None:
        """End it at once; does nothing when it has ended."""

    async def wait(self) -> str:
        """Wait until it has ended; returns how, as a sentence."""

    def cpu_s(self) -> float:
        """CPU seconds that it has used, also after its end."""

    def rss(self) -> int:
        """Its resident memory, in bytes."""

    def num_threads(self) -> int:
        """Its threads as the kernel counts them; 0 or less when it has ended."""


class ConnectionListener(Protocol):
    """Handles the events of connections."""

    def on_reply(self, worker: "WorkerConnection", reply: WorkerReply) -> None:
        """A reply came."""

    def on_invalid_data(self, worker: "WorkerConnection", why: str) -> None:
        """The worker sent bytes that are not a reply."""

    def on_disconnect(self, worker: "WorkerConnection") -> None:
        """The worker will send nothing more."""


class WorkerConnection(asyncio.Protocol):
    """The pool's connection to one worker. `put` appends a job; `pump` sends waiting jobs while the
    window is open."""

    def __init__(self, process: ProcessHandle, listener: ConnectionListener, window: int) -> None:
        self.process = process
        self.ready = False  # the worker has sent Ready
        self.suspect = False  # its current request takes long
        self.draining = False  # it ends once it has answered its requests
        self.paused = False  # it has more threads than it may have: see envpool.kernel.thread_count
        self.unproven: list[tuple[SentJob, WorkerReply]] = []  # its answers since it is paused
        self.dead = False
        self.disconnected = False  # nothing can be sent any more
        self.ticks = 0  # spent on the current request, or on starting (see Supervisor.tick)
        self.cpu_s = 0.0  # CPU seconds that it had used at the first of these ticks
        self.scenario_digest = ""  # whose code it executes; empty: it has executed none
        self.hosting = False  # it has loaded its scenario
        self.has_turn = False  # it may execute (see envpool.workers.turns)
        self.has_asked = False  # it waits for its turn
        self.used_at = 0  # when it last received a job, by the dispatcher's count
        self.rss = 0  # bytes of resident memory when it was last measured
        self.rss_at = -1  # replies that it had sent then
        self.rss_ready = 0  # bytes of resident memory before it executed anything
        self.num_replies = 0
        self.level = ""  # of its sandbox
        self.sent: deque[SentJob] = deque()
        self.queue: deque[Job] = deque()
        self._listener = listener
        self._window = window
        self._frames = WorkerFrames()
        self._forgotten: list[int] = []
        self._last_number = 0
        self._transport: asyncio.WriteTransport | None = None
        self._is_open = False  # the event loop owns the socket
        # A transport whose write fails closes its socket, even with unread data in it.
        self._read_socket = process.socket.dup()

    def __repr__(self) -> str:
        word = "dead" if self.dead else "suspect" if self.suspect or self.paused else "ready"
        return (
            f"<WorkerConnection {self.process.pid} [{len(self.sent)} sent, "
            f"{len(self.queue)} wait, scenario {self.scenario_digest[:8] or 'none'}, "
            f"{word if self.ready else 'starting'}]>"
        )

    @property
    def usable(self) -> bool:
        """Whether it takes requests."""
        return self.ready and not (self.suspect or self.paused or self.dead or self.disconnected)

    @property
    def is_empty(self) -> bool:
        """Whether it has executed nothing and can become the worker of any scenario."""
        return self.usable and not self.scenario_digest

    @property
    def takes_calls(self) -> bool:
        """Whether it takes calls on worlds of its scenario, now or when it is no longer paused."""
        ends = self.suspect or self.draining or self.dead or self.disconnected
        return self.hosting and not ends

    @property
    def load(self) -> int:
        """Requests that it was given and has not answered."""
        return len(self.sent) + len(self.queue)

    @property
    def full(self) -> bool:
        """Whether a new request has to wait before it is sent."""
        return len(self.sent) >= self._window or bool(self.queue)

    @property
    def is_executing(self) -> bool:
        """Whether it has not answered all that was sent to it."""
        return bool(self.sent)

    def num_threads(self) -> int:
        """The threads of the worker; see `ProcessHandle`."""
        return self.process.num_threads()

    def put(self, job: Job) -> None:
        """Append a job to those that wait. The first decides whose code this worker executes."""
        assert self.scenario_digest in ("", job.scenario_digest), "one worker, one scenario"
        assert not (job.is_verdict and self.scenario_digest), "a verifier's process is fresh"
        self.scenario_digest = job.scenario_digest
        self.queue.append(job)

    def pump(self) -> None:
        """Send waiting jobs while the window is open."""
        while self.queue and len(self.sent) < self._window and not self.paused:
            if self.sent and (self.sent[-1].job.alone or self.queue[0].alone):
                return
            job = self.queue.popleft()
            if job.future.done():
                continue  # its task has left
            self._last_number += 1
            try:
                data = frame(job.message(self._last_number, self))
            except Exception as exc:  # a reset world, a state too long to be sent
                job.fail(exc)
                continue
            if not self.sent:
                self.ticks = 0
            job.ran_in = self.process.pid
            self.sent.append(SentJob(self._last_number, job))
            self._write(data)

    def forget(self, world: int) -> None:
        """Let the worker drop the state of a world that has ended; sent in batches."""
        self._forgotten.append(world)
        if len(self._forgotten) >= _MAX_FORGOTTEN:
            self._write(frame(Forget(tuple(self._forgotten))))
            self._forgotten.clear()

    def take_answered(self, number: int) -> SentJob | None:
        """Remove and return the job with this number; None: it is not the current request."""
        if not self.sent or self.sent[0].number != number:
            return None
        self.ticks = 0
        self.num_replies += 1
        return self.sent.popleft()

    def end(self) -> None:
        """End the worker and the connection."""
        self.dead = True
        self.process.kill()
        if self._is_open and self._transport is not None:
            self._transport.abort()
        self._read_socket.close()

    def set_open(self) -> None:
        """The event loop owns the socket from now on.

        Before that, the transport is not aborted: uvloop gives it the socket last, and would never
        close it.
        """
        self._is_open = True
        if self.dead and self._transport is not None:
            self._transport.abort()

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                self._listener.on_reply(self, reply_of(body))
                if self.dead:
                    return
        except PoolError as exc:
            self._listener.on_invalid_data(self, str(exc))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.dead:
            return
        self.disconnected = True
        with suppress(OSError):
            while not self.dead and (data := self._read_socket.recv(_READ_BYTES)):
                self.data_received(data)
        self._listener.on_disconnect(self)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not (self.dead or self.disconnected):
            self._transport.write(data)
