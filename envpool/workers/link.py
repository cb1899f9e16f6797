"""One worker as the pool sees it: its socket, what it was sent, what waits to be sent.

A worker answers in order, so the oldest request without an answer is the one in its hands.
"""

import asyncio
import socket
from collections import deque
from contextlib import suppress
from typing import Any, Protocol, cast

import msgspec

from envpool.core.errors import PoolError, WorldError
from envpool.core.host_answers import Answer, Loaded
from envpool.offloaded.env import OffloadedEnv
from envpool.workers.codec import Frames, frame, reply_of
from envpool.workers.wire import (
    Call,
    Forget,
    Load,
    Refused,
    Replay,
    Replayed,
    Reply,
    Request,
    Unload,
    Verified,
    Verify,
)

_READ = 2**18  # bytes at a time
_FORGOTTEN_AT_ONCE = 64  # worlds named in one Forget
_REPLIES: dict[type, tuple[type[Reply], ...]] = {
    type(None): (Answer,),  # a CallJob
    Load: (Loaded, Refused),
    Verify: (Verified,),
    Replay: (Replayed,),
}


class WorkerProcess(Protocol):
    """A worker's process, as the zygote gives it (see envpool.workers.fork_client)."""

    @property
    def pid(self) -> int:
        """Its process id."""

    @property
    def socket(self) -> socket.socket:
        """Our end of its socket; whoever asked for the worker closes it."""

    def kill(self) -> None:
        """End it at once; nothing happens where it has ended."""

    async def wait(self) -> str:
        """How it ended, in words, once it has."""

    def cpu_s(self) -> float:
        """CPU seconds that it has used, also when it has ended."""

    def rss(self) -> int:
        """Bytes of memory that it occupies."""


class Job:
    """A request that somebody waits for. The reply may be a Failed that was made here."""

    __slots__ = ("_request", "future", "scenario_digest")

    patience = 10  # times longer than a call it may take until it is slow

    def __init__(self, package: str, request: Load | Verify | Replay | None) -> None:
        self.scenario_digest = package
        self.future: asyncio.Future[Reply | Exception] = asyncio.get_running_loop().create_future()
        self._request = request  # None: a CallJob

    @property
    def home(self) -> Any:
        """The link that has what the request is about; None: any will do."""
        return None

    @property
    def load(self) -> Load | None:
        """The request, where it brings a scenario; None: it is about one that must be there."""
        return self._request if isinstance(self._request, Load) else None

    @property
    def expects(self) -> tuple[type[Reply], ...]:
        """What a worker may reply, besides Stale and Failed."""
        return _REPLIES[type(self._request)]

    @property
    def stamina(self) -> int:
        """Times longer than a call it may take at all."""
        return 10 if isinstance(self._request, Replay) else 1

    def message(self, number: int, link: "Link") -> Request:
        """The request as it is sent on this link under this number."""
        assert self._request is not None
        return msgspec.structs.replace(self._request, id=number)

    def unsettle(self) -> None:
        """Rely on nothing that a worker has."""

    def settle(self, reply: Reply) -> None:
        """Give the reply to who waits for it, if anybody still does."""
        if not self.future.done():
            self.future.set_result(reply)

    def fail(self, exc: Exception) -> None:
        """Raise this where the reply is waited for, if anybody still does."""
        if not self.future.done():
            self.future.set_result(exc)

    async def reply(self) -> Reply:
        """The reply. Whoever is cancelled here has left: a reply that still comes is dropped."""
        result = await self.future
        if isinstance(result, Exception):
            raise result
        return result


class CallJob(Job):
    """A tool call on a held world."""

    __slots__ = ("_arguments", "_name", "_version", "env", "with_state")

    patience = 1

    def __init__(self, env: OffloadedEnv, name: str, arguments: bytes) -> None:
        super().__init__(env.world.scenario.digest, None)
        self.env = env
        self.with_state = False  # the state was sent along
        self._version = env.version
        self._name = name
        self._arguments = arguments

    @property
    def home(self) -> Any:
        return self.env.home

    def unsettle(self) -> None:
        self.env.home = None

    def message(self, number: int, link: "Link") -> Request:
        """The call, with the world's state where the link does not have it. Raises WorldError when
        the world went on without the call."""
        env = self.env
        if env.version != self._version:
            raise WorldError(f"the world was reset before {self._name} ran")
        state = None if env.home is link else env.snapshot()
        env.home, self.with_state = link, state is not None
        return Call(
            number,
            self.scenario_digest,
            env.number,
            self._version,
            self._name,
            self._arguments,
            state,
        )


class Sent:
    """A request that a worker has and has not answered."""

    __slots__ = ("job", "moved", "number")

    def __init__(self, number: int, job: Job) -> None:
        self.number = number
        self.job = job
        self.moved = False  # it was sent to another worker too: this one's answer is dropped

    @property
    def awaited(self) -> bool:
        """Whether somebody waits for this worker's answer."""
        return not self.moved and not self.job.future.done()


class Watches(Protocol):
    """Who is told what comes from a worker."""

    def replied(self, link: "Link", reply: Reply) -> None:
        """A reply came."""

    def garbled(self, link: "Link", why: str) -> None:
        """What came is no reply."""

    def lost(self, link: "Link") -> None:
        """Nothing will come any more."""


class Link(asyncio.Protocol):
    """The pool's end of one worker. `pump` sends what waits, as far as the window is open."""

    def __init__(self, process: WorkerProcess, watcher: Watches, window: int) -> None:
        self.process = process
        self.ready = False  # the worker has said that it is up
        self.suspect = False  # it takes long over what is in its hands
        self.tired = False  # it is to go when it has answered what it has
        self.dead = False
        self.hung_up = False  # nothing can be sent to it any more
        self.looks = 0  # at the request in its hands, or at its start (see Dispatcher.look)
        self.cpu_s = 0.0  # CPU seconds that it had used at the first of them
        self.given = 0  # when a world was last given to it, as the dispatcher counts
        self.num_replies = 0
        self.level = ""  # of the sandbox that holds it
        self.sent: deque[Sent] = deque()
        self.queue: deque[Job] = deque()
        self.packages: dict[str, None] = {}  # that it hosts, the latest used last
        self.loading: set[str] = set()  # that it was asked to host
        self._watcher = watcher
        self._window = window
        self._frames = Frames()
        self._forgotten: list[int] = []
        self._numbers = 0
        self._transport: asyncio.WriteTransport | None = None
        # A transport whose write fails closes its socket, whatever is there to be read.
        self._ear = process.socket.dup()

    def __repr__(self) -> str:
        word = "dead" if self.dead else "suspect" if self.suspect else "ready"
        return (
            f"<Link to worker {self.process.pid} [{len(self.sent)} sent, {len(self.queue)} wait, "
            f"{len(self.packages)} scenarios, {word if self.ready else 'starting'}]>"
        )

    @property
    def usable(self) -> bool:
        """Whether requests may be given to it."""
        return self.ready and not (self.suspect or self.dead or self.hung_up)

    @property
    def num_packages(self) -> int:
        """Scenarios that it hosts or will."""
        return len(self.packages) + len(self.loading)

    @property
    def load(self) -> int:
        """Requests that it was given and has not answered."""
        return len(self.sent) + len(self.queue)

    @property
    def full(self) -> bool:
        """Whether what it is given has to wait to be sent."""
        return len(self.sent) >= self._window or bool(self.queue)

    def put(self, job: Job) -> None:
        """Send the job, after those that wait already."""
        self.queue.append(job)
        if len(self.sent) < self._window:
            self.pump()

    def pump(self) -> None:
        """Send what waits, as far as the window is open."""
        while self.queue and len(self.sent) < self._window:
            job = self.queue.popleft()
            if job.future.done():
                continue  # who waited has left
            self._numbers += 1
            try:
                data = frame(job.message(self._numbers, self))
            except Exception as exc:  # a reset world, a state too long to be sent
                job.fail(exc)
                continue
            if not self.sent:
                self.looks = 0
            self.sent.append(Sent(self._numbers, job))
            if job.scenario_digest in self.packages:
                del self.packages[job.scenario_digest]
                self.packages[job.scenario_digest] = None
            self._write(data)

    def forget(self, world: int) -> None:
        """The world is over: the worker may drop its state, which is told it some time."""
        self._forgotten.append(world)
        if len(self._forgotten) >= _FORGOTTEN_AT_ONCE:
            self._write(frame(Forget(tuple(self._forgotten))))
            self._forgotten.clear()

    def unload(self, package: str) -> None:
        """Drop a scenario."""
        self.packages.pop(package, None)
        self._write(frame(Unload(package)))

    def answered(self, number: int) -> Sent | None:
        """The request that this is the answer to; None: it is not the one in the worker's hands."""
        if not self.sent or self.sent[0].number != number:
            return None
        self.looks = 0
        self.num_replies += 1
        return self.sent.popleft()

    def end(self) -> None:
        """End the worker and the connection."""
        self.dead = True
        self.process.kill()
        if self._transport is not None:
            self._transport.abort()
        self._ear.close()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        if self.dead:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._frames.feed(data):
                self._watcher.replied(self, reply_of(body))
                if self.dead:
                    return
        except PoolError as exc:
            self._watcher.garbled(self, str(exc))

    def connection_lost(self, exc: Exception | None) -> None:
        if self.dead:
            return
        self.hung_up = True
        with suppress(OSError):
            while not self.dead and (data := self._ear.recv(_READ)):
                self.data_received(data)
        self._watcher.lost(self)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not (self.dead or self.hung_up):
            self._transport.write(data)
