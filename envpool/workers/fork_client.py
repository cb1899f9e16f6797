"""A pool's fork server as the pool sees it: it starts workers and tells how they ended.

    async with Zygote(ZygoteSettings()) as zygote:
        worker = await zygote.spawn()   # a process that speaks envpool.workers.wire on its socket
        worker.kill()
        await worker.wait()             # -> "its connection to the pool ended, and it was killed"

The process is `envpool.workers.fork_server`, started by exec (never by a fork of this process) and
wrapped by bubblewrap where that serves. When this process dies, or leaves the block, all workers
die. It must be entered from a thread that lives as long as the block does: the kernel ends the fork
server with the thread that started it.
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
from pathlib import Path
from types import TracebackType
from typing import IO

import anyio
import msgspec

from envpool.core.errors import PoolError
from envpool.workers.fork_wire import MAX_PACKET, Begin, Died, Spawn, Spawned, Up, Word
from envpool.workers.sandbox import (
    Limits,
    bubblewrap,
    environment,
    require,
    why_no_bubblewrap,
)

_INSIDE = "/scratch"  # where bubblewrap mounts the scratch folders
_SECONDS_TO_START = 60.0
_SECONDS_TO_END = 5.0
_MAX_TOLD = 2_000  # characters of the fork server's last words
_word = msgspec.msgpack.Decoder(Word).decode

# How workers end: status (negative: a signal) -> words. See envpool.workers.worker for our own.
_ENDS = {
    0: "it ended as it was asked to",
    1: "it was not started in time to be held by its parent",
    81: "the sandbox's walls could not be raised around it",
    82: "its connection to the pool ended: the code closed it, or the pool did",
    83: "it ended after a violation",
    -signal.SIGSYS: "it was killed by the sandbox (SIGSYS): the code made a forbidden system call",
    -signal.SIGSEGV: "it crashed (SIGSEGV)",
    -signal.SIGABRT: "it aborted (SIGABRT)",
    -signal.SIGXCPU: "it used up the CPU time of its life (SIGXCPU)",
    -signal.SIGXFSZ: "it wrote a file that is too large (SIGXFSZ)",
    -signal.SIGKILL: "it was killed (SIGKILL), as for want of memory",
}


class ZygoteSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How workers are held."""

    sandbox: str = "best"  # best, off, required or a level: see envpool.workers.sandbox.require
    limits: Limits = Limits()


class WorkerProcess:
    """A worker's process. Whoever asked for it closes its socket; `kill` ends it."""

    def __init__(self, connection: socket.socket, spawned: Spawned, pidfd: int, level: str) -> None:
        self.socket = connection  # our end
        self.level = level  # of the sandbox
        self.pid = _pid_of(pidfd)  # as this process sees it
        self._name = spawned.pid
        self._pidfd = pidfd
        self._killed = False
        self._ended = asyncio.Event()
        self._words = ""
        self._cpu_s = 0.0  # of its life, once it has ended

    def __repr__(self) -> str:
        return f"<WorkerProcess {self.pid} [{self.level}] {self._words or 'runs'}>"

    def kill(self) -> None:
        """End it at once; nothing happens where it has ended."""
        if not self._ended.is_set():
            self._killed = True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait(self) -> str:
        """How it ended, in words."""
        await self._ended.wait()
        return self._words

    def cpu_s(self) -> float:
        """CPU seconds that it has used, also when it has ended."""
        if not self._ended.is_set():
            with contextlib.suppress(OSError, IndexError):
                told = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
                user, system = told.rpartition(")")[2].split()[11:13]
                return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
        return self._cpu_s

    def rss(self) -> int:
        """Bytes of memory that it occupies, shared ones included; 0 when it has ended."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        except (OSError, IndexError):
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def ended(self, status: int | None, cpu_s: float) -> None:
        """Told by the zygote. `status` None: it is not known."""
        self._cpu_s = cpu_s
        self._words = self._words or self._told(status)
        if not self._ended.is_set():
            self._ended.set()
            os.close(self._pidfd)

    def _told(self, status: int | None) -> str:
        if status is None:
            return "it ended with the fork server"
        if status == -signal.SIGKILL and self._killed:
            return "its connection to the pool ended, and it was killed"
        if status in _ENDS:
            return _ENDS[status]
        if status < 0:
            return f"it was ended by signal {signal.Signals(-status).name}"
        return f"it ended with exit status {status}, by the code's own doing"


class Zygote:
    """The handle of one fork server. Raises PoolError where it cannot be had, or not as settled."""

    def __init__(self, settings: ZygoteSettings | None = None) -> None:
        self.settings = settings or ZygoteSettings()
        self.level = ""  # of the sandbox, once it is up
        self.missing: tuple[str, ...] = ()  # why the level is not better
        self._workers: dict[int, WorkerProcess] = {}  # alive, by the fork server's pid
        self._known: dict[int, WorkerProcess] = {}  # by pid, until their obituary was asked for
        self._waiting: dict[int, tuple[socket.socket, asyncio.Future[WorkerProcess]]] = {}
        self._numbers = 0
        self._scratch = ""  # the workers' scratch folders lie in it; empty: out of our sight
        # The fork server's own complaints; workers have no standard error.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with us
        self._fault = ""  # why it is gone; empty: it is there

    def __repr__(self) -> str:
        return f"<Zygote [{self.level or 'down'} | {len(self._workers)} workers]>"

    async def __aenter__(self) -> "Zygote":
        why = "" if self.settings.sandbox != "off" else "the sandbox is off"
        why = why or await anyio.to_thread.run_sync(why_no_bubblewrap)
        try:
            if why:  # bubblewrap has its own
                place = self.settings.limits.scratch or None
                self._scratch = tempfile.mkdtemp(prefix="rehearsal-", dir=place)
            self._start(wrapped=not why)
            await self._come_up(why)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()

    async def spawn(self) -> WorkerProcess:
        """Fork a worker. Its first frame is Ready. Raises PoolError: the fork server is gone."""
        if self._fault:
            raise PoolError(self._fault)
        ours, theirs = socket.socketpair()
        self._numbers += 1
        future = asyncio.get_running_loop().create_future()
        self._waiting[self._numbers] = (ours, future)
        with theirs:
            order = msgspec.msgpack.encode(Spawn(self._numbers))
            try:
                socket.send_fds(self._control, [order], [theirs.fileno()])
            except OSError as exc:
                del self._waiting[self._numbers]
                ours.close()
                raise PoolError(f"the fork server of the workers is gone: {exc}") from exc
        worker: WorkerProcess = await future
        return worker

    async def obituary(self, pid: int) -> str:
        """How the worker of this pid ended, in words; waits until it has. To be asked once."""
        try:
            return await self._known[pid].wait()
        finally:
            self._known.pop(pid, None)

    def _start(self, wrapped: bool) -> None:
        scratch = _INSIDE if wrapped else self._scratch
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        command = [sys.executable, "-m", "envpool.workers.fork_server"]
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
        begin = Begin(self.settings.sandbox, wrapped, scratch, self.settings.limits)
        self._control.send(msgspec.msgpack.encode(begin))

    async def _come_up(self, why: str) -> None:
        """Wait until the fork server is warm. `why`: what kept bubblewrap away."""
        loop = asyncio.get_running_loop()
        self._up: asyncio.Future[Up] = loop.create_future()
        loop.add_reader(self._control.fileno(), self._read)
        try:
            with anyio.fail_after(_SECONDS_TO_START):
                up = await self._up
        except TimeoutError:
            raise PoolError(
                f"the fork server of the workers was not up in {_SECONDS_TO_START:.0f} s"
            ) from None
        self.level = up.level
        self.missing = (f"bubblewrap: {why}", *up.missing) if why else up.missing
        require(self.settings.sandbox, self.level, self.missing)

    def _read(self) -> None:
        """Something came from the fork server."""
        try:
            packet, descriptors, _, _ = socket.recv_fds(self._control, MAX_PACKET, 1)
        except BlockingIOError:
            return
        except OSError:
            packet, descriptors = b"", []
        if not packet:
            return self._lost()
        match _word(packet):
            case Up() as up:
                if not self._up.done():
                    self._up.set_result(up)
            case Spawned() as spawned:
                self._spawned(spawned, descriptors[0])
            case Died(pid, status, cpu_s):
                self._workers.pop(pid).ended(status, cpu_s)

    def _spawned(self, spawned: Spawned, pidfd: int) -> None:
        connection, future = self._waiting.pop(spawned.id)
        worker = WorkerProcess(connection, spawned, pidfd, self.level)
        self._workers[spawned.pid] = worker
        if future.done():  # who asked has left
            worker.kill()
            connection.close()
        else:
            self._known[worker.pid] = worker
            future.set_result(worker)

    def _lost(self) -> None:
        """The fork server is gone, and with it every worker."""
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._errors.seek(0)
        told = self._errors.read().decode(errors="replace").strip()[-_MAX_TOLD:]
        self._fault = f"the fork server of the workers has ended: {told or 'it said nothing'}"
        if not self._up.done():
            self._up.set_exception(PoolError(self._fault))
        self._abandon()

    def _abandon(self) -> None:
        """There is nobody any more who would tell of workers that were asked for, or run."""
        for connection, future in self._waiting.values():
            connection.close()
            if not future.done():
                future.set_exception(PoolError(self._fault))
        self._waiting.clear()
        for worker in self._workers.values():
            worker.kill()
            worker.ended(None, worker.cpu_s())
        self._workers.clear()

    async def _close(self) -> None:
        """End the fork server and all workers, and delete what they wrote."""
        if not self._fault and hasattr(self, "_up"):
            asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._fault = self._fault or "the fork server of the workers was closed"
        if hasattr(self, "_process"):
            self._control.close()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_ended, self._process)
        self._abandon()
        self._errors.close()
        if self._scratch:
            os.chmod(self._scratch, 0o700)  # the fork server made it unreadable
            shutil.rmtree(self._scratch, ignore_errors=True)


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _pid_of(pidfd: int) -> int:
    """A process's id in this process's namespace."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Pid:"))
