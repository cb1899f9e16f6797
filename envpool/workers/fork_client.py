"""The pool's client of its fork server: it starts workers and reports how they ended.

    async with ForkServerClient(ForkServerSettings()) as fork_server:
        worker = await fork_server.spawn()  # a process that speaks envpool.workers.messages.wire
        worker.kill()
        await worker.wait()  # -> "its connection to the pool ended, and it was killed"

The process is `rehearsal_room.envpool.workers.fork_server`, started by exec (never by a fork of
this process) and wrapped by bubblewrap where that works. When this process dies, or leaves the
block, all workers die. Enter the block from a thread that lives as long as the block: the kernel
ends the fork server with the thread that started it.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Self

import anyio
import msgspec
from anyio import AsyncContextManagerMixin

from rehearsal_room.envpool.core.errors import PoolError
from rehearsal_room.envpool.kernel.thread_count import ThreadCount
from rehearsal_room.envpool.workers.fork_wire import (
    MAX_PACKET,
    Configure,
    Died,
    ServerMessage,
    Spawn,
    Spawned,
    Up,
)
from rehearsal_room.envpool.workers.sandbox import (
    WorkerLimits,
    bubblewrap,
    environment,
    require,
    why_no_bubblewrap,
)
from rehearsal_room.scenarios.distribution import install_command

_PACKAGES = ("fastapi", "jsonschema", "sqlalchemy", "time_machine")  # of extra awm
_INSIDE = "/scratch"  # where bubblewrap mounts the scratch folders
_SECONDS_TO_START = 60.0
_SECONDS_TO_END = 5.0
_MAX_ERRORS = 2_000  # characters of the fork server's standard error in a message
_read_message = msgspec.msgpack.Decoder(ServerMessage).decode

_CUT_OFF = "its connection to the pool ended, and it was killed"
_KILLED = "it was killed (SIGKILL), for example because memory ran out"
KILLED = {_CUT_OFF, _KILLED}  # the ends of a worker that something else has killed, or may have
# Exit status (negative: a signal) -> sentence. See envpool.workers.worker for our own statuses.
_EXIT_REASONS = {
    0: "it ended as requested",
    1: "its parent ended before it was confined",
    81: "the sandbox could not be applied to it",
    82: "its connection to the pool ended: the code or the pool closed it",
    83: "it ended after a violation",
    -signal.SIGSYS: "it was killed by the sandbox (SIGSYS): the code made a forbidden system call",
    -signal.SIGSEGV: "it crashed (SIGSEGV)",
    -signal.SIGABRT: "it aborted (SIGABRT)",
    -signal.SIGXCPU: "it used up its CPU time (SIGXCPU)",
    -signal.SIGXFSZ: "it wrote a file that is too large (SIGXFSZ)",
    -signal.SIGKILL: _KILLED,
}


class ForkServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How workers are confined."""

    sandbox: str = "best"  # best, off, required or a level: see envpool.workers.sandbox.require
    limits: WorkerLimits = WorkerLimits()


class WorkerProcess:
    """A worker's process. The caller of `spawn` closes its socket; `kill` ends it."""

    def __init__(self, connection: socket.socket, spawned: Spawned, pidfd: int, level: str) -> None:
        self.socket = connection  # the pool's end
        self.level = level  # of the sandbox
        self.pid = _pid_of(pidfd)  # in this process's namespace
        self._pidfd = pidfd
        self.num_threads = ThreadCount(self.pid)
        self._killed = False
        self._ended = asyncio.Event()
        self._exit_reason = ""
        self._cpu_s = 0.0  # total, once it has ended

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.pid} [{self.level}] {self._exit_reason or 'runs'}>"

    def kill(self) -> None:
        """End it at once; does nothing when it has ended."""
        if not self._ended.is_set():
            self._killed = True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait(self) -> str:
        """Wait until it has ended; returns how, as a sentence."""
        await self._ended.wait()
        return self._exit_reason

    def cpu_s(self) -> float:
        """CPU seconds that it has used, also after its end."""
        if not self._ended.is_set():
            with contextlib.suppress(OSError, IndexError):
                text = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
                user, system = text.rpartition(")")[2].split()[11:13]
                return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return self._cpu_s

    def rss(self) -> int:
        """Its resident memory in bytes, shared pages included; 0 when it has ended."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def set_ended(self, status: int | None, cpu_s: float) -> None:
        """Record its end, as the fork server reported it. `status` None: unknown."""
        self._cpu_s = cpu_s
        self._exit_reason = self._exit_reason or self._describe_exit(status)
        if not self._ended.is_set():
            self._ended.set()
            os.close(self._pidfd)
            self.num_threads.close()

    def _describe_exit(self, status: int | None) -> str:
        if status is None:
            return "it ended with the fork server"
        if status == -signal.SIGKILL and self._killed:
            return _CUT_OFF
        if status in _EXIT_REASONS:
            return _EXIT_REASONS[status]
        if status < 0:
            return f"it was ended by signal {signal.Signals(-status).name}"
        return f"it ended with exit status {status}, which the code chose"


class ForkServerClient(AsyncContextManagerMixin):
    """Starts one fork server and talks to it, in an `async with` block.

    Entering raises PoolError where it cannot be started, or not at the required sandbox level.
    """

    def __init__(self, settings: ForkServerSettings | None = None) -> None:
        self.settings = settings or ForkServerSettings()
        self.level = ""  # of the sandbox, once it is warm
        self.missing: tuple[str, ...] = ()  # why the level is not better
        self._workers: dict[int, WorkerProcess] = {}  # alive, by pid in the fork server's namespace
        self._waiting: dict[int, tuple[socket.socket, asyncio.Future[WorkerProcess]]] = {}
        self._last_id = 0
        self._scratch = ""  # the parent of the workers' scratch folders; empty: inside bubblewrap
        # The standard error of the fork server; workers have none.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with us
        self._fault = ""  # why it has ended; empty: it runs

    def __repr__(self) -> str:
        return f"<ForkServerClient [{self.level or 'down'} | {len(self._workers)} workers]>"

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        try:
            await self._open()
            yield self
        finally:
            await self._close()

    async def spawn(self) -> WorkerProcess:
        """Fork a worker; its first frame is Ready. Raises PoolError without a fork server."""
        if self._fault:
            raise PoolError(self._fault)
        ours, theirs = socket.socketpair()
        self._last_id += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting[self._last_id] = (ours, future)
        with theirs:
            packet = msgspec.msgpack.encode(Spawn(self._last_id))
            try:
                socket.send_fds(self._control, [packet], [theirs.fileno()])
            except OSError as exc:
                del self._waiting[self._last_id]
                ours.close()
                raise PoolError(f"the fork server of the workers has ended: {exc}") from exc
        worker: WorkerProcess = await future
        return worker

    async def _open(self) -> None:
        """Start the fork server and wait until it is warm."""
        _require_packages()
        why = "" if self.settings.sandbox != "off" else "the sandbox is off"
        at_most = self.settings.limits.at_most
        why = why or await anyio.to_thread.run_sync(why_no_bubblewrap, at_most)
        if why:  # bubblewrap mounts a scratch file system itself
            parent = self.settings.limits.scratch or None
            self._scratch = tempfile.mkdtemp(prefix="rehearsal-", dir=parent)
        self._start(wrapped=not why)
        await self._wait_until_up(why)

    def _start(self, wrapped: bool) -> None:
        scratch = _INSIDE if wrapped else self._scratch
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        command = [sys.executable, "-m", "rehearsal_room.envpool.workers.fork_server"]
        with theirs:
            self._process = subprocess.Popen(
                bubblewrap(scratch, command) if wrapped else command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=environment(scratch),
                cwd="/",
                start_new_session=True,
            )
        configure = Configure(self.settings.sandbox, wrapped, scratch, self.settings.limits)
        self._control.send(msgspec.msgpack.encode(configure))

    async def _wait_until_up(self, why: str) -> None:
        """Wait until the fork server is warm. `why`: the reason why bubblewrap is not used."""
        loop = asyncio.get_running_loop()
        self._up: asyncio.Future[Up] = loop.create_future()
        loop.add_reader(self._control.fileno(), self._read)
        try:
            with anyio.fail_after(_SECONDS_TO_START):
                up = await self._up
        except TimeoutError:
            raise PoolError(
                f"the fork server of the workers did not start within {_SECONDS_TO_START:.0f} s"
            ) from None
        self.level = up.level
        self.missing = (f"bubblewrap: {why}", *up.missing) if why else up.missing
        require(self.settings.sandbox, self.level, self.missing)

    def _read(self) -> None:
        """Read a packet of the fork server."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
        except BlockingIOError:
            return
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            return self._handle_end()
        match _read_message(packet):
            case Up() as up:
                if not self._up.done():
                    self._up.set_result(up)
            case Spawned() as spawned:
                self._handle_spawned(spawned, descriptors[0])
            case Died(pid, status, cpu_s):
                self._workers.pop(pid).set_ended(status, cpu_s)

    def _handle_spawned(self, spawned: Spawned, pidfd: int) -> None:
        connection, future = self._waiting.pop(spawned.id)
        worker = WorkerProcess(connection, spawned, pidfd, self.level)
        self._workers[spawned.pid] = worker
        if future.done():  # the caller was cancelled
            worker.kill()
            connection.close()
        else:
            future.set_result(worker)

    def _handle_end(self) -> None:
        """The fork server has ended, and every worker with it."""
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._errors.seek(0)
        errors = self._errors.read().decode(errors="replace").strip()[-_MAX_ERRORS:]
        errors = errors or "it wrote nothing to standard error"
        self._fault = f"the fork server of the workers has ended: {errors}"
        if not self._up.done():
            self._up.set_exception(PoolError(self._fault))
        self._end_workers()

    def _end_workers(self) -> None:
        """Fail the pending spawns and end the workers: no fork server reports them any more."""
        for connection, future in self._waiting.values():
            connection.close()
            if not future.done():
                future.set_exception(PoolError(self._fault))
        self._waiting.clear()
        for worker in self._workers.values():
            worker.kill()
            worker.set_ended(None, worker.cpu_s())
        self._workers.clear()

    async def _close(self) -> None:
        """End the fork server and all workers, and delete their files."""
        if not self._fault and hasattr(self, "_up"):
            asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._fault = self._fault or "the fork server of the workers was closed"
        if hasattr(self, "_process"):
            self._control.close()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_wait_or_kill, self._process)
        self._end_workers()
        self._errors.close()
        if self._scratch:
            os.chmod(self._scratch, 0o700)  # the fork server made it unreadable
            shutil.rmtree(self._scratch, ignore_errors=True)


def _require_packages() -> None:
    """Check that the packages of extra awm are installed. Raises PoolError."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise PoolError(
            "AWM records and the code of untrusted packages run in sandboxed workers, which need"
            f" the package {missing[0]}: {install_command('awm')}"
        )


def _wait_or_kill(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _pid_of(pidfd: int) -> int:
    """The id of a process in this process's namespace."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
