"""Processes of command agents: started in a folder of their own, watched, and ended with everything
that they started.

What belongs to an agent: its process, its children and theirs as they are seen four times a second,
and at the end every process whose environment has the agent's key. A daemon that has emptied its
environment and lost its parents within that time is not found; under bubblewrap the kernel ends all
of them.
"""

import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, Process

from rehearsal_room.harness.agents.driver import AgentFailed

KEY = "REHEARSE_KEY"  # the environment variable by which an agent's processes are known
_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOK_S = 0.25  # between two looks at the processes
_WEIGH_S = 1.0  # between two looks at the sizes of folders
_GRACE_S = 1.0  # to end after SIGTERM
_MAX_STDOUT = 1 << 20  # bytes of the beginning that are kept
_MAX_STDERR = 1 << 16  # bytes of the end that are kept


class ProcessLimits(msgspec.Struct, frozen=True):
    """What one agent may use, with its children."""

    memory: int  # bytes
    disk: int  # bytes


class Ran(msgspec.Struct, frozen=True):
    """What a process left."""

    stdout: str
    stderr: str
    status: int | None  # None: it was ended because the answer was there
    left_out: int  # bytes
    fault: str  # the limit that it broke, as a sentence; empty: none


class _Output:
    """The output of a stream, as far as it is kept."""

    def __init__(self, most: int, *, keeps_end: bool) -> None:
        self._most = most
        self._keeps_end = keeps_end
        self._data = bytearray()
        self.left_out = 0
        self.ended = anyio.Event()

    async def read(self, stream: ByteReceiveStream) -> None:
        """Read to the end; the pipe never fills up."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            async for chunk in stream:
                self._data += chunk
                surplus = len(self._data) - self._most
                if surplus > 0:
                    self.left_out += surplus
                    if self._keeps_end:
                        del self._data[:surplus]
                    else:
                        del self._data[self._most :]
        self.ended.set()

    def text(self) -> str:
        """What is kept."""
        return self._data.decode(errors="replace")


class RunningAgent:
    """One process, with what belongs to it."""

    def __init__(self, process: Process, key: str, folder: Path, limits: ProcessLimits) -> None:
        self.process = process
        self.key = key
        self.folder = folder
        self.limits = limits
        # pid -> start time, of what belongs to it
        self.known = {one.pid: one.start for one in _processes_of([process.pid])}
        self.fault = ""  # the limit that it broke, as a sentence
        self.scope = anyio.CancelScope()  # around the wait for its end

    def stop_for(self, fault: str) -> None:
        """End it, because it broke a limit."""
        self.fault = self.fault or fault
        self.scope.cancel()


class AgentProcesses:
    """The processes of all agents of a run. `watch` is its task."""

    def __init__(self) -> None:
        self._running: set[RunningAgent] = set()
        self._looking = anyio.Lock()
        self._next_look = _Look()

    def __repr__(self) -> str:
        return f"<AgentProcesses [{len(self._running)} running]>"

    async def watch(self) -> None:
        """Look after the processes until cancelled."""
        number = 0
        while True:
            await anyio.sleep(_LOOK_S)
            if not self._running:
                continue
            self._look()
            number += 1
            if number % round(_WEIGH_S / _LOOK_S) == 0:
                for agent in list(self._running):
                    size = await anyio.to_thread.run_sync(_size_of, agent.folder)
                    if size > agent.limits.disk:
                        agent.stop_for(
                            f"its files have {size >> 20:,} MiB, more than "
                            f"{agent.limits.disk >> 20:,} (--agent-disk-mb)"
                        )

    def _look(self) -> None:
        """Find the children of the agents, and add up their memory."""
        seen = {one.pid: one for one in _all_processes()}
        owners: dict[int, RunningAgent | None] = {}
        for agent in self._running:
            for pid, start in list(agent.known.items()):
                if pid in seen and seen[pid].start == start:
                    owners[pid] = agent
                else:
                    del agent.known[pid]
        memory = dict.fromkeys(self._running, 0)
        for one in seen.values():
            owner = _owner_of(one, seen, owners)
            if owner is not None:
                owner.known[one.pid] = one.start
                memory[owner] += one.memory
        for agent, used in memory.items():
            if used > agent.limits.memory:
                agent.stop_for(
                    f"it used {used >> 20:,} MiB of memory, more than "
                    f"{agent.limits.memory >> 20:,} (--agent-memory-mb)"
                )

    async def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        limits: ProcessLimits,
        until: anyio.Event,
        keep: Callable[[Ran], None],
    ) -> Ran:
        """Run a command to its end, or shortly after `until` is set; its environment has `KEY`.
        `keep` gets what it left, also where a cancellation ended it. Raises AgentFailed where it
        cannot be started."""
        try:
            process = await anyio.open_process(
                command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as exc:
            raise AgentFailed(f"the command cannot be started: {exc}") from exc
        agent = RunningAgent(process, environment[KEY], folder, limits)
        out, errors = _Output(_MAX_STDOUT, keeps_end=False), _Output(_MAX_STDERR, keeps_end=True)
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(out.read, process.stdout)
                tasks.start_soon(errors.read, process.stderr)
                tasks.start_soon(_stop_after, until, agent)
                try:
                    with self._watched(agent), agent.scope:
                        await process.wait()
                finally:
                    with anyio.CancelScope(shield=True):
                        await self._end(agent)
                with anyio.move_on_after(_GRACE_S):
                    await out.ended.wait()
                    await errors.ended.wait()
                tasks.cancel_scope.cancel()
        finally:
            was_stopped = until.is_set() and not agent.fault
            ran = Ran(
                out.text(),
                errors.text(),
                None if was_stopped else process.returncode,
                out.left_out + errors.left_out,
                agent.fault,
            )
            keep(ran)
        return ran

    async def _end(self, agent: RunningAgent) -> None:
        """End all that belongs to an agent: SIGTERM to its process group, then SIGKILL to
        everything that is still there, until nothing is."""
        group = agent.process.pid
        if agent.process.returncode is None:
            _signal_group(group, signal.SIGTERM)
            with anyio.move_on_after(_GRACE_S):
                await agent.process.wait()
        _signal_group(group, signal.SIGKILL)
        for _ in range(20):  # a process that forks while it is looked for
            left = await self._left_of(agent)
            if not left:
                break
            for pid in left:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            await anyio.sleep(0.01)
        await agent.process.wait()

    async def _left_of(self, agent: RunningAgent) -> list[int]:
        """The processes that belong to an agent and still run. One look at all processes serves
        all agents that wait for one."""
        look = self._next_look
        async with self._looking:
            if not look.is_done:
                self._next_look = _Look()
                look.found = await anyio.to_thread.run_sync(_all_keys)
                look.is_done = True
        return [
            pid
            for pid, start, keys in look.found
            if agent.known.get(pid) == start or agent.key in keys
        ]

    @contextmanager
    def _watched(self, agent: RunningAgent) -> Iterator[None]:
        self._running.add(agent)
        try:
            yield
        finally:
            self._running.discard(agent)


class _Look:
    """One look at all processes: pid, start time, and the keys in the environment."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int, tuple[str, ...]]] = []
        self.is_done = False


class _Process(msgspec.Struct, frozen=True, gc=False):
    pid: int
    parent: int
    start: int  # since the machine's start; with the pid it is unique
    memory: int  # bytes


def _all_processes() -> Iterator[_Process]:
    return _processes_of(int(name) for name in os.listdir("/proc") if name.isdigit())


def _processes_of(pids: Iterable[int]) -> Iterator[_Process]:
    """These processes, as far as they live. Read from /proc: psutil takes five times as long, and
    hundreds of agents run at once."""
    for pid in pids:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            continue
        fields = stat.rpartition(b")")[2].split()  # the third field of proc(5) is the first
        if fields[0] != b"Z":
            yield _Process(pid, int(fields[1]), int(fields[19]), int(fields[21]) * _PAGE)


def _owner_of(
    one: _Process, seen: Mapping[int, _Process], owners: dict[int, RunningAgent | None]
) -> RunningAgent | None:
    """The agent to which a process belongs, by its parents; None: to none."""
    path = []
    at: _Process | None = one
    while at is not None and at.pid not in owners:
        path.append(at.pid)
        owners[at.pid] = None  # until it is known; it also ends a circle
        at = seen.get(at.parent)
    owner = None if at is None else owners[at.pid]
    owners.update(dict.fromkeys(path, owner))
    return owner


async def _stop_after(until: anyio.Event, agent: RunningAgent) -> None:
    await until.wait()
    await anyio.sleep(_GRACE_S)
    agent.scope.cancel()


def _all_keys() -> list[tuple[int, int, tuple[str, ...]]]:
    return [(one.pid, one.start, _keys_of(one.pid)) for one in _all_processes()]


def _keys_of(pid: int) -> tuple[str, ...]:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ()
    mark = f"{KEY}=".encode()
    return tuple(
        one.removeprefix(mark).decode(errors="replace") for one in variables if one.startswith(mark)
    )


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # the group is empty
        os.killpg(group, number)


def _size_of(folder: Path) -> int:
    """The size of the files in a folder, in bytes; links are not followed."""
    size = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(path, name)).st_blocks * 512
    return size
