"""Stand-ins of worker processes, controlled by a script: they execute calls on real worlds, over
sockets, in tasks of this process.

Before a worker executes a request it calls the script, which may wait (a slow or hanging call),
raise `Dies`, return another reply (a lie), return bytes that are not a frame, or return None: then
the worker executes the request as a real one does.
"""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
import msgspec

from rehearsal_room.envpool.core.errors import PoolError, SeedError
from rehearsal_room.envpool.core.remote_states import CallOutcome, Loaded, Verified
from rehearsal_room.envpool.hosting.package_verifiers import verify_package
from rehearsal_room.envpool.inprocess.verifiers import VerifierFault
from rehearsal_room.envpool.inprocess.world import HostedScenario
from rehearsal_room.envpool.remote_execution.owned_tasks import OwnedTasks
from rehearsal_room.envpool.store.overlay import Overlay
from rehearsal_room.envpool.workers.messages.codec import WorkerFrames, frame, request_of
from rehearsal_room.envpool.workers.messages.wire import (
    Forget,
    HostingRefused,
    Load,
    Replay,
    Replayed,
    Stale,
    Verify,
    WorkerCall,
    WorkerReady,
    WorkerReply,
    WorkerRequest,
)
from rehearsal_room.envpool.workers.pool import WorkerSettings

Script = Callable[["StandInWorker", WorkerRequest], Awaitable[WorkerReply | bytes | None]]


class Dies(Exception):
    """The worker dies in the middle of a request; the text is its exit reason."""


class StandInWorker:
    """One worker. It implements envpool.workers.messages.connection.ProcessHandle."""

    def __init__(self, pid: int, script: Script) -> None:
        self.pid = pid
        self.socket, self._theirs = self.connect()
        self._theirs.setblocking(False)
        self.level = "stand-in"
        self.executed: list[str] = []  # tools, in order
        self.loaded: list[str] = []  # scenarios, in order
        self.num_requests = 0
        self.forgotten: list[int] = []  # worlds
        self.num_states = 0  # states that were sent with calls
        self.num_bytes = 0  # the memory that it reports
        self.threads = 1  # that the kernel counts
        self.computes = True  # whether it uses CPU while it executes
        self.exit_reason = ""
        self.at_end: Callable[[], object] = lambda: None  # called when it has closed its socket
        self.at_first_request: Callable[[StandInWorker], object] = lambda worker: None
        self._script = script
        self._ended = asyncio.Event()
        self._began = 0.0  # when its current request began
        self._scope = anyio.CancelScope()
        self._hosts: dict[str, HostedScenario] = {}
        self._states: dict[int, tuple[int, Overlay]] = {}  # world -> version, state

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """The pool's end of the connection, and this one."""
        return socket.socketpair()

    def kill(self) -> None:
        self.exit_reason = self.exit_reason or "it was killed by the pool"
        self._scope.cancel()

    async def wait(self) -> str:
        await self._ended.wait()
        return self.exit_reason

    def cpu_s(self) -> float:
        busy = self._began and self.computes and not self._ended.is_set()
        return 1.0 + (time.monotonic() - self._began if busy else 0.0)

    def rss(self) -> int:
        return self.num_bytes

    def num_threads(self) -> int:
        return self.threads

    async def serve(self) -> None:
        """Answer until the pool closes the socket, the script raises Dies, or it is killed."""
        try:
            with self._scope:
                await self._serve()
        finally:
            for world in self._hosts.values():
                world.close()
            self._theirs.close()
            self.at_end()
            self._ended.set()

    async def _serve(self) -> None:
        loop, frames = asyncio.get_running_loop(), WorkerFrames()
        with suppress(Dies, ConnectionError):
            await loop.sock_sendall(self._theirs, frame(WorkerReady(self.pid, self.level, 0)))
            while data := await loop.sock_recv(self._theirs, 65_536):
                for body in frames.feed(data):
                    request = request_of(body)
                    if not self.num_requests:
                        self.at_first_request(self)
                    self.num_requests += 1
                    scripted = await self._run_script(request)
                    reply = scripted if scripted is not None else self._execute(request)
                    if reply is not None:
                        sent = reply if isinstance(reply, bytes) else frame(reply)
                        await loop.sock_sendall(self._theirs, sent)
                    if getattr(reply, "violation", ""):
                        return  # as a real worker does

    async def _run_script(self, request: WorkerRequest) -> WorkerReply | bytes | None:
        self._began = time.monotonic()
        try:
            return await self._script(self, request)
        except Dies as exc:
            self.exit_reason = str(exc)
            raise
        finally:
            self._began = 0.0

    def _execute(self, request: WorkerRequest) -> WorkerReply | None:
        match request:
            case Load():
                return self._load(request)
            case WorkerCall():
                return self._call(request)
            case Verify():
                return self._verify(request)
            case Replay():
                return Replayed(request.id, float(sum(map(len, request.episodes))))
            case Forget():
                self.forgotten += request.worlds
        return None

    def _verify(self, request: Verify) -> Verified:
        """The real result; `label` and `detail` repeat the request."""
        assert not self._hosts, "a verifier gets a worker that has executed nothing"
        scenario, state = request.scenario, request.state
        overlay = Overlay(dict(state.pages), state.num_pages, int(state.digest, 16))
        detail = [request.answer, request.which]
        verified = Verified(request.id, label=request.task, detail=detail)
        try:
            findings = verify_package(
                scenario, request.source, request.image, overlay, request.task, request.answer
            )
        except VerifierFault as exc:
            return msgspec.structs.replace(verified, fault=str(exc))
        return msgspec.structs.replace(verified, findings=findings)

    def _load(self, request: Load) -> Loaded | HostingRefused:
        scenario = request.scenario
        assert not self._hosts, "one worker, one scenario"
        self.loaded.append(scenario.name)
        try:
            world = self._hosts[scenario.digest] = HostedScenario(scenario)
        except PoolError as exc:
            is_seed = isinstance(exc, SeedError)
            return HostingRefused(request.id, str(exc), "seed" if is_seed else "toolset")
        return Loaded(request.id, world.template.image, world.tools)

    def _call(self, request: WorkerCall) -> CallOutcome | Stale:
        version, overlay = self._states.pop(request.world, (-1, None))
        if request.state is not None:
            self.num_states += 1
            state = request.state
            overlay = Overlay(dict(state.pages), state.num_pages, int(state.digest, 16))
        elif version != request.version:
            overlay = None
        if overlay is None:
            return Stale(request.id)
        before = overlay.pages.copy()
        self.executed.append(request.name)
        arguments = json.loads(request.arguments)
        result = self._hosts[request.scenario_digest].call(overlay, request.name, arguments)
        self._states[request.world] = (request.version + 1, overlay)
        return CallOutcome(
            request.id,
            result.text,
            result.error,
            result.changes,
            result.digest,
            {n: page for n, page in overlay.pages.items() if before.get(n) is not page},
            overlay.num_pages,
        )


class StandInWorkers:
    """Starts stand-ins. It implements envpool.workers.pool.WorkerSpawner."""

    level = "stand-in"
    worker = StandInWorker

    def __init__(self, script: Script) -> None:
        self.started: list[StandInWorker] = []
        self.used: list[StandInWorker] = []  # in the order of their first requests
        self.fault = ""  # why no more workers can be started
        self._script = script

    @asynccontextmanager
    async def open(self, settings: WorkerSettings) -> AsyncIterator["StandInWorkers"]:
        async with OwnedTasks() as self._tasks:
            yield self

    async def spawn(self) -> StandInWorker:
        if self.fault:
            raise PoolError(self.fault)
        worker = self.worker(len(self.started) + 1, self._script)
        worker.at_first_request = self.used.append
        self.started.append(worker)
        self._tasks.start_soon(worker.serve)
        return worker


async def obedient(worker: StandInWorker, request: WorkerRequest) -> None:
    """A script that lets the worker execute everything."""
