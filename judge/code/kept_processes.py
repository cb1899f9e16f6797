"""Processes that verify, kept for the next verdict. They are ended by the clock, and replaced.

    world = VerdictWorld(states, source)
    verified, seconds = await world.verified_beside(task, state, answer, deadline=30.0)

A process is a new interpreter, with this one's environment and search path. It is started when a
verdict needs it, which takes about a third of a second, and is kept until this process exits. Any
event loop of any thread may use it; one verdict at a time does. A forked process starts its own.
"""

import atexit
import os
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from itertools import count

import anyio
import msgspec
from anyio.lowlevel import RunVar

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.core.remote_states import Verified
from rehearsal_room.envpool.core.types import StoredState
from rehearsal_room.envpool.store.states import States
from rehearsal_room.envpool.workers.messages.codec import WorkerFrames, frame, reply_of
from rehearsal_room.envpool.workers.messages.wire import Load
from rehearsal_room.envpool.workers.pool import for_verifier
from rehearsal_room.judge.code.verdict_process import Question, used
from rehearsal_room.scenarios.api import RowChange
from rehearsal_room.scenarios.format import Task

_MOST = 8  # processes at a time, in one event loop
_READ_BYTES = 2**18  # at a time
_LIMITER = RunVar[anyio.CapacityLimiter]("verdict_processes")
_NUMBERS = count()  # of worlds
_IDLE: dict[int, list["_Process"]] = {}  # by the id of the process that started them


class VerdictWorld:
    """A world whose verifiers run in these processes. `source` is the text of its verify.py."""

    def __init__(self, states: States, source: str) -> None:
        self._states = states
        self._source = source
        self._number = next(_NUMBERS)

    async def verified_beside(
        self,
        task: Task,
        state: StoredState,
        answer: str,
        changes: Sequence[RowChange] | None = None,
        *,
        deadline: float,
    ) -> tuple[Verified, float]:
        """What the verifier returns, and the seconds that it took there. `changes` are the
        episode's net changes, where they are known. Cancelling ends the process.

        Raises StateError for a state of another world, TimeoutError after `deadline` seconds, the
        interpreter's start included, and PoolError for a process that ends without an answer.
        """
        self._states.restored(state)
        question = Question(
            0,
            self._number,
            b"",
            task.id,
            self._states.snapshot_of(state),
            answer.encode(errors="replace").decode(),
            None if changes is None else tuple(changes),
        )
        async with _limiter():
            process = _taken()
            try:
                with anyio.fail_after(deadline):
                    verified = await process.answer(question, self)
            except TimeoutError:
                process.end()
                raise
            except (OSError, PoolError) as exc:
                status = process.end()
                raise PoolError(f"it ended its process, with status {status}") from exc
            except BaseException:
                process.end()
                raise
            _IDLE.setdefault(os.getpid(), []).append(process)
        return verified, float(verified.detail)

    def load_for(self, worlds: OrderedDict[int, None]) -> bytes:
        """What a process needs of the world that has these: nothing where it is among them. It is
        among them from now on."""
        is_new = self._number not in worlds
        worlds[self._number] = None
        used(worlds, self._number)
        if not is_new:
            return b""
        scenario = self._states.scenario
        bare = for_verifier(scenario, "")
        return frame(Load(0, bare, self._source, self._states.template.image))[4:]


class _Process:
    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        self._worlds = OrderedDict[int, None]()  # that it has
        self._frames = WorkerFrames()
        self._ids = count()
        with theirs:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                [sys.executable, "-P", "-m", "rehearsal_room.judge.code.verdict_process"],
                stdin=theirs.fileno(),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # which Ctrl-C does not reach
            )

    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def answer(self, question: Question, world: VerdictWorld) -> Verified:
        """Raises OSError when the process ends, and PoolError for bytes that are not an answer."""
        number, load = next(self._ids), world.load_for(self._worlds)
        await self._send(msgspec.structs.replace(question, id=number, load=load).encoded())
        reply = reply_of(await self._received())
        if not isinstance(reply, Verified) or reply.id != number:
            raise PoolError("another answer was expected")
        return reply

    def end(self) -> int:
        """Kill it, if it lives; the status with which it ended."""
        self._socket.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    async def _send(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._socket)

    async def _received(self) -> bytes:
        while True:
            try:
                data = self._socket.recv(_READ_BYTES)
            except BlockingIOError:
                await anyio.wait_readable(self._socket)
                continue
            if not data:
                raise ConnectionResetError
            for body in self._frames.feed(data):
                return body


def _taken() -> _Process:
    """A process that nobody uses. Raises OSError where none can be started."""
    idle = _IDLE.setdefault(os.getpid(), [])
    while idle:
        with suppress(IndexError):  # another thread took it
            process = idle.pop()
            if process.is_alive():
                return process
            process.end()
    return _Process()


@atexit.register
def _end_idle() -> None:
    for process in _IDLE.pop(os.getpid(), ()):
        process.end()


def _limiter() -> anyio.CapacityLimiter:
    try:
        return _LIMITER.get()
    except LookupError:
        limiter = anyio.CapacityLimiter(min(_MOST, len(os.sched_getaffinity(0))))
        _LIMITER.set(limiter)
        return limiter
